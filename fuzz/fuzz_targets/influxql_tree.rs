//! Any query: reading never panics, and what was read reads the same again once it is shown.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::influxql::ast::{Show, Statement};
use wire::influxql::{Params, parse};

fuzz_target!(|text: &str| {
    let params = Params::default();
    let Ok(statements) = parse(text, &params) else { return };
    for statement in statements {
        // Of these only the beginning is kept.
        if matches!(statement, Statement::Unserved(_) | Statement::Show(Show::Grants)) {
            continue;
        }
        let shown = statement.to_string();
        assert_eq!(parse(&shown, &params).as_deref(), Ok(&[statement][..]), "{shown}");
    }
});
