//! Any bytes read as values of Hessian within the limits, or are refused at a place among them.
//! What is read encodes to what reads the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::hessian2::{Decoder, Encoder, Limits, Value};

const LIMITS: Limits = Limits { depth: 64, bytes: 4096, values: 4096, classes: 64 };

fuzz_target!(|bytes: &[u8]| {
    let values = decode(bytes);
    let again = encode(&values);
    let read = decode(&again);
    assert_eq!(read.len(), values.len());
    assert_eq!(encode(&read), again);
});

fn decode(bytes: &[u8]) -> Vec<Value> {
    let (mut decoder, mut values) = (Decoder::new(bytes, LIMITS), Vec::new());
    while !decoder.rest().is_empty() {
        match decoder.value() {
            Ok(value) => values.push(value),
            Err(error) => {
                assert!(error.offset <= bytes.len());
                break;
            }
        }
    }
    values
}

fn encode(values: &[Value]) -> Vec<u8> {
    let (mut encoder, mut out) = (Encoder::default(), Vec::new());
    values.iter().for_each(|value| encoder.value(&mut out, value));
    out
}
