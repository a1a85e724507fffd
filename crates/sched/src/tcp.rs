//! What the kernel knows of a TCP connection.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use libc::{IPPROTO_TCP, TCP_INFO, c_void, getsockopt, socklen_t};

/// Where fields of `struct tcp_info` are (linux/tcp.h). It begins with 8 bytes.
mod at {
    /// `tcpi_probes`, a single byte.
    pub(super) const PROBES: usize = 3;
    /// `tcpi_unacked`, behind four numbers of 32 bits; all others here are such numbers, too.
    pub(super) const UNACKED: usize = 24;
    /// `tcpi_last_data_recv`.
    pub(super) const LAST_DATA_RECV: usize = 52;
    /// `tcpi_last_ack_recv`.
    pub(super) const LAST_ACK_RECV: usize = 56;
    /// `tcpi_min_rtt`: behind 24 numbers of 32 bits, four of 64 and three of 32.
    pub(super) const MIN_RTT: usize = 148;
}
/// As much of it as is looked at.
const LEN: usize = at::MIN_RTT + size_of::<u32>();

/// The shortest round trip of the last 300 s (`tcp_min_rtt_wlen`), to the microsecond; nothing
/// where the kernel has measured none, knows no such thing, or it is not a TCP connection.
pub fn min_round_trip(connection: BorrowedFd<'_>) -> Option<Duration> {
    let micros = number(&info(connection)?, at::MIN_RTT)?;
    // The kernel has all bits set where it has measured none.
    (micros != u32::MAX).then(|| Duration::from_micros(u64::from(micros)))
}

/// What the peer of a connection owes, as of now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owed {
    /// Something was sent that the peer has not acknowledged: data, or the question whether it is
    /// there and takes data again. Data that wait for a window that the peer has closed were not
    /// sent.
    pub is_unacknowledged: bool,
    /// How long ago anything came from the peer: an acknowledgement, or data.
    pub heard_ago: Duration,
}

/// What the peer of a connection owes; nothing is known where it is not a TCP connection.
pub fn owed(connection: BorrowedFd<'_>) -> Option<Owed> {
    let info = info(connection)?;
    let millis = |at| Some(Duration::from_millis(u64::from(number(&info, at)?)));
    Some(Owed {
        is_unacknowledged: number(&info, at::UNACKED)? > 0 || info[at::PROBES] > 0,
        heard_ago: millis(at::LAST_ACK_RECV)?.min(millis(at::LAST_DATA_RECV)?),
    })
}

fn number(info: &[u8; LEN], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*info.get(at..)?.first_chunk()?))
}

#[allow(unsafe_code, reason = "a system call that the standard library has no function for")]
fn info(connection: BorrowedFd<'_>) -> Option<[u8; LEN]> {
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
    (done == 0 && len as usize >= LEN).then_some(info)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsFd;
    use std::thread::sleep;
    use std::time::{Duration, Instant};

    use super::{min_round_trip, owed};

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

    #[test]
    #[allow(clippy::unwrap_used, reason = "a test fails by a panic")]
    fn who_takes_nothing_owes_nothing_for_as_long_as_its_window_is_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_other, _) = listener.accept().unwrap();
        assert!(!owed(stream.as_fd()).unwrap().is_unacknowledged);
        stream.set_nonblocking(true).unwrap();
        while stream.write(&[0; 64 << 10]).is_ok() {}
        // Between two looks the kernel may ask for the window and be answered.
        let begun = Instant::now();
        while owed(stream.as_fd()).unwrap().is_unacknowledged {
            assert!(begun.elapsed() < Duration::from_secs(60));
        }
        assert_eq!(owed(UdpSocket::bind("127.0.0.1:0").unwrap().as_fd()), None);
    }
}
