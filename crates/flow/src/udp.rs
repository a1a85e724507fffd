//! UDP sockets, one for each worker on the same port.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use socket2::{Domain, Protocol, Socket as RawSocket, Type};
use watch::metrics::{Counter, Registry};

use crate::backoff::Backoff;
use crate::tcp::{BindError, only_v6};
use crate::workers::{PARSE, Worker};

/// The largest datagram there is.
const DATAGRAM_MAX: usize = 65_536;
/// Datagrams taken in a row before the worker's other tasks have their turn.
const TURN: usize = 64;
/// How long receiving rests after an error of the socket.
const REST: (Duration, Duration) = (Duration::from_millis(1), Duration::from_secs(1));

/// A worker's share of a UDP port.
#[derive(Debug)]
pub struct Socket {
    socket: UdpSocket,
    address: SocketAddr,
}

impl Socket {
    /// The address that is received on; its port is never 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The size of the kernel's receive buffer, in bytes of memory. The kernel doubles what it is
    /// asked for and cuts it to twice `net.core.rmem_max` (socket(7)).
    ///
    /// # Errors
    /// The kernel does not say.
    pub fn receive_buffer(&self) -> io::Result<usize> {
        socket2::SockRef::from(&self.socket).recv_buffer_size()
    }
}

/// Opens `count` sockets on `address`, one for each worker, each asking for `receive_buffer` bytes
/// (0: the system's default). With port 0 the kernel chooses one for all of them.
///
/// # Errors
/// The address can not be had, also when another process has it.
pub fn bind(
    address: SocketAddr,
    count: usize,
    receive_buffer: usize,
) -> Result<Vec<Socket>, BindError> {
    let failed = |source| BindError { address, source };
    if address.port() != 0 {
        // As for TCP: only a bind without SO_REUSEPORT tells that another process has the port.
        open(address, receive_buffer, false).map_err(failed)?;
    }
    let mut sockets: Vec<Socket> = Vec::with_capacity(count);
    for _ in 0..count {
        let at = sockets.first().map_or(address, Socket::address);
        sockets.push(open(at, receive_buffer, true).map_err(failed)?);
    }
    Ok(sockets)
}

