//! Real PostgreSQL clusters with replicas behind Weir, and clients that nobody here wrote.

mod columns;
mod failover;
mod limits;
mod operating;
mod reload;
mod scene;
mod spread;
mod who;
