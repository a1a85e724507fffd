//! Statements that change something: their way to the backends, and what a client hears of it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use http::StatusCode;
use serde_json::{Value, json};
use wire::influxql::{self, Change};

use super::Front;
use super::answer::{self, Answer};
use super::parameters::Parameters;
use super::results;
use crate::backends::{InClusterError, StatementEffect};
use crate::record;

/// How long a client waits for the backends to run its statement, before it hears who follows.
const STATEMENT_WAIT: Duration = Duration::from_secs(5);

/// Runs the changes of one request.
pub struct Changes<'a> {
    pub(super) front: &'a Front,
    pub(super) parameters: &'a Arc<Parameters>,
    /// Whether the client asks by `GET`, which InfluxDB warns of.
    pub(super) is_get: bool,
}

impl Changes<'_> {
    /// A statement with a password in it: on every backend now, or on none.
    pub async fn run_everywhere(&self, text: &str) -> Value {
        let db = self.parameters.get("db");
        match self.front.gateway.deliveries.backends.run_everywhere(text, db).await {
            Ok(document) => results::single(&document),
            Err(error) => json!({ "error": error.to_string() }),
        }
    }

    /// Runs a statement that changes something, at its place among the writes, or on all backends
    /// of a cluster at once.
    ///
    /// # Errors
    /// When it was not taken, or could not run.
    pub async fn run(&self, written: &str, change: &Change) -> Result<Value, Answer> {
        let gateway = &self.front.gateway;
        if gateway.deliveries.backends.is_cluster() {
            return self.run_in_cluster(written, change).await;
        }
        let (text, now_ns) = (written.to_owned(), super::now_ns());
        let freeze = move || influxql::freeze_now(&text, now_ns);
        let frozen = gateway.aside.run_if_long(written.len(), freeze).await?;
        let (db, rp) = (self.parameters.get("db"), self.parameters.get("rp"));
        let params = self.parameters.get("params");
        let ticket = gateway.deliveries.backends.statement();
        let record = record::Statement { id: ticket.id(), text: &frozen, db, rp, params };
        let appended = gateway.admission.append_statement(&record, change).await;
        appended.map_err(|refusal| gateway.refused(&refusal))?;
        let report = ticket.wait(STATEMENT_WAIT).await;
        let mut result = report.document().map_or_else(|| json!({}), |d| results::single(&d));
        self.warn_of_get(&mut result, written);
        if !report.following.is_empty() {
            let text = format!("will run later on: {}", report.following.join(", "));
            results::add_message(&mut result, "info", &text);
        }
        Ok(result)
    }

    /// Runs a statement on all backends of a cluster at once.
    async fn run_in_cluster(&self, written: &str, change: &Change) -> Result<Value, Answer> {
        let deliveries = &self.front.gateway.deliveries;
        let (backends, catalogue) = (&deliveries.backends, &deliveries.catalogue);
        if let Change::CreateDatabase { name, policy: None } = change
            && !has_options(written)
            && catalogue.all_have(name)
        {
            // Another gateway may have dropped it since.
            catalogue.refresh().await;
            if catalogue.all_have(name) {
                return Ok(json!({}));
            }
        }
        let (text, now_ns) = (written.to_owned(), super::now_ns());
        let freeze = move || influxql::freeze_now(&text, now_ns);
        let frozen = self.front.gateway.aside.run_if_long(written.len(), freeze).await?;
        let parameters = ["db", "rp", "params"].map(|key| (key, self.parameters.get(key)));
        let form = [("q", frozen.as_str())].into_iter().chain(parameters);
        let form: Vec<_> = form.filter(|(_, value)| !value.is_empty()).collect();
        let ran = backends.run_in_cluster(&form, effect_of(change)).await;
        let mut result = match ran {
            Ok(document) => results::single(&document),
            Err(error @ InClusterError::Broken { .. }) => json!({ "error": error.to_string() }),
            Err(error @ InClusterError::NotRun(_)) => {
                return Err(answer::error(StatusCode::SERVICE_UNAVAILABLE, &error.to_string()));
            }
        };
        // So that the client's next write finds the names that it has made.
        let all = backends.all();
        join_all(all.iter().map(|backend| catalogue.refresh_one(backend.name()))).await;
        self.warn_of_get(&mut result, written);
        Ok(result)
    }

    fn warn_of_get(&self, result: &mut Value, written: &str) {
        if self.is_get {
            let text = format!(
                "deprecated use of '{}' in a read only context, please use a POST request instead",
                written.trim()
            );
            results::add_message(result, "warning", &text);
        }
    }
}

/// Whether `CREATE DATABASE` says more than a name.
fn has_options(text: &str) -> bool {
    text.split_whitespace().any(|word| word.eq_ignore_ascii_case("WITH"))
}

fn effect_of(change: &Change) -> StatementEffect {
    match change {
        Change::CreateDatabase { .. }
        | Change::CreateRetentionPolicy { .. }
        | Change::AlterRetentionPolicy { .. } => StatementEffect::KeepsPoints,
        Change::DropDatabase { .. }
        | Change::DropRetentionPolicy { .. }
        | Change::Delete
        | Change::DropSeries
        | Change::Into
        | Change::Other => StatementEffect::TakesPoints,
    }
}
