//! Any first packet: what is taken comes back when it is written again, and cutting it short asks
//! for more.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::postgres::startup::{First, PACKET_BYTES_MAX, options, parse, put_cancel, put_start};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = str::from_utf8(bytes) {
        let _ = options(text);
    }
    let Ok(Some((first, len))) = parse(bytes, PACKET_BYTES_MAX) else { return };
    assert_eq!(parse(&bytes[..len - 1], PACKET_BYTES_MAX), Ok(None));
    let mut again = Vec::new();
    match first {
        First::Tls | First::Gss => assert_eq!(len, 8),
        First::Cancel { process_id, secret } => {
            put_cancel(&mut again, process_id, secret);
            assert_eq!(again, bytes[..len]);
        }
        First::Start(start) => {
            assert!(start.parameters().any(|(_, value)| value == start.user()));
            let _ = (start.database(), start.must_negotiate(), start.options().map(options));
            put_start(&mut again, start.minor, start.parameters());
            assert_eq!(again, bytes[..len]);
        }
    }
});
