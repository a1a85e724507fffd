//! Hessian 2.0's serialization, as Dubbo's hessian-lite reads and writes it.
//!
//! [`Encoder`] writes values and keeps the tables that a message has: types, classes and the
//! numbers of what can be referred to. [`Decoder`] reads values within [`Limits`]. Where the
//! specification and hessian-lite differ, hessian-lite decides: `0x5f` is an int of thousandths,
//! and characters beyond the basic plane are two surrogates of three bytes each.

mod decoder;
mod encoder;
mod error;
mod java;
mod tag;
#[cfg(test)]
mod tests;
mod text;
mod value;

pub use decoder::{Decoder, Limits};
pub use encoder::{
    Encoder, put_binary, put_bool, put_date, put_double, put_int, put_long, put_null, put_string,
};
pub use error::{DecodeError, DecodeErrorKind};
pub use java::{Beans, ConversionError, from_json};
pub use value::{Class, List, Map, Object, Value};
