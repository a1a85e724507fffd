//! Tests of the program as a whole; those of one part stand beside it.

mod pages;
mod reference;
