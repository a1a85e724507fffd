//! The sockets of a front: bound all at once, then shared among the workers.

use std::net::SocketAddr;
use std::path::Path;

use serde::{Serialize, Serializer};

use crate::{tcp, udp, unix};

/// A socket could not be had.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// A TCP or UDP address.
    #[error(transparent)]
    Address(#[from] tcp::BindError),
    /// A Unix socket could not be bound.
    #[error(transparent)]
    Unix(#[from] unix::BindError),
}

/// One worker's share of a front's sockets, each kind in the order in which it was bound.
#[derive(Debug, Default)]
pub struct Share {
    /// Sockets that accept TCP connections.
    pub tcp: Vec<tcp::Listener>,
    /// Unix sockets that accept connections.
    pub unix: Vec<unix::Listener>,
    /// Sockets that take UDP datagrams.
    pub udp: Vec<udp::Socket>,
}

/// The sockets of a front, bound and not yet served.
#[derive(Debug)]
pub struct Sockets {
    pub(super) shares: Vec<Share>,
    pub(super) addresses: Addresses,
}

impl Sockets {
    pub(super) fn new(workers: usize) -> Self {
        let shares = (0..workers).map(|_| Share::default()).collect();
        Self { shares, addresses: Addresses::default() }
    }

    /// How many workers share them.
    pub fn workers(&self) -> usize {
        self.shares.len()
    }

    /// Listens on TCP addresses, which the status shows under `name`.
    ///
    /// # Errors
    /// The first that cannot be had.
    pub fn tcp(&mut self, name: &'static str, addresses: &[SocketAddr]) -> Result<(), BindError> {
        let mut at = Vec::new();
        for address in addresses {
            let bound = tcp::bind(*address, self.workers())?;
            at.extend(bound.first().map(tcp::Listener::address));
            self.shares.iter_mut().zip(bound).for_each(|(of, one)| of.tcp.push(one));
        }
        self.addresses.0.push((name, at));
        Ok(())
    }

    /// Receives on UDP addresses, each with the size of its receive buffer in bytes.
    ///
    /// # Errors
    /// The first that cannot be had.
    pub fn udp(
        &mut self,
        name: &'static str,
        addresses: impl IntoIterator<Item = (SocketAddr, usize)>,
    ) -> Result<(), BindError> {
        let mut at = Vec::new();
        for (address, buffer) in addresses {
            let bound = udp::bind(address, self.workers(), buffer)?;
            at.extend(bound.first().map(udp::Socket::address));
            self.shares.iter_mut().zip(bound).for_each(|(of, one)| of.udp.push(one));
        }
        self.addresses.0.push((name, at));
        Ok(())
    }

    /// Listens on a Unix socket, which those may connect to that `mode` lets write.
    ///
    /// # Errors
    /// It cannot be had.
    pub fn unix(&mut self, path: &Path, mode: u32) -> Result<(), BindError> {
        let bound = unix::bind(path, mode, self.workers())?;
        self.shares.iter_mut().zip(bound).for_each(|(of, one)| of.unix.push(one));
        Ok(())
    }
}

/// Where clients connect, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Addresses(pub(super) Vec<(&'static str, Vec<SocketAddr>)>);

impl Addresses {
    /// Those that were bound under `name`.
    pub fn of(&self, name: &str) -> &[SocketAddr] {
        self.0.iter().find(|(bound, _)| *bound == name).map_or(&[], |(_, at)| at)
    }
}

impl Serialize for Addresses {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, at)| (name, at)))
    }
}
