//! Points that a backend never takes.

use std::sync::{Arc, Mutex};

use super::fake::{Act, Fake, RecordedRequest, ok, refuse};
use super::rig::{Rig, Store, backend, hanging_backend, lines, number};
use crate::backends::Phase;
use crate::catalogue::Listing;
use crate::delivery::dead_letters::{self, Selection};
use crate::delivery::replay::{Replayed, replay};
use crate::settings::BackendTable;
use units::Size;
use wire::influxql::Change;

/// InfluxDB's way with a type conflict: the good points are stored, the bad ones counted.
fn conflict_at(
    store: &Store,
    is_bad: impl Fn(u32) -> bool + Send + 'static,
) -> impl FnMut(&RecordedRequest) -> Act + Send + 'static {
    let store = store.clone();
    move |seen| {
        if !seen.is_write() {
            return ok();
        }
        let (bad, good): (Vec<_>, Vec<_>) =
            seen.lines().into_iter().partition(|line| is_bad(number(line)));
        store.put(good);
        if bad.is_empty() {
            return ok();
        }
        let reason = "field type conflict: input field \"v\" on measurement \"m\" is type string, \
                      already exists as type float";
        refuse(400, &format!("partial write: {reason} dropped={}", bad.len()))
    }
}

/// A server that fails in this way at any request with one of these points, and stores all others.
fn failing_at(
    store: &Store,
    points: &[u32],
    act: impl Fn() -> Act + Send + 'static,
) -> impl FnMut(&RecordedRequest) -> Act + Send + 'static {
    let (store, points) = (store.clone(), points.to_vec());
    move |seen| {
        if seen.is_write() && seen.lines().iter().any(|line| points.contains(&number(line))) {
            return act();
        }
        store.all()(seen)
    }
}

fn runtime_error() -> Act {
    refuse(500, "runtime error: index out of range")
}

#[tokio::test]
async fn a_poison_point_in_every_batch_stops_nothing_but_itself() {
    let store = Store::default();
    let fake = Fake::start(conflict_at(&store, |n| n % 50 == 7)).await;
    let rig = Rig::start(&[BackendTable { batch_points: 50, ..backend("a", &fake) }]).await;
    for from in (0..1_000).step_by(10) {
        rig.write("d", "r", &lines(from, from + 10)).await;
    }
    rig.settled("a").await;
    let good: Vec<u32> = (0..1_000).filter(|n| n % 50 != 7).collect();
    assert_eq!(store.last_arrivals(), good);
    let letters = rig.letters("a");
    let bad: Vec<u32> =
        letters.iter().map(|letter| number(std::str::from_utf8(&letter.line).unwrap())).collect();
    assert_eq!(bad, (0..1_000).filter(|n| n % 50 == 7).collect::<Vec<_>>());
    let first = &letters[0];
    assert_eq!((first.db.as_str(), first.rp.as_str(), first.id.index), ("d", "r", 7));
    assert!(first.reason.starts_with("partial write: field type conflict"));
    let cursor = rig.status("a").cursor.unwrap();
    assert_eq!((cursor.delivered, cursor.dead_lettered), (980, 20));
}

#[tokio::test]
async fn a_point_that_makes_the_server_fail_is_found_while_others_are_accepted() {
    for ill in [500, 0, 1] {
        let store = Store::default();
        let act = move || match ill {
            0 => Act::Hang,
            1 => Act::Reset,
            _ => runtime_error(),
        };
        let fake = Fake::start(failing_at(&store, &[13], act)).await;
        let settings = if ill == 0 { hanging_backend("a", &fake) } else { backend("a", &fake) };
        let rig = Rig::start(&[settings]).await;
        rig.write("d", "r", &lines(0, 40)).await;
        rig.settled("a").await;
        let good: Vec<u32> = (0..40).filter(|n| *n != 13).collect();
        assert_eq!(store.last_arrivals(), good, "{ill}");
        assert_eq!(rig.letters("a").len(), 1, "{ill}");
    }
}

#[tokio::test]
async fn a_failing_point_that_is_alone_waits_for_another_series() {
    let store = Store::default();
    let fake = Fake::start(failing_at(&store, &[0], runtime_error)).await;
    let rig = Rig::start(&[backend("a", &fake)]).await;
    rig.write("d", "r", &lines(0, 1)).await;
    rig.until("a", "retrying", |status| status.state == Phase::Retrying).await;
    // Points of the same series, or of another database, prove nothing.
    rig.write("d", "r", &lines(4, 5)).await;
    rig.write("e", "r", &lines(5, 6)).await;
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    assert!(rig.letters("a").is_empty());
    rig.write("d", "r", &lines(1, 2)).await;
    rig.settled("a").await;
    assert_eq!(rig.letters("a").len(), 1);
    assert_eq!(store.last_arrivals().len(), 3);
}

#[tokio::test]
async fn the_rest_of_its_batch_proves_it_of_a_point_that_is_a_piece_alone() {
    // Failures make batches smaller, down to one point; the next record is cut into such pieces.
    for bad in [8, 11, 15] {
        let store = Store::default();
        let fake = Fake::start(failing_at(&store, &[3, bad], || Act::Reset)).await;
        let rig = Rig::start(&[backend("a", &fake)]).await;
        rig.write("d", "r", &lines(0, 8)).await;
        rig.settled("a").await;
        rig.write("d", "r", &lines(8, 16)).await;
        rig.settled("a").await;
        assert_eq!(rig.letters("a").len(), 2, "{bad}");
        let good: Vec<u32> = (0..16).filter(|n| ![3, bad].contains(n)).collect();
        assert_eq!(store.last_arrivals(), good, "{bad}");
    }
}

