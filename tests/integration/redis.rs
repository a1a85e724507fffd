//! Redis's clients through Weir: what they hear is what the servers say, to each its own.

mod again;
mod aof;
mod cluster;
mod commands;
mod drivers;
mod ejection;
mod faults;
mod guard;
mod hostile;
mod isolation;
mod leases;
mod ledger;
mod logins;
mod operating;
mod pass;
mod placement;
mod pools;
mod pubsub;
mod reload;
mod replicas;
mod scene;
mod sentinel;
mod served;
mod tracking;
mod twins;
mod wait;
