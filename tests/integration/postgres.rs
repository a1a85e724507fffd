//! Real PostgreSQL clusters with replicas behind Weir, and clients that nobody here wrote.

mod batches;
mod bounds;
mod columns;
mod failover;
mod limits;
mod names;
mod operating;
mod points;
mod refuted;
mod reload;
mod scene;
mod spread;
mod transactions;
mod who;