#[tokio::test]
async fn a_default_policy_is_the_same_with_its_name_and_without() {
    let store = Store::default();
    let fake = Fake::start(failing_at(&store, &[0], runtime_error)).await;
    let rig = Rig::start(&[backend("a", &fake)]).await;
    // Written before the backend's names were known, and after.
    rig.write("d", "", &lines(0, 1)).await;
    rig.until("a", "retrying", |status| status.state == Phase::Retrying).await;
    let mut listing = Listing::default();
    listing.apply(&Change::CreateDatabase { name: "d".into(), policy: Some("week".into()) });
    rig.catalogue.add("a", listing);
    rig.write("d", "week", &lines(1, 2)).await;
    rig.settled("a").await;
    assert_eq!(rig.letters("a").len(), 1);
    assert_eq!(store.last_arrivals(), [1]);
}

#[tokio::test]
async fn a_batch_that_is_dropped_whole_costs_one_request() {
    let store = Store::default();
    let fake = Fake::start(conflict_at(&store, |_| true)).await;
    let rig = Rig::start(&[backend("a", &fake)]).await;
    rig.write("d", "r", &lines(0, 500)).await;
    rig.settled("a").await;
    assert_eq!(rig.letters("a").len(), 500);
    assert_eq!(fake.writes().len(), 1);
}

#[tokio::test]
async fn when_the_dead_letters_are_full_the_backend_stops_until_there_is_room() {
    let store = Store::default();
    let fake = Fake::start(conflict_at(&store, |n| n < 10)).await;
    let small = BackendTable { dead_letters_max: Size::from_bytes(1_500), ..backend("a", &fake) };
    let rig = Rig::start(&[small]).await;
    rig.write("d", "r", &lines(0, 5)).await;
    rig.settled("a").await;
    rig.write("d", "r", &lines(5, 20)).await;
    rig.until("a", "full", |status| {
        let full = status.reason.as_deref().is_some_and(|reason| reason.contains("is full"));
        status.state == Phase::Stopped && full
    })
    .await;
    let kept = rig.letters("a").len();
    assert!((5..10).contains(&kept), "{kept}");
    dead_letters::drop(&rig.letters_dir(), "a", &Selection::All).unwrap();
    rig.settled("a").await;
    assert_eq!(rig.letters("a").len(), 10 - kept);
    assert_eq!(store.last_arrivals(), (10..20).collect::<Vec<_>>());
}

#[tokio::test]
async fn room_for_the_last_dead_letters_ends_the_stop() {
    let store = Store::default();
    let fake = Fake::start(conflict_at(&store, |_| true)).await;
    let small = BackendTable { dead_letters_max: Size::from_bytes(1_500), ..backend("a", &fake) };
    let rig = Rig::start(&[small]).await;
    rig.write("d", "r", &lines(0, 5)).await;
    rig.settled("a").await;
    rig.write("d", "r", &lines(5, 10)).await;
    rig.until("a", "stopped", |status| status.state == Phase::Stopped).await;
    dead_letters::drop(&rig.letters_dir(), "a", &Selection::All).unwrap();
    rig.settled("a").await;
    let status = rig.status("a");
    assert_eq!((status.state, status.reason), (Phase::Delivering, None));
}

#[tokio::test]
async fn a_poison_point_is_kept_once_though_it_comes_again_after_a_restart() {
    let count = Arc::new(Mutex::new(0));
    let store = Store::default();
    let mut conflict = conflict_at(&store, |n| n == 3);
    let fake = Fake::start(move |seen| {
        if seen.is_write() && seen.lines().iter().any(|line| number(line) > 3) {
            // What follows the poison hangs, so that the cursor stays before it.
            *count.lock().unwrap() += 1;
            if seen.lines().len() < 8 {
                return Act::Hang;
            }
        }
        conflict(seen)
    })
    .await;
    let rig = Rig::start(&[hanging_backend("a", &fake)]).await;
    rig.write("d", "r", &lines(0, 8)).await;
    while rig.letters("a").is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    assert_eq!(rig.status("a").cursor.unwrap().dead_lettered, 0);
    let dir = rig.stop().await;
    fake.behave(conflict_at(&store, |n| n == 3));
    let rig = Rig::start_in(dir, &[backend("a", &fake)]).await;
    rig.settled("a").await;
    assert_eq!(rig.letters("a").len(), 1);
    let cursor = rig.status("a").cursor.unwrap();
    assert_eq!((cursor.delivered, cursor.dead_lettered), (7, 1));
}

#[tokio::test]
async fn letters_are_sent_again_once_the_cause_is_set_right() {
    let store = Store::default();
    let fake = Fake::start(conflict_at(&store, |n| n % 2 == 0)).await;
    let settings = backend("a", &fake);
    let rig = Rig::start(std::slice::from_ref(&settings)).await;
    rig.write("d", "r", &lines(0, 20)).await;
    rig.settled("a").await;
    assert_eq!(rig.letters("a").len(), 10);
    fake.behave(conflict_at(&store, |n| n == 6));
    let dir = rig.letters_dir();
    let settings = settings.settings().unwrap();
    let replayed = replay(&dir, settings.server().unwrap(), None, &Selection::All).await.unwrap();
    assert_eq!(replayed, Replayed { delivered: 9, refused: 1 });
    assert_eq!(rig.letters("a").len(), 1);
    fake.behave(|_| refuse(500, "down"));
    let failed = replay(&dir, settings.server().unwrap(), None, &Selection::All).await.unwrap_err();
    assert!(failed.to_string().contains("down"), "{failed}");
    assert_eq!(rig.letters("a").len(), 1);
}
