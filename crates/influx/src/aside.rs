//! Work that would hold a worker for too long, since a client decides how much it is: it runs on a
//! thread of its own, a few pieces at a time, while the worker serves its other connections.

use std::panic::resume_unwind;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;

/// The most bytes of lines that a worker reads at one go, unfolded, parsed, checked and appended:
/// half of 10 ms on a slow machine. Another thread has neither the worker's buffers nor what it
/// knows of measurements, so that batches of usual sizes are not sent there.
pub const LINES_AT_ONCE_MAX: usize = 640 << 10;
/// The same for forms, texts and documents, which take longer.
pub const TEXT_AT_ONCE_MAX: usize = 64 << 10;

/// Threads for what takes long; clones share them.
#[derive(Debug, Clone)]
pub struct Aside {
    control: Handle,
    turns: Arc<Semaphore>,
}

/// The process is about to end, so that nothing is begun on another thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("Weir is stopping")]
pub struct Stopping;

impl Aside {
    /// As many at a time as there are cores.
    pub fn new(control: Handle) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { control, turns: Arc::new(Semaphore::new(cores)) }
    }

    /// Runs `work` on another thread. A panic there is the caller's.
    ///
    /// # Errors
    /// The process is about to end.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Stopping> {
        let turn = Arc::clone(&self.turns).acquire_owned().await.ok();
        let done = self.control.spawn_blocking(move || {
            let _turn = turn;
            work()
        });
        match done.await {
            Ok(done) => Ok(done),
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            Err(_) => Err(Stopping),
        }
    }

    /// Waits for something in a task that no worker's end takes with it; `None` where the process
    /// is about to end.
    pub async fn outlast<T: Send + 'static>(
        &self,
        what: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        self.control.spawn(what).await.ok()
    }

    /// Runs `work` on a text here where it has few bytes, else on another thread.
    ///
    /// # Errors
    /// As of [`run`](Self::run).
    pub async fn run_if_long<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Stopping> {
        if bytes <= TEXT_AT_ONCE_MAX { Ok(work()) } else { self.run(work).await }
    }
}
