//! A COPY FROM STDIN, by the places of its messages in the stream.
//!
//! While a server reads the data it ignores Flush and Sync, up to CopyDone or CopyFail
//! (`CopyGetData` in `copyfromparse.c`). An error ends the reading wherever it comes. Behind that
//! the server drops what is left of the data and answers each Sync; where the COPY was run by an
//! Execute, it first leaves out everything up to a Sync (`ignore_till_sync` in `postgres.c`).
//!
//! So a CommandComplete settles that every Sync amid the data was ignored. An error leaves it open:
//! nobody is told how far the server had read.

use std::collections::VecDeque;

use wire::postgres::backend::Status;

use super::{Expect, ResponseAction, Script, ServerEvent, Unasked};

/// A COPY whose data the server has asked for; it is at the front of what is expected.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct CopyIn {
    /// Syncs that were sent before the end of its data.
    pub syncs: u64,
    /// CopyDone or CopyFail was sent.
    pub ended: bool,
}

impl CopyIn {
    /// Takes its Syncs, and the end of its data, out of what was sent behind the statement.
    pub fn begin(expected: &mut VecDeque<Expect>) -> Self {
        let mut copy = Self::default();
        while !copy.ended {
            match expected.get(1) {
                Some(Expect::Sync) => copy.syncs += 1,
                Some(Expect::CopyEnd) => copy.ended = true,
                _ => break,
            }
            expected.remove(1);
        }
        copy
    }

    /// Takes note of a message that was sent amid the data; false where it is none of the COPY's.
    pub fn sent(&mut self, message: Expect) -> bool {
        match message {
            _ if self.ended => return false,
            Expect::Sync => self.syncs += 1,
            Expect::CopyEnd => self.ended = true,
            _ => return false,
        }
        true
    }
}

/// A COPY that has failed with Syncs amid its data: how many of them are answered is not known
/// until the server answers Weir's own question behind them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unsettled {
    /// Syncs that were sent amid the data.
    pub syncs: u64,
    /// Those that were answered so far.
    pub answered: u64,
    /// None of them was, and none is certain to be: the server may be leaving out everything up to
    /// the next one.
    pub skips: bool,
    /// What is asked behind them.
    pub asked: SettlementQuery,
}

impl Unsettled {
    /// So many Syncs, with this behind them; `skips`: see there.
    pub fn of(syncs: u64, behind: Behind, skips: bool) -> Self {
        let asked = if behind == Behind::Answered {
            SettlementQuery::ByClient
        } else {
            SettlementQuery::Nothing
        };
        Self { syncs, answered: 0, skips, asked }
    }
}

/// What was sent behind the Syncs of a COPY that has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Behind {
    /// Nothing but more of them.
    Nothing,
    /// What the server runs, and answers by something else than ReadyForQuery.
    Answered,
    /// Something of which nobody can tell what becomes of it.
    Unknown,
}

/// What is asked behind the Syncs, to hear where the answers to the client's Syncs end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SettlementQuery {
    Nothing,
    /// Something of the client's own.
    ByClient,
    /// An empty Query of Weir's own.
    Query,
    /// A Sync, so that the server leaves nothing out, and an empty Query. The last ReadyForQuery in
    /// front of that is the Sync's, so each is told once the next has come; whether one waits.
    SyncAndQuery {
        waits: bool,
    },
}

/// When a client's message may be sent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// It may be sent now.
    Now,
    /// Once the COPY before it has been answered, which decides what becomes of it.
    Later,
    /// A server that still reads data ends the connection by it, and what another would make of it
    /// nobody could tell.
    Never,
}

impl Script {
    /// Whether the server reads the data of a COPY, of which more is to be sent.
    pub fn takes_data(&self) -> bool {
        self.copy.is_some_and(|copy| !copy.ended) && self.expected.len() == 1
    }

    /// When a client's message of this kind may be sent on.
    pub fn admits(&self, tag: u8) -> Admission {
        let is_of_copy = matches!(tag, b'd' | b'c' | b'f' | b'S' | b'H');
        match self.copy {
            _ if self.unsettled.is_some() => Admission::Later,
            Some(copy) if copy.syncs > 0 && !is_of_copy => {
                if copy.ended {
                    Admission::Later
                } else {
                    Admission::Never
                }
            }
            _ => Admission::Now,
        }
    }

