//! What a running Weir says of itself, read as an operator would: its status, what is wrong, worst
//! first, and what has happened between two moments. All of it is pure.

// Layers, from the top down: a module takes only from those behind it, which tidy checks.
//   frame
//   changes
//   findings
//   fill, observation, remedy
//   event, installation, status

pub mod changes;
pub mod event;
pub mod fill;
pub mod findings;
pub mod frame;
pub mod installation;
pub mod observation;
pub mod remedy;
pub mod status;
