//! Asking the backends which databases and policies they have.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use flow::drain::Drain;
use futures_util::future::join_all;
use serde_json::Value;
use wire::influxql::quote_identifier;

use super::listing::{database_names, policies};
use super::{Catalogue, Listing, ListingSource, REFRESH_INTERVAL, file};
use crate::client::Client;

/// How many `SHOW RETENTION POLICIES` go into one request.
const SHOWS_PER_REQUEST: usize = 100;

impl Catalogue {
    /// Asks all backends every few seconds and keeps the answers on disk, until `drain` starts.
    pub async fn keep_fresh(&self, drain: Drain) {
        loop {
            {
                let mut refreshed = self.refreshed.lock().await;
                self.refresh_all(REFRESH_INTERVAL).await;
                *refreshed = Some(Instant::now());
            }
            self.keep().await;
            tokio::select! {
                () = tokio::time::sleep(REFRESH_INTERVAL) => {}
                () = drain.started() => return,
            }
        }
    }

    /// Asks every backend at once; none is waited for longer than `timeout`.
    pub(super) async fn refresh_all(&self, timeout: Duration) {
        let asked = self.asked().clone();
        join_all(asked.iter().map(|asked| self.refresh_from(asked, timeout))).await;
    }

    /// Asks one backend, as after a statement that it ran.
    pub async fn refresh_one(&self, backend: &str) {
        let asked = self.asked().iter().find(|asked| asked.name == backend).cloned();
        if let Some(asked) = asked {
            self.refresh_from(&asked, REFRESH_INTERVAL).await;
        }
    }

    async fn refresh_from(&self, asked: &ListingSource, timeout: Duration) {
        let executed = self.lock().views.get(&asked.name).map(|view| view.executed);
        let Some(executed) = executed else { return };
        let listing = tokio::time::timeout(timeout, list_databases(&asked.client, timeout)).await;
        match listing {
            Ok(Ok(listing)) => {
                self.listed(&asked.name, executed, listing);
            }
            Ok(Err(words)) => {
                tracing::debug!(backend = asked.name, words, "databases cannot be listed");
            }
            Err(_) => tracing::debug!(backend = asked.name, "listing databases timed out"),
        }
    }

    /// Writes the listings down if they have changed. A failure costs nothing but the names after
    /// the next restart, so it is logged.
    pub async fn keep(&self) {
        let listings: BTreeMap<String, Listing> = {
            let inner = self.lock();
            let known = inner.views.iter();
            known.filter_map(|(name, view)| Some((name.clone(), inner.seen(view)?))).collect()
        };
        let text = file::text(listings);
        {
            let mut written =
                self.written.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if *written == text {
                return;
            }
            written.clone_from(&text);
        }
        let path = self.path.clone();
        let write = tokio::task::spawn_blocking(move || file::write(&path, &text));
        if let Ok(Err(error)) = write.await {
            tracing::warn!(%error, "catalogue is not kept");
        }
    }
}

/// Everything a backend lists.
///
/// # Errors
/// Why it does not, in words.
pub async fn list_databases(client: &Client, timeout: Duration) -> Result<Listing, String> {
    let names = database_names(&ask(client, "SHOW DATABASES", timeout).await?)?;
    let mut listing = Listing::default();
    for names in names.chunks(SHOWS_PER_REQUEST) {
        let shows: Vec<String> = names
            .iter()
            .map(|name| format!("SHOW RETENTION POLICIES ON {}", quote_identifier(name)))
            .collect();
        let shown = ask(client, &shows.join("; "), timeout).await?;
        listing.databases.extend(policies(names, &shown)?);
    }
    Ok(listing)
}

async fn ask(client: &Client, statement: &str, timeout: Duration) -> Result<Value, String> {
    let answer = client.ask(&[("q", statement)], timeout).await;
    let answer = answer.map_err(|error| error.to_string())?;
    serde_json::from_slice(&answer.body)
        .map_err(|_| format!("status {} and no JSON in answer to SHOW", answer.status))
}
