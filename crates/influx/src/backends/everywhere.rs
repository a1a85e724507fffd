//! Statements about users and their rights: they run on all backends at once or on none.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;

use super::Backends;
use super::statements::answer_of;
use crate::client::TransportError;

/// How long a statement about users may take on each backend.
const EVERYWHERE_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a statement did not run on all backends.
#[derive(Debug, Clone, thiserror::Error)]
pub enum EverywhereError {
    /// Not all backends can be reached, so that none was asked.
    #[error(
        "statements about users and their rights run on all backends or on none, and cannot be \
         kept for later; not reachable: {}", .0.join(", ")
    )]
    Unreachable(Vec<String>),
    /// A backend could be reached and then gave no answer: it may or may not have run the
    /// statement.
    #[error(
        "the statement may not have run on backend {backend}: {error}; run it again when it answers"
    )]
    Broken {
        /// The backend's name in the configuration.
        backend: String,
        /// Why there was no answer.
        error: TransportError,
    },
}

impl Backends {
    /// Runs a statement about users on all backends at once, without the journal, and gives the
    /// body of one answer: of one that refused it, if any did. Backends that know no such
    /// statements are left out.
    ///
    /// # Errors
    /// When a backend cannot be reached; none has then been asked. When one gave no answer.
    pub async fn run_everywhere(&self, text: &str, db: &str) -> Result<Bytes, EverywhereError> {
        let all = self.all();
        let asked = || all.iter().filter(|backend| backend.settings.kind.has_catalogue());
        let pings = asked().map(|backend| async {
            backend.queries.ping().await?;
            backend.is_fit(&backend.queries).await
        });
        let pings = join_all(pings).await;
        let unreachable: Vec<String> = asked()
            .zip(pings)
            .filter(|(_, ping)| ping.is_err())
            .map(|(backend, _)| backend.name().to_owned())
            .collect();
        if !unreachable.is_empty() {
            return Err(EverywhereError::Unreachable(unreachable));
        }
        let form = [("q", text), ("db", db)];
        let run = asked().map(|backend| backend.queries.ask(&form, EVERYWHERE_TIMEOUT));
        let mut bodies = Vec::new();
        for (backend, said) in asked().zip(join_all(run).await) {
            let backend = backend.name();
            let said =
                said.map_err(|error| EverywhereError::Broken { backend: backend.into(), error })?;
            bodies.push(said.body);
        }
        let nobody = Bytes::from_static(b"{\"results\":[]}\n");
        Ok(answer_of(bodies.iter()).cloned().unwrap_or(nobody))
    }
}
