//! The clients that move the most bytes or have waited longest, for a person.

use std::fmt;

use watch::words::{bytes, harmless, seconds};

use super::table;
use crate::diagnosis::status::Client;

/// Shows them below an empty line, if there are any.
pub fn write(f: &mut fmt::Formatter<'_>, clients: &[Client]) -> fmt::Result {
    if clients.is_empty() {
        return Ok(());
    }
    let row = |of: &Client| {
        let waits = match of.waiting_seconds {
            waits if waits > 0.0 => seconds(waits),
            _ => "-".to_owned(),
        };
        let user = of.user.as_deref().unwrap_or("-");
        vec![
            of.gateway.clone(),
            of.address.clone(),
            harmless(user),
            bytes(of.bytes_per_second as u64),
            waits,
        ]
    };
    let rows: Vec<_> = clients.iter().map(row).collect();
    writeln!(f)?;
    table::write(f, &["gateway", "client", "user", "bytes a second", "waits for"], &rows, 3, |_| {
        None
    })
}
