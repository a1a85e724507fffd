//! What ends a load from elsewhere.

use std::io;

use meter::engine::Stop;
use tokio::signal::unix::{SignalKind, signal};

use crate::exit::Failure;

/// The first SIGINT or SIGTERM ends the sending, a second one the waiting for answers, too.
pub fn stop_at_signals(stop: Stop) -> Result<(), Failure> {
    hear_signals(move || stop.ask())
}

/// Calls at each SIGINT and SIGTERM, which then do nothing else.
pub fn hear_signals(call: impl Fn() + Send + 'static) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::other(format!("can't hear of signals: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(failed)?;
    let (mut interrupt, mut terminate) = {
        let _entered = runtime.enter();
        let interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        (interrupt, signal(SignalKind::terminate()).map_err(failed)?)
    };
    let listening = move || {
        runtime.block_on(async {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                call();
            }
        });
    };
    let thread = std::thread::Builder::new().name("signals".to_owned());
    thread.spawn(listening).map(drop).map_err(failed)
}
