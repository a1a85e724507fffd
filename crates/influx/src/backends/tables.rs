//! The tables of a cluster's members: each connection to one begins with reading it, and all are
//! read again and again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use flow::drain::Drain;
use futures_util::future::join_all;
use http::HeaderMap;

use super::{Backend, Backends};
use crate::client::{Client, Greeting, TransportError, Whole, form_body};
use crate::placement::{MemberAnswer, Placement, QUERY, Unfit};

/// How long until a disk is tried again that did not take what is agreed on.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Reads a member's table at the start of each connection.
#[derive(Debug)]
pub(super) struct TableGreeting {
    pub(super) placement: Arc<Placement>,
    pub(super) backend: String,
}

impl Greeting for TableGreeting {
    fn question(&self) -> Option<(HeaderMap, Bytes)> {
        let is_member = self.placement.table()?.set_of(&self.backend).is_some();
        is_member.then(|| form_body([("q", QUERY)].into_iter()))
    }

    fn judge(&self, asked: Instant, answer: &Whole) -> Result<(), String> {
        let answer = MemberAnswer::read(answer.status, &answer.body);
        self.placement.hear(&self.backend, asked, answer)
    }
}

impl Backend {
    /// Whether it may be used; a member of a cluster whose table was not read for too long is asked
    /// for it by `client`.
    ///
    /// # Errors
    /// When it may not, or does not say.
    pub async fn is_fit(&self, client: &Client) -> Result<(), TransportError> {
        let mut fit = self.placement.is_fit(self.name());
        if fit == Err(Unfit::NotRead) {
            let interval = self.placement.check_interval().unwrap_or_default();
            self.read_table(client, interval / 4).await?;
            fit = self.placement.is_fit(self.name());
        }
        fit.map_err(|unfit| match unfit {
            Unfit::Differs(words) => TransportError::Unfit(words),
            Unfit::NotRead => TransportError::Unfit("its table cannot be read".to_owned()),
        })
    }

    async fn read_table(&self, client: &Client, timeout: Duration) -> Result<(), TransportError> {
        let asked = Instant::now();
        let answer = MemberAnswer::ask(client, timeout).await?;
        // What is wrong is remembered, and told to whoever wants to use the member.
        let _ = self.placement.hear(self.name(), asked, answer);
        Ok(())
    }
}

impl Backends {
    /// Reads the tables of all members twice in the time that they may be old, until `drain`
    /// starts.
    pub async fn keep_tables_read(&self, drain: Drain) {
        loop {
            let interval = self.placement.check_interval();
            if let Some(interval) = interval {
                self.read_tables(interval / 4).await;
            }
            let pause = async {
                match interval {
                    Some(interval) => tokio::time::sleep(interval / 2).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = pause => {}
                () = self.placement.members_changed() => {}
                () = drain.started() => return,
            }
        }
    }

    async fn read_tables(&self, timeout: Duration) {
        let Some(table) = self.placement.table() else { return };
        let all = self.all();
        let members = all.iter().filter(|backend| table.set_of(backend.name()).is_some());
        join_all(members.map(|member| member.read_table(&member.delivery, timeout))).await;
    }

    /// Keeps what file and members agree on, each time that it is more than before, until `drain`
    /// starts.
    pub async fn keep_agreed(&self, drain: Drain) {
        loop {
            tokio::select! {
                () = self.placement.more_is_agreed() => {}
                () = drain.started() => return,
            }
            let placement = Arc::clone(&self.placement);
            let kept = tokio::task::spawn_blocking(move || placement.keep_agreed()).await;
            if let Ok(Err(error)) = kept {
                tracing::error!(%error, "a period that the members have is not in force");
                tokio::time::sleep(RETRY_INTERVAL).await;
                self.placement.try_again();
            }
        }
    }
}
