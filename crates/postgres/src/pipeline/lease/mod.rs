//! A client with a server connection of its own: what it and the server are in the middle of, and
//! what follows from each message and each answer.
//!
//! Nothing in here reads or writes a socket, waits, or looks at a clock. The path: [`feed`] takes
//! the client's messages with what their session has looked up, [`gate`] and [`divert`] say which
//! have to wait or go nowhere, [`note`] what one does before it goes out; [`answer`] says what an
//! answer has done. All change the one [`machine`], whose parts are values of their own, and the
//! [`endpoints`] that they are handed; what else follows goes into a sink, which carries it out at
//! once.

// Layers, from the top down: a module takes only from those behind it, which tidy checks.
//   answer: what follows from what the server says
//   feed, gate, divert: what becomes of what the client sends
//   client: what becomes of the client, which may end, be closed or be told of notifications
//   refused_restore: what follows where a server does not bring back a setting
//   expectation: what is to happen next
//   loss: what becomes of a client whose server is gone
//   endpoints: the session and the server connection that messages go through
//   note: what a message does before it goes out
//   machine: all that the two are in the middle of
//   drawn, transaction, portals
//   rounds: what is asked and not answered
//   incoming, pause: how what the client sends is taken
//   reply, restore: what it is told, and when
//   sway, listening

pub mod answer;
pub mod client;
pub mod divert;
pub mod drawn;
pub mod endpoints;
pub mod expectation;
pub mod feed;
pub mod gate;
pub mod incoming;
pub mod listening;
pub mod loss;
pub mod machine;
pub mod note;
pub mod pause;
pub mod portals;
pub mod refused_restore;
pub mod reply;
pub mod restore;
pub mod rounds;
pub mod sway;
pub mod transaction;

#[cfg(test)]
mod tests;
