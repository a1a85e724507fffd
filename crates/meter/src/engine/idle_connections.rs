//! Connections that outlive a load. Each load has threads and runtimes of its own, so that between
//! two of them a connection belongs to neither: TCP in the clear only can be carried over.

use std::collections::HashMap;
use std::io;
use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flow::dial::{Address, Socket};

use super::{EngineError, FinishedWindow, Load, Outcome, Plan, run_over};
use crate::workload::Workload;

/// Connections that are kept from one load to the next. A load takes those that are open to its
/// server, opens what it lacks, and leaves all of them here at its end.
#[derive(Debug, Clone, Default)]
pub struct IdleConnections(Arc<Mutex<HashMap<Address, Vec<TcpStream>>>>);

impl IdleConnections {
    /// Runs a plan, as [`super::run`] does.
    ///
    /// # Errors
    /// It could not be begun.
    pub fn run<W: Workload + 'static>(
        &self,
        plan: &Plan,
        make: impl Fn(usize) -> W + Sync,
        each_window: impl FnMut(&FinishedWindow),
    ) -> Result<Outcome, EngineError> {
        run_over(self, &[Load::new("load", plan.clone(), make)], each_window)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all().values().map(Vec::len).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One to that server that is open still, within the calling thread's runtime.
    pub(super) fn take(&self, address: &Address) -> Option<Socket> {
        loop {
            let stream = self.all().get_mut(address)?.pop()?;
            if !is_open(&stream) {
                continue;
            }
            if let Ok(stream) = tokio::net::TcpStream::from_std(stream) {
                return Some(stream.into());
            }
        }
    }

    /// Keeps one on which nothing is under way.
    pub(super) fn put(&self, address: Address, socket: Socket) {
        let Some(stream) = socket.into_tcp_in_clear() else { return };
        if let Ok(stream) = stream.into_std() {
            self.all().entry(address).or_default().push(stream);
        }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Address, Vec<TcpStream>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the server has neither closed it nor said anything on it.
fn is_open(stream: &TcpStream) -> bool {
    matches!(stream.peek(&mut [0]), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}
