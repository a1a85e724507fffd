//! The addresses that this process may connect to, where somebody else says what is to be dialled:
//! each connection is held against them by the address that a name has led to.
//!
//! Nothing is fenced before [`fence`] is called, and no call takes a fence away.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::OnceLock;

use ipnet::IpNet;

use super::host_and_port;

static FENCE: OnceLock<AllowedAddresses> = OnceLock::new();

/// The most networks of a list.
const NETWORKS_MAX: usize = 256;

/// Lets this process connect to these addresses only, and to no Unix socket, from now on; a second
/// call changes nothing.
pub fn fence(allowed: AllowedAddresses) {
    let _ = FENCE.set(allowed);
}

/// Says whether this process may connect there.
///
/// # Errors
/// It may not: [`io::ErrorKind::PermissionDenied`].
pub fn check_fence(address: SocketAddr) -> io::Result<()> {
    FENCE.get().map_or(Ok(()), |allowed| allowed.check(address))
}

pub(super) fn check_unix() -> io::Result<()> {
    let refused = |_| Err(refused("a Unix socket"));
    FENCE.get().map_or(Ok(()), refused)
}

fn refused(what: impl fmt::Display) -> io::Error {
    let words = format!("{what} is not among the addresses that may be connected to");
    io::Error::new(io::ErrorKind::PermissionDenied, words)
}

/// Networks with their ports, as `10.1.0.0/16`, `10.2.0.7:8086` or `[fd00::1]:6379`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedAddresses(Vec<AllowedNetwork>);

/// A network, on one port or on all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AllowedNetwork {
    network: IpNet,
    port: Option<u16>,
}

impl AllowedAddresses {
    /// Those of this machine alone.
    pub fn loopback() -> Self {
        let of = |address: IpAddr, prefix| AllowedNetwork {
            network: IpNet::new_assert(address, prefix).trunc(),
            port: None,
        };
        Self(vec![of(Ipv4Addr::LOCALHOST.into(), 8), of(Ipv6Addr::LOCALHOST.into(), 128)])
    }

    /// Refuses an address that is in none of the networks.
    ///
    /// # Errors
    /// It is in none: [`io::ErrorKind::PermissionDenied`].
    pub fn check(&self, address: SocketAddr) -> io::Result<()> {
        // The kernel takes an IPv4 address in an IPv6 one for that IPv4 address.
        let ip = address.ip().to_canonical();
        let has = |of: &AllowedNetwork| {
            of.network.contains(&ip) && of.port.is_none_or(|port| port == address.port())
        };
        if self.0.iter().any(has) { Ok(()) } else { Err(refused(address)) }
    }
}

impl FromStr for AllowedAddresses {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let networks = text.split(',').map(|text| text.trim().parse());
        let networks = networks.collect::<Result<Vec<_>, _>>()?;
        match networks.len() {
            ..=NETWORKS_MAX => Ok(Self(networks)),
            _ => Err(format!("a list has up to {NETWORKS_MAX} networks")),
        }
    }
}

impl FromStr for AllowedNetwork {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("{text:?} is not an address: write it as 10.1.0.0/16, 10.2.0.7:80 or [fd00::1]")
        };
        let network = |text: &str| -> Option<IpNet> {
            let network = text.parse::<IpNet>().ok();
            network.or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
        };
        if let Some(network) = network(text) {
            return Ok(Self { network: network.trunc(), port: None });
        }
        let (host, port) = host_and_port(text, 80).map_err(|_| wrong())?;
        let network = network(host).ok_or_else(wrong)?;
        let port = port.map(|port| port.parse::<u16>()).transpose().map_err(|_| wrong())?;
        Ok(Self { network: network.trunc(), port })
    }
}

impl fmt::Display for AllowedAddresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, AllowedNetwork { network, port }) in self.0.iter().enumerate() {
            f.write_str(if number > 0 { ", " } else { "" })?;
            match port {
                None => write!(f, "{network}")?,
                Some(port) => write!(f, "{network} on port {port}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::AllowedAddresses;

    fn allows(list: &str, address: &str) -> bool {
        let list: AllowedAddresses = list.parse().unwrap();
        list.check(address.parse().unwrap()).is_ok()
    }

    #[test]
    fn an_address_is_allowed_by_its_network_and_its_port() {
        let list = "10.1.0.0/16, 10.2.0.7:8086,[fd00::1]:6379,fd01::/64";
        for (address, is_allowed) in [
            ("10.1.255.9:1", true),
            ("10.2.0.7:8086", true),
            ("10.2.0.7:8087", false),
            ("10.2.0.8:8086", false),
            ("[fd00::1]:6379", true),
            ("[fd00::2]:6379", false),
            ("[fd01::9]:5", true),
            ("127.0.0.1:8086", false),
            // The same address in its other form.
            ("[::ffff:10.1.2.3]:80", true),
            ("[::ffff:10.3.2.3]:80", false),
        ] {
            assert_eq!(allows(list, address), is_allowed, "{address}");
        }
    }

    #[test]
    fn loopback_is_this_machine_alone() {
        let loopback = AllowedAddresses::loopback();
        for (address, is_allowed) in [
            ("127.0.0.1:1", true),
            ("127.9.0.1:1", true),
            ("[::1]:1", true),
            ("[::ffff:127.0.0.1]:1", true),
            ("0.0.0.0:1", false),
            ("[::]:1", false),
            ("10.0.0.1:1", false),
        ] {
            assert_eq!(loopback.check(address.parse().unwrap()).is_ok(), is_allowed, "{address}");
        }
        assert_eq!(loopback.to_string(), "127.0.0.0/8, ::1/128");
    }

    #[test]
    fn what_is_not_an_address_is_told() {
        for wrong in [
            "",
            "host",
            "10.0.0.1/33",
            "10.0.0.1:port",
            "1.2.3.4:99999",
            "10.0.0.1,",
            "[fd00::1]80",
        ] {
            let error = wrong.parse::<AllowedAddresses>().unwrap_err();
            assert!(error.contains("is not an address"), "{wrong}: {error}");
        }
        let many = vec!["10.0.0.1"; 257].join(",");
        assert!(many.parse::<AllowedAddresses>().is_err());
    }
}
