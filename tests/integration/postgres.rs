//! Real PostgreSQL clusters with replicas behind Weir, and clients that nobody here wrote.

mod failover;
mod scene;
