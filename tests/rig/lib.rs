//! What the integration tests and the benchmark stand on: Weir itself, real servers and fakes as
//! processes and threads that end with the value that stands for them; a small blocking HTTP
//! client; loads by the load meter; and waiting for a condition with a deadline.
//!
//! It never sleeps to synchronise and never skips what is missing: it fails and says what to
//! install. The path through it: [`fake::Fake`], [`influxd::Influxd`] or [`postgres::Cluster`] as
//! backends, [`weir::Setup`] to start Weir in front of them, [`sending::run`] or [`http::send`] to
//! drive it, [`wait::until`] to see it through.

pub mod beside;
pub mod chance;
pub mod chromium;
pub mod clients;
pub mod disk;
pub mod dubbo;
pub mod fake;
pub mod faults;
pub mod gate;
pub mod http;
pub mod influxd;
pub mod late;
pub mod machine;
pub mod metrics;
pub mod network;
pub mod places;
pub mod postgres;
pub mod process;
pub mod redis;
pub mod sending;
pub mod status;
pub mod tls;
pub mod wait;
pub mod weir;
pub mod witness;
pub mod zookeeper;
