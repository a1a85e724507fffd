//! The ring, and why what it does is sound.
//!
//! The kernel reads the bytes of a send after the entry was put into the ring, so they must stay
//! where they are until it has said what became of it. [`Ring::send`] borrows them and does not
//! return, nor calls anything that could panic, before it has heard of every entry that the kernel
//! took; with `MSG_DONTWAIT` none of them waits for a socket, so that is at once. Entries that the
//! kernel did not take go with the ring, which is given back only where there are none.
#![allow(unsafe_code, reason = "the kernel is given addresses")]

use std::fmt;
use std::io;
use std::os::fd::AsRawFd as _;

use io_uring::{IoUring, opcode, types};

use super::{FLAGS, Outgoing};

/// How many sends go at once.
pub(crate) const SIZE: usize = 256;

/// A ring in which nothing is under way.
pub(crate) struct Ring {
    ring: IoUring,
    /// The number of each send and what became of it, as the kernel says it.
    outcomes: Vec<(u64, i32)>,
}

impl Ring {
    /// A ring of this process.
    ///
    /// # Errors
    /// The kernel has none (before 5.6), or it is not allowed.
    pub fn new() -> io::Result<Self> {
        let ring = IoUring::new(SIZE as u32)?;
        let mut probe = io_uring::Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if !probe.is_supported(opcode::Send::CODE) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(Self { ring, outcomes: Vec::with_capacity(SIZE) })
    }

    /// Sends what each of at most [`SIZE`] sockets takes at once. Gives itself back, or, where the
    /// kernel takes no more entries, how many it has taken, the first ones, of which the outcome
    /// was given.
    pub fn send(
        mut self,
        all: &[Outgoing<'_>],
        mut outcome: impl FnMut(usize, io::Result<usize>),
    ) -> Result<Self, usize> {
        let flags = FLAGS.bits().cast_signed();
        let mut queue = self.ring.submission();
        for (number, Outgoing { socket, bytes }) in all.iter().enumerate() {
            let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            let entry = opcode::Send::new(types::Fd(socket.as_raw_fd()), bytes.as_ptr(), len);
            let entry = entry.flags(flags).build().user_data(number as u64);
            // SAFETY: `all` outlives this call, which ends as the module says.
            if unsafe { queue.push(&entry) }.is_err() {
                break;
            }
        }
        drop(queue);
        let taken = self.complete(all.len());
        for &(number, result) in &self.outcomes {
            let sent = usize::try_from(result);
            outcome(number as usize, sent.map_err(|_| io::Error::from_raw_os_error(-result)));
        }
        self.outcomes.clear();
        if taken == all.len() { Ok(self) } else { Err(taken) }
    }

    /// Has the kernel take the entries and waits until it has said what became of all that it
    /// took; gives how many these are. Must not panic.
    fn complete(&mut self, count: usize) -> usize {
        let mut want = 0;
        loop {
            let entered = self.ring.submit_and_wait(want);
            let taken = count.min(SIZE) - self.ring.submission().len();
            let outcomes = self.ring.completion().map(|entry| (entry.user_data(), entry.result()));
            self.outcomes.extend(outcomes);
            want = taken - self.outcomes.len();
            let again = match &entered {
                Ok(some) => *some > 0 && taken < count,
                Err(error) => error.kind() == io::ErrorKind::Interrupted,
            };
            if want == 0 && !again {
                return taken;
            }
        }
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").finish_non_exhaustive()
    }
}
