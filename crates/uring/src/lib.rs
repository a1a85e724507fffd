//! Sends on many sockets by one call of the system. Half of what a small answer costs is the call
//! that sends it; io_uring (`io_uring(7)`) takes a list of them.
//!
//! It never waits for a socket, holds nothing from one call to the next, and knows no protocol.
//! Where a kernel or a sandbox has no io_uring, each is sent by a call of its own.
//!
//! The one path: [`Sends::send`] puts the sends into the ring, has the kernel do them, and gives
//! the outcome of each. The ring's module proves its `unsafe` code.

mod ring;

use std::io;
use std::os::fd::BorrowedFd;

use rustix::net::SendFlags;

use ring::{Ring, SIZE};

/// Nothing is waited for, and no signal is sent where the connection has failed.
const FLAGS: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

/// Bytes for one socket.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing<'a> {
    /// The connected TCP socket that the bytes go to.
    pub socket: BorrowedFd<'a>,
    /// What it is to send, 2 GiB at most.
    pub bytes: &'a [u8],
}

/// A way to send on many sockets at once. For one thread.
#[derive(Debug)]
pub struct Sends {
    ring: Option<Ring>,
}

impl Sends {
    /// By io_uring, where it is to be had.
    pub fn new() -> Self {
        Self { ring: Ring::new().ok() }
    }

    /// Whether it is by io_uring.
    pub fn is_batched(&self) -> bool {
        self.ring.is_some()
    }

    /// Sends what each socket takes at once, and gives to `outcome` the number of each in `all` and
    /// how many of its bytes were taken, in no order. Two for one socket may overtake each other.
    ///
    /// An outcome is [`WouldBlock`](io::ErrorKind::WouldBlock) where a socket takes nothing, or
    /// says that the connection has failed.
    pub fn send(
        &mut self,
        all: &[Outgoing<'_>],
        mut outcome: impl FnMut(usize, io::Result<usize>),
    ) {
        let mut done = 0;
        // A single one is as well sent by itself.
        while let Some(ring) = self.ring.take_if(|_| done + 1 < all.len()) {
            let some = &all[done..all.len().min(done + SIZE)];
            match ring.send(some, |number, sent| outcome(done + number, sent)) {
                Ok(ring) => {
                    self.ring = Some(ring);
                    done += some.len();
                }
                // From now on by a call for each.
                Err(taken) => done += taken,
            }
        }
        for (number, one) in all.iter().enumerate().skip(done) {
            outcome(number, now(one));
        }
    }
}

impl Default for Sends {
    fn default() -> Self {
        Self::new()
    }
}

/// Sends by a call of its own.
fn now(one: &Outgoing<'_>) -> io::Result<usize> {
    Ok(rustix::net::send(one.socket, one.bytes, FLAGS)?)
}

#[cfg(test)]
mod tests;
