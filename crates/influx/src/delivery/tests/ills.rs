//! Backends that are ill: everything arrives once they are well, and nothing becomes a dead
//! letter.

use std::time::{Duration, Instant};

use super::fake::{Act, Fake, RecordedRequest, ok, refuse};
use super::rig::{Rig, Store, backend, hanging_backend, lines};
use crate::backends::Phase;
use crate::settings::BackendTable;
use units::Size;

/// Writes while the server is ill, sees that it is said, heals it and sees that all arrives.
async fn survives(
    phase: Phase,
    words: &str,
    ill: impl FnMut(&RecordedRequest) -> Act + Send + 'static,
) {
    let fake = Fake::start(ill).await;
    let rig = Rig::start(&[hanging_backend("a", &fake)]).await;
    for from in (0..200).step_by(20) {
        rig.write("d", "r", &lines(from, from + 20)).await;
    }
    rig.until("a", "ill", |status| {
        let said = status.reason.as_deref().is_some_and(|reason| reason.contains(words));
        status.state == phase && said
    })
    .await;
    let store = Store::default();
    fake.behave(store.all());
    rig.settled("a").await;
    assert_eq!(store.last_arrivals(), (0..200).collect::<Vec<_>>());
    assert!(rig.letters("a").is_empty());
    let metrics = rig.registry.render();
    let delivered = "weir_influx_backend_delivered_points_total{backend=\"a\"} 200";
    assert!(metrics.contains(delivered), "{metrics}");
    let status = rig.status("a");
    assert_eq!(status.state, Phase::Delivering);
    assert_eq!(status.reason, None);
    assert!(status.last_error.is_some());
    assert_eq!(status.cursor.unwrap().delivered, 200);
    rig.stop().await;
}

#[tokio::test]
async fn answers_500_to_everything() {
    survives(Phase::Retrying, "engine", |_| refuse(500, "engine is closed")).await;
}

#[tokio::test]
async fn answers_503_to_everything() {
    survives(Phase::Retrying, "queue full", |_| {
        Act::Answer(503, "request throttled, queue full\n".into())
    })
    .await;
}

#[tokio::test]
async fn refuses_the_credentials() {
    survives(Phase::Stopped, "authorization failed", |_| refuse(401, "authorization failed")).await;
}

#[tokio::test]
async fn is_no_influxdb_at_all() {
    survives(Phase::Stopped, "does not take writes", |_| Act::Answer(404, "nginx".into())).await;
}

#[tokio::test]
async fn hangs() {
    survives(Phase::Retrying, "no answer within", |_| Act::Hang).await;
}

#[tokio::test]
async fn resets_every_connection() {
    survives(Phase::Retrying, "", |_| Act::Reset).await;
}

#[tokio::test]
async fn answers_garbage() {
    survives(Phase::Retrying, "", |_| Act::Garbage).await;
}

#[tokio::test]
async fn says_400_in_words_that_are_not_influxdbs() {
    survives(Phase::Retrying, "HTTPS port", |_| {
        Act::Answer(400, "The plain HTTP request was sent to HTTPS port".into())
    })
    .await;
}

#[tokio::test]
async fn resets_every_second_connection_at_random_places() {
    let store = Store::default();
    let (stored, mut count) = (store.clone(), 0_u32);
    let fake = Fake::start(move |seen| {
        count = count.wrapping_mul(1_103_515_245).wrapping_add(12_345);
        match (count >> 16) % 3 {
            0 => Act::Reset,
            // Stored, but the answer is lost.
            1 => {
                stored.put(seen.lines());
                Act::Garbage
            }
            _ => {
                stored.put(seen.lines());
                ok()
            }
        }
    })
    .await;
    let kind = crate::settings::BackendKind::VictoriaMetrics;
    let rig = Rig::start(&[BackendTable { kind, ..backend("a", &fake) }]).await;
    for from in (0..1_000).step_by(10) {
        rig.write("d", "r", &lines(from, from + 10)).await;
    }
    rig.settled("a").await;
    assert_eq!(store.last_arrivals(), (0..1_000).collect::<Vec<_>>());
    assert!(rig.letters("a").is_empty());
}

