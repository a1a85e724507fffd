//! Deliveries against fake servers.
