//! Where figures are kept: `bench/figures.jsonl`, to which each run adds, and the page made of it.
//!
//! A line is one figure of one run, as JSON: a [`Record`]. Lines are only ever added; a run that
//! missed, failed or means nothing has its line too. For example, on one line:
//!
//! ```json
//! {"row": "postgres-clients", "figure": "pgbench -S -M simple, 32 clients",
//!  "date": "2026-11-24T12:00:00Z",
//!  "machine": {"cpu": "AMD EPYC", "cores": 2, "memory_mib": 24576, "kernel": "6.18.5",
//!              "file_system": "ext4"},
//!  "versions": {"Weir": "0.1.0, commit 919b366", "PgBouncer": "1.18.0", "HAProxy": "2.6.12"},
//!  "round_seconds": 10, "unit": "statements/s", "value": 47100, "verdict": "beside",
//!  "clients": 32,
//!  "series": [{"way": "direct", "unit": "statements/s", "rounds": [37500, 37100, 37900]},
//!             {"way": "PgBouncer", "unit": "statements/s", "rounds": [22300, 22100, 22500]},
//!             {"way": "Weir", "unit": "statements/s", "rounds": [47100, 46800, 47300]},
//!             {"way": "HAProxy", "unit": "statements/s", "rounds": [17400, 17100, 17500]}],
//!  "command": "make bench ARGS=\"--only postgres-clients --write\""}
//! ```
//!
//! A way has a series for each unit: CPU time for each statement is one in `us of CPU`. All lines
//! of one run have the same `date`. What was known of a run before there was this file is told in
//! `told`: then `rounds` are empty, a series has its own `told` where its median or range is on
//! record, and a `date` may be a day.

mod curve;
mod home;
mod machine;
mod page;
mod record;
mod run;
pub mod versions;

pub use home::Home;
pub use record::{FigureTarget, Machine, Record, Series};
pub use run::Run;
