//! Asks a Cluster how it is: now and then, and when something shows that it has changed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Fleet;
use crate::topology::cluster;

/// How often it is asked where nothing shows that it has changed.
const EVERY: Duration = Duration::from_secs(10);
/// How long it is let alone, whatever shows.
const REST: Duration = Duration::from_millis(200);
/// The same where no node has answered.
const AFTER_FAILURE: Duration = Duration::from_secs(1);
/// How long one node may take to answer, before another one is asked.
const ANSWER: Duration = Duration::from_secs(2);

/// Keeps the fleet of a Cluster as the Cluster is, for as long as the worker runs.
pub async fn keep(fleet: Arc<Fleet>) {
    let mut was_told = false;
    loop {
        match survey(&fleet).await {
            Ok(()) => {
                was_told = false;
                tokio::time::sleep(REST).await;
                let _ = tokio::time::timeout(EVERY, fleet.called.notified()).await;
            }
            Err(words) => {
                if !std::mem::replace(&mut was_told, true) {
                    tracing::warn!("no node says how the Cluster is: {words}");
                }
                tokio::time::sleep(AFTER_FAILURE).await;
            }
        }
    }
}

/// Asks one node after the other, until one knows of the newest epoch that was ever heard of; if
/// none does, the one with the newest is believed.
async fn survey(fleet: &Fleet) -> Result<(), String> {
    let view = fleet.view();
    let first = usize::try_from(fleet.first.load(Ordering::Relaxed)).unwrap_or(0);
    let others = (0..view.nodes.len()).filter(|number| view.is_there(*number));
    let all = [first].into_iter().chain(view.holders.iter().copied()).chain(others);
    let (mut asked, mut best, mut wrong) = (Vec::new(), None, String::new());
    for number in all.chain(view.configured.iter().copied()) {
        if asked.contains(&number) {
            continue;
        }
        asked.push(number);
        let Some(server) = view.server(number) else { continue };
        match server.cluster(ANSWER).await {
            Ok(shape) if shape.epoch >= fleet.epoch.load(Ordering::Relaxed) => {
                fleet.epoch.store(shape.epoch, Ordering::Relaxed);
                fleet.take(&shape, number);
                return Ok(());
            }
            Ok(shape) => {
                let is_newer = |(best, _): &(cluster::Shape, usize)| best.epoch < shape.epoch;
                if best.as_ref().is_none_or(is_newer) {
                    best = Some((shape, number));
                }
            }
            Err(words) => wrong = format!("{}: {words}", server.name),
        }
    }
    let (shape, number) = best.ok_or(wrong)?;
    fleet.epoch.store(shape.epoch, Ordering::Relaxed);
    fleet.take(&shape, number);
    Ok(())
}
