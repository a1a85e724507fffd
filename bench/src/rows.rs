//! The rows of the table, one idea each.

pub mod aof;
pub mod cluster;
pub mod collisions;
pub mod dd;
pub mod disk;
pub mod hung;
pub mod lines;
pub mod memory;
pub mod meter;
pub mod page;
pub mod postgres;
pub mod redis;
pub mod relays;
pub mod requests;
pub mod store;
pub mod turns;
