//! Settings that drivers ask every server for, and set without asking (`fake_param_list` of
//! PgBouncer's `admin.c`). The console has no use for them and says so politely.

const SETTINGS: [(&str, &str); 6] = [
    ("client_encoding", "UTF-8"),
    ("default_transaction_isolation", "read committed"),
    ("standard_conforming_strings", "on"),
    ("datestyle", "ISO"),
    ("timezone", "GMT"),
    // As libpq asks for in order to find out whether a server takes writes.
    ("transaction_read_only", "on"),
];

/// The setting's own name and its value, whatever the case it is asked for in.
pub fn setting(name: &str) -> Option<(&'static str, &'static str)> {
    SETTINGS.iter().copied().find(|(known, _)| known.eq_ignore_ascii_case(name))
}
