//! A lease as a whole, beside a model of a server.

mod orders;
mod sent;
mod server;
mod through;
