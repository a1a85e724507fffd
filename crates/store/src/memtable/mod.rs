//! Points not yet in files.
