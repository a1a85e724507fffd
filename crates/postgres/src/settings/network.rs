//! Addresses of clients, and TLS with them.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// `[postgres.tls]`: TLS for clients over TCP, asked for as PostgreSQL's clients do or begun at
/// once (`sslnegotiation=direct`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct TlsSettings {
    /// A PEM file with the certificate, followed by those that lead to the root.
    pub certificate: PathBuf,
    /// A PEM file with its private key; it may be the same file.
    pub key: PathBuf,
    /// Refuse clients over TCP that don't use TLS, with SQLSTATE 28000.
    #[serde(default = "required")]
    pub required: bool,
    /// A PEM file of the authorities whose client certificates are accepted. A client that shows
    /// none can still log in by other methods than `cert`.
    #[serde(default)]
    pub client_ca: Option<PathBuf>,
}

fn required() -> bool {
    true
}

impl TlsSettings {
    /// Certificate and key as a listener wants them.
    pub fn pair(&self) -> flow::tls::Settings {
        flow::tls::Settings { certificate: self.certificate.clone(), key: self.key.clone() }
    }
}

/// A network: an address and how many of its leading bits count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cidr {
    address: IpAddr,
    bits: u8,
}

/// What was written is not a network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a network; write \"10.0.0.0/8\", \"192.168.1.5\" or \"::1\"")]
pub struct CidrError {
    text: String,
}

impl Cidr {
    /// Whether `address` is in the network. An IPv4 address that came by an IPv6 socket is one of
    /// IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let (ours, theirs) = (bits_of(self.address), bits_of(address.to_canonical()));
        let same_kind = self.address.is_ipv4() == address.to_canonical().is_ipv4();
        same_kind && cut(ours, self.bits) == cut(theirs, self.bits)
    }

    /// Whether every address in it is of this machine.
    pub fn is_loopback(&self) -> bool {
        let bits_min = if self.address.is_ipv4() { 8 } else { 128 };
        self.address.is_loopback() && self.bits >= bits_min
    }
}

/// The address from the highest bit on.
fn bits_of(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// The leading `bits` of `address`, the others zero.
fn cut(address: u128, bits: u8) -> u128 {
    let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
    address & mask
}

impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, CidrError> {
        let wrong = || CidrError { text: text.to_owned() };
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.trim().parse().map_err(|_| wrong())?;
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            Some(bits) => bits.trim().parse().map_err(|_| wrong())?,
            None => bits_max,
        };
        if bits > bits_max {
            return Err(wrong());
        }
        Ok(Self { address, bits })
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl Serialize for Cidr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Cidr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

impl JsonSchema for Cidr {
    fn schema_name() -> Cow<'static, str> {
        "Cidr".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "description": "A network, as \"10.0.0.0/8\"." })
    }
}

#[cfg(test)]
mod tests {
    use super::Cidr;

    #[test]
    fn a_network_holds_its_addresses_and_no_others() {
        for (network, address, held) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.0.0.0/8", "::ffff:10.1.1.1", true),
            ("10.0.0.0/8", "a00::1", false),
            ("0.0.0.0/0", "8.8.8.8", true),
            ("0.0.0.0/0", "::1", false),
            ("::/0", "2001:db8::1", true),
            ("::1", "::1", true),
            ("2001:db8::/33", "2001:db8:8000::", false),
            ("192.168.1.5", "192.168.1.5", true),
            ("192.168.1.5", "192.168.1.4", false),
        ] {
            let network: Cidr = network.parse().unwrap();
            assert_eq!(network.contains(address.parse().unwrap()), held, "{network} {address}");
        }
    }

    #[test]
    fn only_whole_loopback_networks_are_of_this_machine() {
        for (network, local) in [
            ("127.0.0.1", true),
            ("127.0.0.0/8", true),
            ("127.0.0.0/7", false),
            ("::1/128", true),
            ("::1/127", false),
            ("0.0.0.0/0", false),
        ] {
            assert_eq!(network.parse::<Cidr>().unwrap().is_loopback(), local, "{network}");
        }
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in ["", "10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0.0/-1", "host", "10/8"] {
            assert!(text.parse::<Cidr>().is_err(), "{text}");
        }
    }
}
