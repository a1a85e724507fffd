//! Listeners, lanes and outlets between real sockets. What counts the descriptors, the memory or
//! the own listeners of a process has a program of its own beside this one.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests"
)]

mod datagrams;
mod echo;
mod encrypted;
mod lanes;
mod outlets;
mod own;
mod serve;
mod unix;
