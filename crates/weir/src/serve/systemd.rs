//! What a service manager is told, over the socket of `$NOTIFY_SOCKET` (sd_notify(3)). Without
//! that variable every word goes nowhere.

use std::time::Duration;

use sd_notify::NotifyState;

/// Says that writes are taken.
pub fn ready() {
    tell(&[NotifyState::Ready]);
}

/// The configuration is being read again; [`ready`] ends it.
pub fn reloading() {
    // Type=notify-reload asks for the moment, so that an answer to an older signal isn't taken
    // for the answer to this one.
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(error) => tracing::debug!(%error, "no monotonic clock for the service manager"),
    }
}

/// No more connections are accepted; what was begun is being finished.
pub fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// Tells the service manager that Weir lives, as often as it wants (`WatchdogSec=`), for as long
/// as `alive` says so. Returns at once where it doesn't want to know.
pub async fn watchdog(alive: impl Fn() -> bool) {
    let mut limit_us = 0;
    if !sd_notify::watchdog_enabled(false, &mut limit_us) {
        return;
    }
    // A third, so that one late tick is not a death.
    let mut tick = tokio::time::interval(Duration::from_micros(limit_us / 3).max(MIN_TICK));
    loop {
        tick.tick().await;
        if alive() {
            tell(&[NotifyState::Watchdog]);
        }
    }
}

const MIN_TICK: Duration = Duration::from_millis(10);

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(false, states) {
        tracing::warn!(%error, "the service manager can't be told; check NOTIFY_SOCKET");
    }
}
