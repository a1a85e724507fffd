//! Deliveries from a real journal to fake servers that behave as badly as real ones do.

mod batches;
mod fake;
mod ills;
mod kinds;
mod poison;
mod reloads;
mod rig;
mod statements;
