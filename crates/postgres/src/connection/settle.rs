//! What Weir asks a server for itself and waits for: that it takes on a session's settings, and
//! that it is rid of a session.

use std::task::{Poll, ready};

use flow::scratch::Scratch;
use wire::postgres::{Refusal, Severity, sqlstate};

use super::{Connection, FORGET, Own, refusal_of};
use crate::pipeline::script::ServerEvent;
use crate::pipeline::settings::{SessionSettings, Setting, gives_rights};
use crate::plan::Leaves;

/// A setting that a server does not accept any more, and what it says.
pub type RefusedSetting = (String, Refusal);

/// Classes of SQLSTATE that say of a setting's value that it is no good; any other error is of the
/// moment, as a cancel or a want of memory (the manual's appendix "PostgreSQL Error Codes").
const NO_GOOD: [&str; 4] = ["0A", "22", "3F", "42"];

/// Whether a server that says this will not accept a setting's value another time either.
pub fn is_refused_for_good(refusal: &Refusal) -> bool {
    refusal.code.get(..2).is_some_and(|class| NO_GOOD.contains(&class))
}

impl Connection {
    /// Sends what is to be sent and waits until all of it is answered; nobody hears the answers.
    ///
    /// # Errors
    /// The server's own words, or what became of the connection.
    pub async fn settle(&mut self, scratch: &Scratch) -> Result<(), Refusal> {
        match self.answers(scratch).await? {
            None => Ok(()),
            Some(refusal) => {
                self.broken = true;
                Err(refusal)
            }
        }
    }

    /// As `settle`; what the server has refused, if it goes on after that, as `own_error` says.
    ///
    /// # Errors
    /// What became of the connection.
    async fn answers(&mut self, scratch: &Scratch) -> Result<Option<Refusal>, Refusal> {
        let mut failed = None;
        std::future::poll_fn(|cx| {
            while !self.script.is_idle() || self.unsent() > 0 {
                let sent = self.poll_send(cx);
                let heard = self.poll_hear(cx, scratch, &mut |_, heard| {
                    if let ServerEvent::Failed { body, .. } = heard {
                        failed.get_or_insert_with(|| refusal_of(body));
                    }
                });
                if !matches!(ready!(heard), Ok(true)) || matches!(sent, Poll::Ready(Err(_))) {
                    self.broken = true;
                    failed.get_or_insert_with(|| {
                        let what = "the server closed the connection";
                        Refusal::error(sqlstate::CONNECTION_FAILURE, what)
                    });
                    break;
                }
            }
            Poll::Ready(())
        })
        .await;
        match failed {
            Some(refusal) if self.broken => Err(refusal),
            refused => Ok(refused),
        }
    }

    /// As `settle`, for no longer than a login may take.
    ///
    /// # Errors
    /// As of `settle`, or it took too long.
    pub async fn settle_in_time(&mut self, scratch: &Scratch) -> Result<(), Refusal> {
        let limit = self.backend.server().target.connect_timeout;
        let settled = tokio::time::timeout(limit, self.settle(scratch)).await;
        settled.unwrap_or_else(|_| Err(self.took_too_long()))
    }

    fn took_too_long(&mut self) -> Refusal {
        self.broken = true;
        let what = "the server took longer than the backend's connect-timeout";
        Refusal::error(sqlstate::CONNECTION_FAILURE, what)
    }

    /// Gives it a session's settings, if it has not got them. Those that the server does not accept
    /// any more, as what they name was dropped, the session has no longer; they are returned.
    ///
    /// # Errors
    /// What became of the connection, it took too long, or an error of the moment; a FATAL one
    /// where the session can not go on.
    pub async fn restore(
        &mut self,
        settings: &mut SessionSettings,
        scratch: &Scratch,
    ) -> Result<Vec<RefusedSetting>, Refusal> {
        self.take_on(&settings.applied());
        if self.unsent() == 0 {
            return Ok(Vec::new());
        }
        let limit = self.backend.server().target.connect_timeout;
        let restored = tokio::time::timeout(limit, self.settle_all(settings, scratch)).await;
        restored.unwrap_or_else(|_| Err(self.took_too_long()))
    }

    async fn settle_all(
        &mut self,
        settings: &mut SessionSettings,
        scratch: &Scratch,
    ) -> Result<Vec<RefusedSetting>, Refusal> {
        let mut refused = Vec::new();
        if self.refused(scratch).await?.is_none() {
            return Ok(refused);
        }
        // All of it was undone: one by one it tells which of them was refused.
        self.ask(&format!("{FORGET}SET client_encoding = 'UTF8'"));
        self.settle(scratch).await?;
        for Setting { name, sql } in settings.one_by_one() {
            let mut next = Some(sql);
            while let Some(sql) = next.take() {
                self.ask(&sql);
                if let Some(refusal) = self.refused(scratch).await? {
                    if gives_rights(&name) {
                        self.broken = true;
                        return Err(Refusal { severity: Severity::Fatal, ..refusal });
                    }
                    next = settings.refused(&name);
                    refused.push((name.clone(), refusal));
                }
            }
        }
        self.settings = Some(settings.applied());
        Ok(refused)
    }

    /// As `settle`; what the server has refused for good, after which the connection goes on.
    async fn refused(&mut self, scratch: &Scratch) -> Result<Option<Refusal>, Refusal> {
        let Some(refusal) = self.answers(scratch).await? else { return Ok(None) };
        if !is_refused_for_good(&refusal) {
            self.broken = true;
            return Err(refusal);
        }
        self.own_error = None;
        Ok(Some(refusal))
    }

    /// Rids it of all that a session has left on it, and of the seed that a text may have set.
    ///
    /// # Errors
    /// The server's own words, what became of the connection, or that something stays.
    pub async fn forget_session(&mut self, scratch: &Scratch) -> Result<(), Refusal> {
        if self.leaves == Leaves::Lasting {
            self.broken = true;
            let what = "what a session has left can only be ended with its connection";
            return Err(Refusal::error(sqlstate::CONNECTION_FAILURE, what));
        }
        self.ask_for("DISCARD ALL", Own::Settings("".into()));
        let seed = rand::random_range(-1.0..1.0);
        self.ask(&format!("SELECT pg_catalog.setseed({seed:.15})"));
        self.prepared.clear();
        self.settings = None;
        self.settle_in_time(scratch).await?;
        (self.leaves, self.drew) = (Leaves::Nothing, false);
        Ok(())
    }
}
