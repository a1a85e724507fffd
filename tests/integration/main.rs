//! Weir as its users meet it: real servers, real clients, faults.
fn main() {}
