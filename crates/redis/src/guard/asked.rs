//! How a server is, as it says itself.

use super::seen::{CONFIG, ServerReport};
use crate::server::{ControlConnection, said};

/// Asks a server how it is.
///
/// # Errors
/// Why that is not known, in words.
pub async fn look(asked: &mut ControlConnection) -> Result<ServerReport, String> {
    let get = CONFIG.map(|key| vec!["CONFIG", "GET", key]);
    let commands: Vec<&[&str]> =
        [&["INFO"][..]].into_iter().chain(get.iter().map(Vec::as_slice)).collect();
    let replies = asked.ask(&commands).await?;
    let Some((about, settings)) = replies.split_first() else {
        return Err("it does not answer".to_owned());
    };
    let refused = || match about.strip_prefix(b"-") {
        Some(error) => said(error),
        None => "its answer to INFO is none".to_owned(),
    };
    ServerReport::read(about, settings).ok_or_else(refused)
}
