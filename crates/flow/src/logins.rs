//! What keeps those who guess passwords from doing so quickly, and from keeping others out.
//!
//! [`slowing`] and [`turns`] are for connections that log in once; [`accounts`] is for requests
//! that each bring a name and a password, as those of HTTP do.

// Layers, from the top down: a module takes only from those behind it, which tidy checks.
//   accounts, failed, slowing, token
//   failures, passwords, turns

pub mod accounts;
mod failed;
mod failures;
mod passwords;
pub mod slowing;
mod token;
pub mod turns;

pub use failed::FailedLogin;
pub use token::Token;
