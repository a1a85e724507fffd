//! Backends that come, change and go while points flow.

use std::time::Duration;

use super::fake::{Act, Fake, refuse};
use super::rig::{Rig, Store, backend, hanging_backend, lines};
use crate::backends::Phase;
use crate::delivery::dead_letters;
use crate::settings::{BackendTable, Start};

#[tokio::test]
async fn a_backend_that_comes_gets_all_there_is_or_what_is_written_from_then_on() {
    let (stores, fakes) = three_servers().await;
    let a = backend("a", &fakes[0]);
    let rig = Rig::start(std::slice::from_ref(&a)).await;
    rig.write("d", "r", &lines(0, 30)).await;
    rig.settled("a").await;
    let from_now = BackendTable { start: Start::End, ..backend("now", &fakes[1]) };
    rig.reload(&[a.clone(), from_now, backend("all", &fakes[2])]);
    for name in ["now", "all"] {
        rig.cursor_is(name, "begun", |cursor| cursor.is_some_and(|cursor| cursor.in_use)).await;
    }
    rig.write("d", "r", &lines(30, 60)).await;
    for (name, store, from) in [("a", 0, 0), ("now", 1, 30), ("all", 2, 0)] {
        rig.settled(name).await;
        assert_eq!(stores[store].last_arrivals(), (from..60).collect::<Vec<_>>(), "{name}");
    }
    let mut asked: Vec<_> =
        rig.backends.candidates().iter().map(|of| of.name().to_owned()).collect();
    asked.sort();
    assert_eq!(asked, ["a", "all", "now"]);
}

#[tokio::test]
async fn a_backend_that_goes_has_all_that_was_written_before_and_leaves_no_cursor() {
    let (stores, fakes) = three_servers().await;
    let both = [backend("a", &fakes[0]), backend("b", &fakes[1])];
    let rig = Rig::start(&both).await;
    rig.write("d", "r", &lines(0, 500)).await;
    let ticket = rig.backends.statement();
    rig.reload(&both[..1]);
    rig.cursor_is("b", "gone", |cursor| cursor.is_none()).await;
    assert_eq!(stores[1].last_arrivals(), (0..500).collect::<Vec<_>>());
    rig.write("d", "r", &lines(500, 600)).await;
    rig.run(ticket.id(), "d", "DROP MEASUREMENT m").await;
    rig.settled("a").await;
    assert_eq!(stores[0].last_arrivals().len(), 600);
    assert_eq!(stores[1].last_arrivals().len(), 500);
    let report = ticket.wait(Duration::from_secs(60)).await;
    assert!(report.following.is_empty(), "nobody waits for it: {report:?}");
    assert!(rig.backends.candidates().iter().all(|backend| backend.name() == "a"));
    assert!(rig.backends.status(|_| None).iter().all(|status| status.name == "a"));
}

#[tokio::test]
async fn a_backend_that_goes_while_it_is_away_finds_its_backlog_when_it_is_put_back() {
    let (stores, fakes) = three_servers().await;
    fakes[1].behave(|_| refuse(500, "down"));
    let both = [backend("a", &fakes[0]), backend("b", &fakes[1])];
    let rig = Rig::start(&both).await;
    rig.write("d", "r", &lines(0, 10)).await;
    rig.reload(&both[..1]);
    let idle = |cursor: &journal::CursorStatus| !cursor.in_use && cursor.waiting.items == 10;
    rig.cursor_is("b", "kept", |cursor| cursor.is_some_and(idle)).await;
    rig.write("d", "r", &lines(10, 20)).await;
    rig.settled("a").await;
    fakes[1].behave(stores[1].all());
    rig.reload(&both);
    rig.settled("b").await;
    assert_eq!(stores[1].last_arrivals(), (0..20).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_backend_that_moves_goes_on_at_its_new_address_where_the_old_one_hangs() {
    let (stores, fakes) = three_servers().await;
    fakes[0].behave(|_| Act::Hang);
    let rig = Rig::start(&[hanging_backend("a", &fakes[0])]).await;
    rig.write("d", "r", &lines(0, 10)).await;
    rig.until("a", "trying", |status| status.behind_seconds > 0.0).await;
    rig.reload(&[backend("a", &fakes[1])]);
    rig.write("d", "r", &lines(10, 20)).await;
    rig.until("a", "delivering", |status| status.state == Phase::Delivering).await;
    rig.settled("a").await;
    assert_eq!(stores[1].last_arrivals(), (0..20).collect::<Vec<_>>());
    rig.stop().await;
}

#[tokio::test]
async fn a_backend_that_is_put_back_before_it_has_gone_loses_nothing() {
    let (stores, fakes) = three_servers().await;
    let a = BackendTable { start: Start::End, ..backend("a", &fakes[0]) };
    let rig = Rig::start(std::slice::from_ref(&a)).await;
    // It goes on when it is told to, so that the first reload is not carried out before.
    fakes[0].behave(|_| refuse(500, "down"));
    rig.write("d", "r", &lines(0, 10)).await;
    rig.reload(&[]);
    rig.write("d", "r", &lines(10, 20)).await;
    rig.reload(std::slice::from_ref(&a));
    rig.write("d", "r", &lines(20, 30)).await;
    fakes[0].behave(stores[0].all());
    rig.settled("a").await;
    rig.write("d", "r", &lines(30, 40)).await;
    rig.settled("a").await;
    assert_eq!(stores[0].last_arrivals(), (0..40).collect::<Vec<_>>());
    rig.stop().await;
}

#[tokio::test]
async fn a_backend_that_cannot_begin_is_left_out_until_a_reload_finds_it_mended() {
    let (stores, fakes) = three_servers().await;
    let both = [backend("a", &fakes[0]), backend("b", &fakes[1])];
    let rig = Rig::start(&both[..1]).await;
    let letters = dead_letters::file_of(&rig.letters_dir(), "b");
    std::fs::create_dir_all(&letters).unwrap();
    rig.reload(&both);
    let left_out = || rig.backends.status(|_| None).iter().all(|status| status.name == "a");
    let end = std::time::Instant::now() + super::rig::LONG;
    while !left_out() {
        assert!(std::time::Instant::now() < end, "b cannot begin");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    std::fs::remove_dir(&letters).unwrap();
    rig.reload(&both);
    rig.write("d", "r", &lines(0, 10)).await;
    rig.until("b", "delivering", |status| status.state == Phase::Delivering).await;
    rig.settled("b").await;
    assert_eq!(stores[1].last_arrivals().len(), 10);
}

/// Servers that store everything, and what each has stored.
async fn three_servers() -> (Vec<Store>, Vec<Fake>) {
    let stores: Vec<Store> = (0..3).map(|_| Store::default()).collect();
    let mut fakes = Vec::new();
    for store in &stores {
        fakes.push(Fake::start(store.all()).await);
    }
    (stores, fakes)
}
