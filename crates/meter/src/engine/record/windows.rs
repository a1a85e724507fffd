//! The windows of one thread, of which one is open at a time.

use std::sync::mpsc::SyncSender;
use std::time::Duration;

use crate::engine::collector::Window;
use crate::engine::thread::ThreadMessage;
use crate::injector::BusyTime;
use crate::window::WINDOW;

/// The number under which that is handed on which ended behind the last whole window.
const REST: u64 = u64::MAX - 1;

/// The window that is open, and where those go that have ended.
pub struct Windows {
    pub open: Window,
    pub number: u64,
    busy: BusyTime,
    /// How long the thread was busy until the window began.
    busy_before: Duration,
    say: SyncSender<ThreadMessage>,
}

impl Windows {
    /// The first window of the calling thread is open.
    pub fn new(busy: BusyTime, say: SyncSender<ThreadMessage>) -> Self {
        let busy_before = busy.so_far();
        Self { open: Window::default(), number: 0, busy, busy_before, say }
    }

    /// Forgets how busy the thread was before what counts.
    pub fn begin_measuring(&mut self) {
        self.busy_before = self.busy.so_far();
    }

    /// Hands on the window as it is, in which the thread paused for so long, and opens the next.
    pub fn hand_on(&mut self, paused: Duration) {
        self.open.results.paused = paused;
        let busy = self.busy.so_far();
        self.open.busy = busy.saturating_sub(self.busy_before).min(WINDOW);
        self.busy_before = busy;
        let window = std::mem::take(&mut self.open);
        // Whoever listens no longer needs no window.
        let _ = self.say.send(ThreadMessage::Window(self.number, Box::new(window)));
        self.number += 1;
    }

    /// Hands on what ended behind the last whole window.
    pub fn hand_on_rest(&mut self) {
        self.number = REST;
        self.hand_on(Duration::ZERO);
    }
}