#[tokio::test]
async fn a_pause_that_is_asked_for_is_kept() {
    let mut first = true;
    let fake = Fake::start(move |seen| {
        if !seen.is_write() || !std::mem::take(&mut first) {
            return ok();
        }
        Act::AnswerWith(429, "Retry-After: 1", "slow down".into())
    })
    .await;
    let rig = Rig::start(&[backend("a", &fake)]).await;
    let begun = Instant::now();
    rig.write("d", "r", &lines(0, 1)).await;
    rig.settled("a").await;
    assert!(begun.elapsed() >= Duration::from_millis(990), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn one_hung_backend_holds_up_no_other() {
    let hung = Fake::start(|_| Act::Hang).await;
    let store = Store::default();
    let well = Fake::start(store.all()).await;
    let rig = Rig::start(&[hanging_backend("hung", &hung), backend("well", &well)]).await;
    rig.write("d", "r", &lines(0, 100)).await;
    rig.settled("well").await;
    assert_eq!(store.last_arrivals().len(), 100);
    assert_eq!(rig.status("hung").cursor.unwrap().waiting.items, 100);
    let names: Vec<_> = rig.backends.candidates().iter().map(|one| one.name().to_owned()).collect();
    assert_eq!(names.len(), 2);
    rig.until("hung", "behind", |status| status.behind_seconds > 1.0).await;
    assert_eq!(rig.backends.candidates()[0].name(), "well");
}

#[tokio::test]
async fn after_a_413_batches_stay_below_it() {
    let store = Store::default();
    let stored = store.clone();
    let fake = Fake::start(move |seen| {
        if seen.is_write() && seen.body.len() > 2_000 {
            return refuse(413, "Request Entity Too Large");
        }
        stored.all()(seen)
    })
    .await;
    let rig = Rig::start(&[backend("a", &fake)]).await;
    for from in (0..2_000).step_by(500) {
        rig.write("d", "r", &lines(from, from + 500)).await;
    }
    rig.settled("a").await;
    fake.seen.lock().unwrap().clear();
    for from in (2_000..4_000).step_by(500) {
        rig.write("d", "r", &lines(from, from + 500)).await;
    }
    rig.settled("a").await;
    assert_eq!(store.last_arrivals(), (0..4_000).collect::<Vec<_>>());
    let too_large = fake.writes().iter().filter(|seen| seen.body.len() > 2_000).count();
    assert!(too_large <= 8, "{too_large}");
}

#[tokio::test]
async fn what_was_not_settled_is_delivered_after_a_restart() {
    let fake = Fake::start(|_| Act::Hang).await;
    let rig = Rig::start(&[hanging_backend("a", &fake)]).await;
    rig.write("d", "r", &lines(0, 50)).await;
    rig.until("a", "trying", |status| status.behind_seconds > 0.0).await;
    let dir = rig.stop().await;
    let store = Store::default();
    fake.behave(store.all());
    let rig = Rig::start_in(dir, &[backend("a", &fake)]).await;
    rig.settled("a").await;
    assert_eq!(store.last_arrivals(), (0..50).collect::<Vec<_>>());
    assert_eq!(rig.status("a").cursor.unwrap().delivered, 50);
}

#[tokio::test]
async fn a_backend_that_has_caught_up_is_not_called_catching_up() {
    let fake = Fake::start(|_| refuse(500, "down")).await;
    let rig = Rig::start(&[backend("a", &fake)]).await;
    rig.write("d", "r", &lines(0, 10)).await;
    rig.until("a", "retrying", |status| status.state == Phase::Retrying).await;
    rig.write("d", "r", &lines(10, 20)).await;
    rig.until("a", "behind", |status| status.behind_seconds > 2.1).await;
    fake.behave(Store::default().all());
    rig.settled("a").await;
    rig.until("a", "delivering", |status| status.state == Phase::Delivering).await;
    assert!(rig.backends.all()[0].behind().is_none());
}

#[tokio::test]
async fn a_backlog_goes_out_in_large_batches_and_new_points_wait_for_company() {
    let fake = Fake::start(|_| refuse(500, "down")).await;
    let settings =
        BackendTable { batch_points: 1_000, batch_bytes: Size::from_mib(1), ..backend("a", &fake) };
    let rig = Rig::start(&[settings]).await;
    for n in 0..3_000 {
        rig.write("d", "r", &lines(n, n + 1)).await;
    }
    let store = Store::default();
    fake.seen.lock().unwrap().clear();
    fake.behave(store.all());
    rig.settled("a").await;
    assert_eq!(store.last_arrivals(), (0..3_000).collect::<Vec<_>>());
    let largest = fake.writes().iter().map(|seen| seen.lines().len()).max().unwrap();
    assert_eq!(largest, 1_000);
}
