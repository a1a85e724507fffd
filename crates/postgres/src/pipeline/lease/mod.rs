//! A client with a server connection of its own: what it and the server are in the middle of, and
//! what follows from each message and each answer.
//!
//! Nothing in here reads or writes a socket, waits, or looks at a clock. The path: [`note`] says
//! what a message does before it goes out, and [`answer`] what an answer has done; both change the
//! one [`machine`], whose parts are values of their own, and have their effects carried out by the
//! session they are given.

// Layers, from the top down: a module takes only from those behind it, which tidy checks.
//   answer, note: what follows from what the server says, and from what the client sends
//   machine: all that the two are in the middle of
//   drawn, transaction, portals
//   rounds: what is asked and not answered
//   incoming, pause: how what the client sends is taken
//   reply, restore: what it is told, and when
//   sway, listening

pub mod answer;
pub mod drawn;
pub mod incoming;
pub mod listening;
pub mod machine;
pub mod note;
pub mod pause;
pub mod portals;
pub mod reply;
pub mod restore;
pub mod rounds;
pub mod sway;
pub mod transaction;
