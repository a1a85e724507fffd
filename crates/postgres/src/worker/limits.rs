//! How many prepared statements are kept, as the settings have it.

use crate::pipeline::names::Limits;
use crate::settings::Settings;

/// What one client may hold of prepared statements, and a worker beside its clients.
pub(super) fn of_client(settings: &Settings) -> Limits {
    let (count, bytes) = (settings.max_prepared_statements, settings.max_prepared_bytes.len());
    Limits { count, bytes }
}

/// What one server connection keeps of prepared statements.
pub(super) fn of_connection(settings: &Settings) -> Limits {
    let (count, bytes) = (settings.prepared_statements, settings.max_prepared_bytes.len());
    Limits { count, bytes }
}
