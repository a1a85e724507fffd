//! What an operator writes into the configuration: durations and sizes, secrets, times of the day,
//! lists of one or more; and how a configuration is written where another program's is carried
//! over.
//!
//! Each type is read from its text by serde, names the text that it does not take, and describes
//! itself to the schema.
#![warn(missing_docs)]

// Layers, from the top down: a module takes only from those behind it, which tidy checks.
//   draft, list, quantity, secret, window

pub mod draft;
pub mod list;
mod quantity;
pub mod secret;
pub mod window;

pub use quantity::{Duration, Size, UnitError};
