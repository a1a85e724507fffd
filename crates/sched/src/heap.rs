//! What Weir asks of the C library's allocator.

/// Gives memory back to the system that was freed and is kept for later (`malloc_trim(3)`): after
/// many large answers and bodies that is most of what they took. It goes through all that is kept,
/// some milliseconds, for which threads that allocate may wait; so it is for quiet moments. Where
/// the C library has no such call nothing is done.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "a function of the C library")]
pub fn give_back() {
    // SAFETY: it takes a number, may be called at any time from any thread, and leaves alone what
    // is in use.
    let _ = unsafe { libc::malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn give_back() {}

/// From this many bytes on a piece of memory is large.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE: libc::c_int = 128 << 10;

/// From now on large pieces of memory come from the system one by one, and go back as they are
/// freed (`M_MMAP_THRESHOLD` of `mallopt(3)`). Else the allocator keeps what a moment needed: it
/// takes larger and larger pieces for small ones. Where the C library has no such call nothing is
/// done.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "a function of the C library")]
pub fn give_back_large() {
    // SAFETY: it takes two numbers, may be called at any time from any thread, and leaves alone
    // what is in use.
    let _ = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn give_back_large() {}
