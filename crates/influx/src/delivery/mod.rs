//! Delivering what the journal holds to each backend, independently of the others.
//!
//! It never loses a point, never reorders those of one backend, and never asks what a point means
//! as long as it is accepted. The one path: [`intake`] fills a [`batch`] window up to the next
//! statement; [`settle`] sends each piece and, where the backend refuses it, finds the poison by
//! [`halving`]; [`sender`] deals with a backend that is down, busy, locked or lacks a database;
//! then the cursor moves.

// Layers, from the top down.
//   open, replay
//   task
//   settle, statement
//   notes
//   dead_letters, halving, intake, sender, suspects
//   instruments, letter, sizing
//   batch

pub mod batch;
pub mod dead_letters;
pub mod halving;
pub(crate) mod instruments;
mod intake;
pub(crate) mod letter;
mod notes;
mod open;
pub mod replay;
mod sender;
mod settle;
mod sizing;
mod statement;
mod suspects;
mod task;

pub use open::StartError;
pub(crate) use open::{open_cursor, open_letters};
pub use sender::{Interrupted, Pace};
pub(crate) use task::Task;

#[cfg(test)]
mod tests;
