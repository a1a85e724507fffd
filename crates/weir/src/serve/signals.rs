//! What the outside can tell the process by signals.

use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGHUP: read the configuration again.
    Reload,
    /// SIGTERM or SIGINT: finish what was begun, and end. With the signal's name.
    Stop(&'static str),
}

/// The signals that are listened for. From [`listen`](Self::listen) on none of them kills.
pub struct Signals {
    hangup: Stream,
    terminate: Stream,
    interrupt: Stream,
}

impl Signals {
    /// Begins to listen.
    ///
    /// # Errors
    /// The system refuses a handler.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next signal. Cancelling loses none.
    pub async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.terminate.recv() => Signal::Stop("SIGTERM"),
            _ = self.interrupt.recv() => Signal::Stop("SIGINT"),
            _ = self.hangup.recv() => Signal::Reload,
        }
    }

    /// Waits for the next signal to stop; gives its name.
    pub async fn stop(&mut self) -> &'static str {
        loop {
            if let Signal::Stop(name) = self.next().await {
                return name;
            }
        }
    }
}
