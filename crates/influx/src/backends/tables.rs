//! The tables of a cluster's members: each connection to one begins with reading it, and all are
//! read again and again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use flow::drain::Drain;
use futures_util::future::join_all;
use journal::{Journal, Position};

use super::{Backend, Backends};
use crate::client::{Client, Exchange, Greeting, TransportError, Whole, form_body};
use crate::placement::{JournalPlace, MemberAnswer, Placement, QUERY, Unfit};

/// How long until a disk is tried again that did not take what is agreed on.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Reads a member's table and the notes there, at the start of each connection and in between.
#[derive(Clone, Debug)]
pub(super) struct TableReader {
    pub(super) placement: Arc<Placement>,
    pub(super) journal: Journal,
    pub(super) backend: String,
    /// Whether connections are for notes alone, which a member that is being rebuilt is given, too.
    pub(super) for_notes: bool,
}

/// A member that was asked for its table.
struct AskedMember {
    reader: TableReader,
    asked: Instant,
    /// Where its delivery was then: what it has noted since was not read.
    place: JournalPlace,
}

impl TableReader {
    fn ask(&self) -> AskedMember {
        let cursor = self.journal.cursor(&self.backend).unwrap_or_default();
        let place = JournalPlace {
            cursor: cursor.position.0,
            given_up: cursor.dropped_oldest + cursor.dropped_damaged,
            end: self.journal.end().0,
            noted: self.placement.notes().noted(&self.backend),
        };
        AskedMember { reader: self.clone(), asked: Instant::now(), place }
    }
}

impl AskedMember {
    fn hear(self, answer: MemberAnswer) -> Result<(), String> {
        let Self { reader, asked, place } = self;
        match reader.placement.hear(&reader.backend, (asked, place), answer) {
            Some(heard) if reader.for_notes => heard.fit_for_notes(),
            Some(heard) => heard.fit(),
            None => Ok(()),
        }
    }
}

impl Greeting for TableReader {
    fn begin(&self) -> Option<Exchange> {
        self.placement.table()?.set_of(&self.backend)?;
        let (headers, body) = form_body([("q", QUERY)].into_iter());
        let asked = self.ask();
        let judge =
            move |answer: &Whole| asked.hear(MemberAnswer::read(answer.status, &answer.body));
        Some(Exchange { headers, body, judge: Box::new(judge) })
    }
}

impl Backend {
    /// Where the journal ends: all that was acknowledged is before it.
    pub fn journal_end(&self) -> Position {
        self.tables.journal.end()
    }

    /// Whether it may be used; a member of a cluster whose table was not read for too long is asked
    /// for it by `client`.
    ///
    /// # Errors
    /// When it may not, or does not say.
    pub async fn is_fit(&self, client: &Client) -> Result<(), TransportError> {
        let mut fit = self.placement().is_fit(self.name());
        if fit == Err(Unfit::NotRead) {
            let interval = self.placement().check_interval().unwrap_or_default();
            self.read_table(client, interval / 4).await?;
            fit = self.placement().is_fit(self.name());
        }
        fit.map_err(unfit)
    }

    /// Whether it is being rebuilt: then it is given notes, and nothing else.
    pub fn is_rebuilding(&self) -> bool {
        self.placement().is_rebuilding(self.name())
    }

    /// Whether it may be given a note, by its table that was read just now.
    ///
    /// # Errors
    /// When it may not.
    pub fn is_fit_for_notes(&self) -> Result<(), TransportError> {
        self.placement().is_fit_for_notes(self.name()).map_err(unfit)
    }

    /// Has a member's table and the notes there read by `client`.
    ///
    /// # Errors
    /// When there is no answer within `timeout`.
    pub async fn read_table(
        &self,
        client: &Client,
        timeout: Duration,
    ) -> Result<(), TransportError> {
        let asked = self.tables.ask();
        let answer = MemberAnswer::ask(client, timeout).await?;
        // What is wrong is remembered, and told to whoever wants to use the member.
        let _ = asked.hear(answer);
        Ok(())
    }
}

fn unfit(unfit: Unfit) -> TransportError {
    match unfit {
        Unfit::Differs(words) => TransportError::Unfit(words),
        Unfit::NotRead => TransportError::Unfit("its table cannot be read".to_owned()),
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

    pub(super) async fn read_tables(&self, timeout: Duration) {
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
