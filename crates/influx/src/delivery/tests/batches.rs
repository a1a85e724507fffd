//! What a batch waits for, and what ends its waiting.

use std::time::Instant;

use units::Duration as Span;

use super::fake::{Fake, ok};
use super::rig::{LONG, Rig, backend, lines};
use crate::settings::BackendTable;

/// Longer than any of these tests.
fn for_ever() -> Span {
    Span::from_secs(10 * LONG.as_secs())
}

#[tokio::test]
async fn waits_for_company_since_its_first_point() {
    let fake = Fake::start(|_| ok()).await;
    let linger = Span::from_millis(300);
    let rig = Rig::start(&[BackendTable { linger, ..backend("a", &fake) }]).await;
    let begun = Instant::now();
    for n in 0..20 {
        rig.write("d", "r", &lines(n, n + 1)).await;
    }
    rig.settled("a").await;
    let (batches, most) = (fake.writes().len(), begun.elapsed().div_duration_f64(linger.get()));
    assert!((1..=most as usize).contains(&batches), "{batches} batches, {most} times the linger");
}

#[tokio::test]
async fn goes_when_it_is_full() {
    let fake = Fake::start(|_| ok()).await;
    let settings = BackendTable { linger: for_ever(), batch_points: 10, ..backend("a", &fake) };
    let rig = Rig::start(&[settings]).await;
    for n in 0..10 {
        rig.write("d", "r", &lines(n, n + 1)).await;
    }
    rig.settled("a").await;
}

#[tokio::test]
async fn goes_when_a_statement_comes() {
    let fake = Fake::start(|_| ok()).await;
    let settings = BackendTable { linger: for_ever(), ..backend("a", &fake) };
    let rig = Rig::start(&[settings]).await;
    rig.write("d", "r", &lines(0, 1)).await;
    rig.run(1, "d", "DELETE FROM m").await;
    rig.settled("a").await;
    assert_eq!(fake.writes().len(), 1);
}
