//! Any query: what one statement is does not depend on its neighbours, and rewriting a statement
//! changes nothing of what it does.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::influxql::{freeze_now, quote_identifier, quote_string, redact, split};

fuzz_target!(|text: &str| {
    redact(text);
    quote_identifier(text);
    quote_string(text);
    freeze_now(text, 1_700_000_000_123_456_789);
    let Ok(statements) = split(text) else { return };
    for statement in statements {
        let frozen = freeze_now(statement.text, 1_700_000_000_123_456_789);
        let alone = split(&frozen).unwrap_or_default();
        assert_eq!(alone.len(), 1, "{frozen}");
        assert_eq!(alone[0].kind, statement.kind, "{frozen}");
        statement.databases();
        redact(statement.text);
    }
});