    /// Whether it is not known how many Syncs are answered, and Weir has not asked. Then expects
    /// the answer; `Some(true)`: the server is to have a Sync in front of the empty Query.
    pub fn ask_to_settle(&mut self) -> Option<bool> {
        let unsettled =
            self.unsettled.as_mut().filter(|of| of.asked == SettlementQuery::Nothing)?;
        let with_sync = unsettled.skips;
        unsettled.asked = if with_sync {
            SettlementQuery::SyncAndQuery { waits: false }
        } else {
            SettlementQuery::Query
        };
        self.expected.push_back(Expect::Settlement);
        Some(with_sync)
    }

    /// A ReadyForQuery beyond those that were certain to come; whether one is told.
    pub(super) fn ready_again<'a>(
        &mut self,
        status: Status,
        on: &mut impl FnMut(ServerEvent<'a>),
    ) -> Result<bool, Unasked> {
        let unsettled = self.unsettled.as_mut().ok_or(Unasked('Z'))?;
        if let SettlementQuery::SyncAndQuery { waits: waits @ false } = &mut unsettled.asked {
            *waits = true;
            return Ok(false);
        }
        if unsettled.answered == unsettled.syncs {
            return Err(Unasked('Z'));
        }
        unsettled.answered += 1;
        if std::mem::take(&mut unsettled.skips) {
            on(ServerEvent::Ready { status, swallowed: false });
        } else {
            on(ServerEvent::ReadyAgain(status));
        }
        Ok(true)
    }

    /// The empty Query behind the Syncs of a failed COPY is answered: no more of them is.
    pub(super) fn settled<'a>(
        &mut self,
        on: &mut impl FnMut(ServerEvent<'a>),
    ) -> Result<(), Unasked> {
        let unsettled = self.unsettled.take().ok_or(Unasked('I'))?;
        match unsettled.asked {
            SettlementQuery::SyncAndQuery { waits: true } => on(ServerEvent::OwnSync),
            SettlementQuery::Query => {}
            SettlementQuery::Nothing
            | SettlementQuery::ByClient
            | SettlementQuery::SyncAndQuery { waits: false } => {
                return Err(Unasked('I'));
            }
        }
        on(ServerEvent::Ignored(unsettled.syncs - unsettled.answered));
        // The server has had Weir's Sync; the client, whose own is still to come, has not.
        self.skipping = unsettled.skips;
        self.expected.pop_front();
        self.expected.push_front(Expect::Query(ResponseAction::Swallow));
        self.begun = true;
        Ok(())
    }

    /// The server waits for the data of a COPY.
    pub(super) fn copy_begins<'a>(
        &mut self,
        on: &mut impl FnMut(ServerEvent<'a>),
    ) -> Result<(), Unasked> {
        let of_query = match self.expected.front() {
            Some(Expect::Query(ResponseAction::Pass)) => true,
            Some(Expect::Execute(ResponseAction::Pass)) => false,
            _ => return Err(Unasked('G')),
        };
        if self.copy.is_some() {
            return Err(Unasked('G'));
        }
        let copy = CopyIn::begin(&mut self.expected);
        self.copy = Some(copy);
        on(ServerEvent::CopyIn { syncs: copy.syncs, of_query });
        Ok(())
    }

    /// A command was completed. Where that is a COPY, every Sync amid its data was ignored.
    pub(super) fn copy_completed<'a>(
        &mut self,
        on: &mut impl FnMut(ServerEvent<'a>),
    ) -> Result<(), Unasked> {
        match self.copy.take() {
            Some(CopyIn { ended: false, .. }) => return Err(Unasked('C')),
            Some(CopyIn { syncs: syncs @ 1.., .. }) => on(ServerEvent::Ignored(syncs)),
            _ => {}
        }
        Ok(())
    }

    /// A COPY that there was has failed: how many Syncs stand amid its data, where any does, and
    /// what stands behind them.
    pub(super) fn copy_failed(&mut self) -> Option<(u64, Behind)> {
        let CopyIn { syncs, .. } = self.copy.take().filter(|copy| copy.syncs > 0)?;
        let mut runs = matches!(self.expected.front(), Some(Expect::Query(_)));
        for answer in self.expected.iter().skip(1) {
            match answer {
                Expect::Sync => runs = true,
                Expect::CopyEnd => {}
                next if runs && !next.is_invented() => return Some((syncs, Behind::Answered)),
                _ => return Some((syncs, Behind::Unknown)),
            }
        }
        Some((syncs, Behind::Nothing))
    }

    /// The server answers what was sent behind the Syncs of a failed COPY: no more of them is.
    pub(super) fn settled_by_answer<'a>(&mut self, on: &mut impl FnMut(ServerEvent<'a>)) {
        if let Some(unsettled) = self.unsettled.take_if(|of| of.asked == SettlementQuery::ByClient)
        {
            on(ServerEvent::Ignored(unsettled.syncs - unsettled.answered));
        }
    }
}
