//! What the kernel knows of a TCP connection.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use libc::{IPPROTO_TCP, TCP_INFO, c_void, getsockopt, socklen_t};

/// Where `tcpi_min_rtt` is in `struct tcp_info` (linux/tcp.h): behind 8 bytes, 24 numbers of 32
/// bits, four of 64 and three of 32.
const MIN_RTT: usize = 148;
/// As much of it as is looked at.
const LEN: usize = MIN_RTT + size_of::<u32>();

/// The shortest round trip of the last 300 s (`tcp_min_rtt_wlen`), to the microsecond; nothing
/// where the kernel has measured none, knows no such thing, or it is no TCP connection.
#[allow(unsafe_code, reason = "a system call that the standard library has no function for")]
pub fn min_round_trip(connection: BorrowedFd<'_>) -> Option<Duration> {
    let mut info = [0_u8; LEN];
    let mut len = LEN as socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `info`, which is that long, and says in
    // `len` how many; the descriptor is open for as long as it is borrowed.
    let done = unsafe {
        getsockopt(
            connection.as_raw_fd(),
            IPPROTO_TCP,
            TCP_INFO,
            info.as_mut_ptr().cast::<c_void>(),
            &raw mut len,
        )
    };
    if done != 0 || (len as usize) < LEN {
        return None;
    }
    let micros = u32::from_ne_bytes(*info.last_chunk()?);
    // The kernel has all bits set where it has measured none.
    (micros != u32::MAX).then(|| Duration::from_micros(u64::from(micros)))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsFd;
    use std::thread::sleep;
    use std::time::{Duration, Instant};

    use super::min_round_trip;

    #[test]
    #[allow(clippy::unwrap_used, reason = "a test fails by a panic")]
    fn a_connection_has_the_round_trip_of_its_handshake_and_not_its_servers_delay() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let begun = Instant::now();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let took = begun.elapsed();
        let first = min_round_trip(stream.as_fd()).unwrap();
        assert!(first <= took, "{first:?} {took:?}");
        let (mut other, _) = listener.accept().unwrap();
        for _ in 0..20 {
            stream.write_all(b"x").unwrap();
            other.read_exact(&mut [0]).unwrap();
            sleep(Duration::from_millis(2));
            other.write_all(b"x").unwrap();
            stream.read_exact(&mut [0]).unwrap();
        }
        assert!(min_round_trip(stream.as_fd()).unwrap() <= first);
        // Where there is no such thing nothing is said.
        assert_eq!(min_round_trip(UdpSocket::bind("127.0.0.1:0").unwrap().as_fd()), None);
    }
}
