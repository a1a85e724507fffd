//! The protocols as pure functions over bytes: InfluxDB line protocol and InfluxQL, and
//! PostgreSQL's frontend/backend protocol and SQL, Redis's RESP, and Dubbo's frames with
//! Hessian 2.0 in them.
//!
//! It validates, splits, classifies and rewrites what clients send, so that what enters the
//! journal can be delivered later by anyone, in any company, and mean the same.
//!
//! It never does I/O, reads no clock, knows no policy, and never panics whatever the bytes are.
//!
//! The path of a write is [`line::normalise`]: body in, records out. The path of a query is
//! [`influxql::split`]: text in, classified statements out. A PostgreSQL connection begins with
//! [`postgres::startup::parse`] and goes on with [`postgres::frame::next`]; [`sql::normalise`]
//! makes of each statement the form by which it is known.
#![warn(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

// Layers, from the top down: a module takes only from those behind it, which tidy checks.
//   dubbo, hessian2, influxql, line, postgres, resp, sql

pub mod dubbo;
pub mod hessian2;
pub mod influxql;
pub mod line;
pub mod postgres;
pub mod resp;
pub mod sql;
