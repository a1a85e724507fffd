//! What Weir asks of the kernel's scheduler. A request passes through several threads that each
//! run for some microseconds; beside programs that compute, each waits for a CPU on its way, up
//! to a tick of the kernel each time.
//!
//! [`set_slice`] asks for short slices of CPU time (`sched-eevdf` in the kernel's documentation,
//! `sched_setattr(2)`): from Linux 6.12 a thread that asked for them interrupts one that did not
//! as soon as it has something to do, for no more CPU time than is its due and without privileges.
//! [`heap`] asks the allocator for memory back; [`tcp`] asks for what only the kernel knows of a
//! connection.

// Layers, from the top down: a module takes only from those behind it, which tidy checks.
//   heap, tcp

pub mod heap;
pub mod tcp;

use std::io;

use libc::{SCHED_OTHER, SYS_sched_getattr, SYS_sched_setattr, c_long, sched_attr};

/// How long a thread may use a CPU before it is another one's turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slice {
    /// As short as the kernel gives, 0.1 ms.
    Short,
    /// What every thread has that asks for nothing.
    Usual,
}

impl Slice {
    /// Nought asks for the usual one.
    fn ns(self) -> u64 {
        match self {
            Self::Short => 100_000,
            Self::Usual => 0,
        }
    }
}

/// Sets the slice of the calling thread and of those it starts from now on. Gives whether it holds:
/// not where the kernel knows no such thing (before Linux 6.12), or runs this thread by another
/// policy than the usual one, which is left as it is; nor where a filter of system calls refuses,
/// which is logged.
pub fn set_slice(slice: Slice) -> bool {
    try_set_slice(slice).unwrap_or_else(|error| {
        tracing::info!(%error, "no short slices of CPU time are to be had here");
        false
    })
}

fn try_set_slice(slice: Slice) -> io::Result<bool> {
    let mut attributes = get()?;
    if attributes.sched_policy != SCHED_OTHER as u32 {
        return Ok(false);
    }
    attributes.sched_runtime = slice.ns();
    set(&attributes)?;
    // A kernel that knows none takes it without a word, and gives nought.
    Ok(get()?.sched_runtime > 0)
}

/// The attributes of the calling thread.
#[allow(unsafe_code, reason = "the kernel is given an address")]
fn get() -> io::Result<sched_attr> {
    let mut attributes = sched_attr {
        size: 0,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };
    let (address, len) = (std::ptr::from_mut(&mut attributes), size_of::<sched_attr>());
    // SAFETY: the kernel writes no more than `len` bytes, numbers all of them.
    checked(unsafe { libc::syscall(SYS_sched_getattr, 0, address, len, 0) })?;
    Ok(attributes)
}

/// Sets the attributes of the calling thread.
#[allow(unsafe_code, reason = "the kernel is given an address")]
fn set(attributes: &sched_attr) -> io::Result<()> {
    let address = std::ptr::from_ref(attributes);
    // SAFETY: the kernel reads as many bytes as `size` says, which it said itself in `get`: no
    // more than there are.
    checked(unsafe { libc::syscall(SYS_sched_setattr, 0, address, 0) })
}

fn checked(done: c_long) -> io::Result<()> {
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::{Slice, get, set_slice};

    #[test]
    fn a_thread_has_the_slice_it_asked_for_and_hands_it_down() {
        let thread = std::thread::spawn(|| {
            let before = get().unwrap();
            let short = set_slice(Slice::Short);
            let after = get().unwrap();
            assert_eq!((after.sched_policy, after.sched_nice), (0, before.sched_nice));
            assert_eq!(after.sched_runtime, if short { 100_000 } else { 0 });
            let theirs = std::thread::spawn(|| get().unwrap().sched_runtime).join().unwrap();
            assert_eq!(theirs, after.sched_runtime);
            assert_eq!(set_slice(Slice::Usual), short);
            assert_eq!(get().unwrap().sched_runtime, before.sched_runtime);
        });
        thread.join().unwrap();
    }
}
