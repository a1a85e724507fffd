//! The load meter: sends requests by a schedule and says what came of them, and whether its own
//! numbers can be believed.
//!
//! It never repeats a request silently, never leaves out what was slow, and never calls its own
//! delay the server's. It prints nothing and ends no process: that is its caller's.
//!
//! The one path: an [`engine::Plan`] goes into [`engine::run`], which opens the connections, agrees
//! on a [`window::Timeline`], and lets each thread send what a [`schedule`] makes due through a
//! [`workload::Workload`]. What comes of it is recorded by [`recorder`] and [`lateness`], and
//! judged by [`verdict`]; [`summary`] says it in words, [`directory`] keeps all of it, and
//! [`report`] shows it. What a server has of what was written, [`verify`] says by a [`ledger`].
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

// Where it is decided (files below this folder, or below `crates` where a crate is named first):
//   a request of the load meter is blocked or late: lateness.rs; schedule.rs says when it is
//     due
//   which connection sends which request, and when: engine/pacing.rs
//   a run of the load meter can't be believed: verdict.rs
//   two sets of runs differ by more than chance: compare/ranks.rs
//   which server of several gets a call: engine/balance.rs; dubbo/providers.rs says who they are
//   parts of a run make one: merge.rs; sharing.rs says what speaks against them

// Layers, from the top down: a module takes only from those behind it, which tidy checks.
//   compare: two sets of runs held against each other
//   report: what a directory says, as a page
//   merge: the parts of a run that several injectors shared
//   directory: the results of a run on disk
//   course: the windows of a run, merged to few points
//   jmeter: windows as JMeter's listener writes them
//   stream: windows as points for dashboards
//   summary: the outcome in words and in JSON
//   limit: the search for the highest rate that holds
//   verify: what a server has of what was written
//   engine: sends, and hears of answers
//   influx, postgres, redis, dubbo, http: workloads
//   workload: what is sent
//   discovery: servers that share a load's requests
//   sharing: who sent the parts of a run, and what speaks against them
//   gate, verdict: what of an outcome is demanded
//   injector, lateness, little, ledger, failure, network, traffic, calls: what is known besides
//   hlog, machine: what results on disk are made of
//   keys: in which order they come
//   chance, part, recorder, schedule, url, window

pub mod calls;
pub mod chance;
pub mod compare;
pub mod course;
pub mod directory;
pub mod discovery;
pub mod dubbo;
pub mod engine;
pub mod failure;
pub mod gate;
pub mod hlog;
pub mod http;
pub mod influx;
pub mod injector;
pub mod jmeter;
pub mod keys;
pub mod lateness;
pub mod ledger;
pub mod limit;
pub mod little;
pub mod machine;
pub mod merge;
pub mod network;
pub mod part;
pub mod postgres;
pub mod recorder;
pub mod redis;
pub mod report;
pub mod schedule;
pub mod sharing;
pub mod stream;
pub mod summary;
pub mod traffic;
pub mod url;
pub mod verdict;
pub mod verify;
pub mod window;
pub mod workload;
