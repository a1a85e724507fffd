//! The admin port: what an operator, a load balancer and Prometheus ask. It only answers
//! questions: `port` has its socket, `access` says who may ask, `answers` what they hear.

// Layers, from the top down: a module takes only from those behind it, which tidy checks.
//   port
//   answers
//   access

mod access;
mod answers;
mod port;
#[cfg(test)]
mod tests;

pub use answers::Sources;
pub use port::Port;
