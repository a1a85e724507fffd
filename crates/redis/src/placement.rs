//! Which of a pool's servers has a key, as twemproxy (nutcracker) decides it.
//!
//! These are pure functions: a key's tag ([`tagged`]), its [`Hash`], and a [`Ring`] that leads from
//! the hash to a server. The same names, weights, hash and distribution give the same server as
//! twemproxy 0.5.0 on x86-64, key for key; `tests/nutcracker.rs` asks a real one. Where C leaves
//! the sign of a `char` to the platform, signed is meant: a twemproxy that was built for ARM places
//! keys with bytes from 0x80 on differently for some of the hashes.
//!
//! [`slot`] is Redis Cluster's own way.

mod crc;
mod hash;
mod jump;
mod ketama;
mod mixed;
mod ring;
mod shares;
mod tag;
#[cfg(test)]
mod tests;

pub use hash::Hash;
pub use ring::{Distribution, Member, Ring, default_name};
pub use tag::{SLOTS, slot, tagged};
