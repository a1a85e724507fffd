//! Real PostgreSQL clusters with replicas behind Weir, and clients that nobody here wrote.

mod answers_in_step;
mod batches;
mod beside;
mod bounds;
mod columns;
mod copy_syncs;
mod doors;
mod failover;
mod known_by_clients;
mod last_values;
mod late_cancels;
mod left_behind;
mod limits;
mod literals;
mod long_texts;
mod names;
mod operating;
mod own_session;
mod points;
mod prepared_by_others;
mod refuted;
mod reload;
pub mod scene;
mod silent_network;
mod spread;
mod transactions;
mod who;