fn open(address: SocketAddr, receive_buffer: usize, shared: bool) -> io::Result<Socket> {
    let socket = RawSocket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_port(shared)?;
    only_v6(&socket, address)?;
    if receive_buffer > 0 {
        socket.set_recv_buffer_size(receive_buffer)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    let socket = UdpSocket::from(socket);
    let address = socket.local_addr()?;
    Ok(Socket { socket, address })
}

/// Takes datagrams as they come.
pub trait Receive {
    /// A datagram came from `peer`; `bytes` are only lent. Called many times in a row, so it
    /// should gather.
    fn datagram(&mut self, bytes: &[u8], peer: SocketAddr);

    /// No more are waiting, or enough came in a row: what was gathered should go on now.
    fn pause(&mut self);
}

/// What all UDP sockets of a front end have in common. Clones share metrics.
#[derive(Clone, Debug)]
pub struct Endpoint {
    name: String,
    datagrams: Counter,
    bytes: Counter,
    errors: Counter,
    /// The sockets' inodes, by which the kernel tells how much of each it dropped.
    inodes: Arc<Mutex<Vec<u64>>>,
}

impl Endpoint {
    /// A front end's side of its datagrams: `name` is its label in metrics.
    pub fn new(name: &str, registry: &Registry) -> Self {
        let labels = [("listener", name)];
        let counter = |name, help| registry.counter(name, help, &labels);
        let inodes = Arc::default();
        collect_dropped(name, Arc::clone(&inodes), registry);
        Self {
            name: name.to_owned(),
            inodes,
            datagrams: counter("weir_udp_datagrams_total", "Datagrams received."),
            bytes: counter("weir_udp_received_bytes_total", "Bytes of datagrams received."),
            errors: counter("weir_udp_errors_total", "Times that receiving failed."),
        }
    }

    /// Receives on this worker until it drains, and then what the kernel still holds.
    ///
    /// # Errors
    /// The socket can not be used with this runtime.
    pub async fn serve(
        &self,
        socket: Socket,
        worker: &Worker,
        receive: &mut impl Receive,
    ) -> io::Result<()> {
        let _guard = worker.drain.guard();
        let inode = rustix::fs::fstat(socket.socket.as_fd())?.st_ino;
        self.inodes.lock().push(inode);
        let socket = tokio::net::UdpSocket::from_std(socket.socket)?;
        let mut buffer = vec![0; DATAGRAM_MAX];
        let mut rest = Backoff::new(REST.0, REST.1);
        let mut started = std::pin::pin!(worker.drain.started());
        loop {
            let ready = tokio::select! {
                biased;
                () = &mut started => break,
                ready = socket.readable() => ready,
            };
            let turn = match ready {
                Ok(()) => self.turn(&socket, worker, &mut buffer, receive),
                Err(error) => Err(error),
            };
            match turn {
                Ok(true) => tokio::task::yield_now().await,
                Ok(false) => rest.reset(),
                Err(error) => {
                    self.errors.inc();
                    let listener = &self.name;
                    tracing::error!(listener, %error, "receiving datagrams failed, resting");
                    rest.wait().await;
                }
            }
        }
        self.rest(&socket, worker, &mut buffer, receive);
        Ok(())
    }

    /// Takes datagrams until none is left (false) or the turn is over (true).
    fn turn(
        &self,
        socket: &tokio::net::UdpSocket,
        worker: &Worker,
        buffer: &mut [u8],
        receive: &mut impl Receive,
    ) -> io::Result<bool> {
        let _stage = worker.pulse.enter(&PARSE);
        let mut outcome = Ok(true);
        for _ in 0..TURN {
            match socket.try_recv_from(buffer) {
                Ok((length, peer)) => {
                    self.datagrams.inc();
                    self.bytes.add(length as u64);
                    receive.datagram(&buffer[..length], peer);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    outcome = Ok(false);
                    break;
                }
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        receive.pause();
        outcome
    }

    /// What came before the drain is taken, but not what a sender adds for ever.
    fn rest(
        &self,
        socket: &tokio::net::UdpSocket,
        worker: &Worker,
        buffer: &mut [u8],
        receive: &mut impl Receive,
    ) {
        const TURNS_MAX: usize = 1024;
        for _ in 0..TURNS_MAX {
            if !matches!(self.turn(socket, worker, buffer, receive), Ok(true)) {
                return;
            }
        }
    }
}

/// Shows what the kernel dropped because Weir did not take it in time: the last column of
/// `/proc/net/udp` (proc_net_udp in the kernel's documentation), summed over the sockets.
fn collect_dropped(name: &str, inodes: Arc<Mutex<Vec<u64>>>, registry: &Registry) {
    let name = name.to_owned();
    registry.collect(move |encoder| {
        let inodes = inodes.lock().clone();
        let tables = ["/proc/self/net/udp", "/proc/self/net/udp6"];
        let tables = tables.iter().filter_map(|path| std::fs::read_to_string(path).ok());
        let dropped: u64 = tables.map(|table| dropped(&table, &inodes)).sum();
        encoder.counter(
            "weir_udp_dropped_total",
            "Datagrams that the kernel dropped because its receive buffer was full.",
            &[("listener", &name)],
            dropped,
        );
    });
}

/// A table that changes while it is read may have a socket twice.
fn dropped(table: &str, inodes: &[u64]) -> u64 {
    let of_line = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let inode: u64 = fields.nth(9)?.parse().ok()?;
        let dropped: u64 = fields.last()?.parse().ok()?;
        inodes.contains(&inode).then_some((inode, dropped))
    };
    let each: HashMap<u64, u64> = table.lines().skip(1).filter_map(of_line).collect();
    each.into_values().sum()
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_our_sockets_are_counted() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   \
                     uid  timeout inode ref pointer drops\n   \
                     50: 0100007F:2099 00000000:0000 07 00000000:00000000 00:00000000 00000000 \
                     0 0 7001 2 0000000000000000 12\n  \
                     51: 0100007F:2099 00000000:0000 07 00000000:00000000 00:00000000 00000000 \
                     0 0 7002 2 0000000000000000 30\n  \
                     52: broken\n   \
                     50: 0100007F:2099 00000000:0000 07 00000000:00000000 00:00000000 00000000 \
                     0 0 7001 2 0000000000000000 12\n";
        assert_eq!(super::dropped(table, &[7001, 7002]), 42);
        assert_eq!(super::dropped(table, &[7002, 9]), 30);
        assert_eq!(super::dropped(table, &[]), 0);
    }
}
