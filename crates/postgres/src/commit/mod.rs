//! When a commit that many share is told: what waits for a mark, from where on an answer is held,
//! and what a mark's answer proves.
//!
//! With `synchronous_commit = off` a server answers before the commit is durable. A later
//! transaction on another connection, the mark, is committed at the level that the commits were to
//! have; PostgreSQL's log is one sequence, so the mark's own flush and its own wait for standbys
//! cover every commit before it (`src/backend/access/transam/xact.c`, `RecordTransactionCommit`).
//! [`flow::barrier`] holds the answers; nothing here does I/O or keeps an answer.
//!
//! The path: [`facts`] are asked of each new connection, with the [`level`] in them; [`need`] says
//! whether a round waits for a mark, [`answer`] from which message on it is held; [`mark`] reads
//! what the server says to a mark.

// Layers, from the top down: a module takes only from those behind it, which tidy checks.
//   facts, mark, need, answer, level

pub mod answer;
pub mod facts;
pub mod level;
pub mod mark;
pub mod need;
