//! Networks: an address and how many of its bits count.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A network of either family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Network {
    address: IpAddr,
    bits: u32,
}

impl Network {
    /// Every address, of both families.
    pub(super) fn all() -> Vec<Self> {
        vec![
            Self { address: Ipv4Addr::UNSPECIFIED.into(), bits: 0 },
            Self { address: Ipv6Addr::UNSPECIFIED.into(), bits: 0 },
        ]
    }

    /// `10.0.0.0/8`, `::1/128`; a single address is a network of one.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse().ok()?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let width = width(address);
        let bits = bits.unwrap_or(width);
        (bits <= width).then_some(Self { address, bits })
    }

    /// An address and a mask, as two words.
    pub(super) fn masked(address: &str, mask: &str) -> Option<Self> {
        let (address, mask): (IpAddr, IpAddr) = (address.parse().ok()?, mask.parse().ok()?);
        let mask = match (address, mask) {
            (IpAddr::V4(_), IpAddr::V4(mask)) => u128::from(mask.to_bits()) << 96,
            (IpAddr::V6(_), IpAddr::V6(mask)) => mask.to_bits(),
            _ => return None,
        };
        let bits = mask.leading_ones();
        (mask.count_ones() == bits).then_some(Self { address, bits })
    }

    /// Whether all of it is on this machine.
    pub(super) fn is_loopback(&self) -> bool {
        match self.address {
            IpAddr::V4(address) => address.is_loopback() && self.bits >= 8,
            IpAddr::V6(address) => address.is_loopback() && self.bits == 128,
        }
    }

    pub(super) fn contains(&self, address: IpAddr) -> bool {
        // A listener of both families shows an IPv4 client as ::ffff:a.b.c.d.
        let (own, other) = match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                (u128::from(own.to_bits()) << 96, u128::from(other.to_bits()) << 96)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => (own.to_bits(), other.to_bits()),
            _ => return false,
        };
        // A shift by all 128 bits means that none counts.
        (own ^ other).checked_shr(128 - self.bits).unwrap_or(0) == 0
    }
}

fn width(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}
