//! The load meter: what a request costs its injector beside other generators, and whether what it
//! says is true.
//!
//! Two cores are shared with the server, so that requests a second are the server's. What counts is
//! the CPU time of the injector's whole process for each request, from its start to its end, and
//! both sides have one thread. The verdict of each run is a note.

pub mod counts;
pub mod dubbo;
pub mod http;
pub mod injector;
pub mod memory;
pub mod postgres;
pub mod redis;
pub mod speed;
pub mod stall;
pub mod verdicts;
