//! Wakes a thread at a moment, to the microsecond: tokio's own timers are of whole milliseconds,
//! which would make every request late by half of one.

use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A timer of the kernel (timerfd_create(2)).
#[derive(Debug)]
pub struct Alarm(AsyncFd<OwnedFd>);

impl Alarm {
    /// One that is not set.
    ///
    /// # Errors
    /// There is no descriptor left.
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        #[expect(deprecated, reason = "what is in its place is unsafe, and an OwnedFd stays open")]
        Ok(Self(AsyncFd::with_interest(timer, Interest::READABLE)?))
    }

    /// Sets it; what it was set to before is forgotten.
    ///
    /// # Errors
    /// As the system's.
    pub fn set(&self, at: Instant) -> io::Result<()> {
        // Nought would never ring.
        let wait = at.saturating_duration_since(Instant::now()).max(Duration::from_nanos(1));
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let it_value = Timespec::try_from(wait).unwrap_or(zero);
        let once = Itimerspec { it_interval: zero, it_value };
        timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }

    /// Whether it has rung. It may have for what it was set to before. What the descriptor counts
    /// is never read: to set it anew makes it nought again.
    pub fn poll(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_read_ready(cx).map_ok(|mut ready| ready.clear_ready())
    }
}
