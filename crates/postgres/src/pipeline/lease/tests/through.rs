//! A client's lease beside a server, without sockets.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::DerefMut;
use std::rc::Rc;
use std::time::Instant;

use wire::postgres::backend::Status;
use wire::postgres::frame::{self, Frame};
use wire::postgres::{Refusal, sqlstate};
use wire::sql::Strings;

use super::server::{BASE, Server};
use crate::pipeline::compose::{Composer, Found};
use crate::pipeline::lease::answer::{Arrival, Arriving};
use crate::pipeline::lease::listening::{DivertedChange, ListenChange};
use crate::pipeline::lease::machine::Lease;
use crate::pipeline::lease::note::{Departing, Departure};
use crate::pipeline::lease::sending::{Composing, Joining, Sending};
use crate::pipeline::names::{Limits, Names};
use crate::pipeline::prepared::Prepared;
use crate::pipeline::script::{Heard, Script, Why};
use crate::pipeline::settings::{Applied, Reported, SessionSettings};
use crate::pipeline::statements::{Statement, Statements};
use crate::plan::{Kind, Leaves, Plan};

const AMPLE: Limits = Limits { count: 100, bytes: 1 << 20 };

thread_local! {
    static PLANS: RefCell<HashMap<Vec<u8>, Rc<Plan>>> = RefCell::default();
}

/// The plan of a text, which is made once.
fn plan_of(sql: &[u8]) -> Rc<Plan> {
    let plan = || crate::plan::tests::plan(std::str::from_utf8(sql).unwrap());
    PLANS.with_borrow_mut(|plans| plans.entry(sql.to_vec()).or_insert_with(plan).clone())
}

/// A session and its server connection, as the lease sees them.
pub struct Session {
    pub settings: SessionSettings,
    reported: Reported,
    pub pinned: bool,
    names: RefCell<Names>,
    statements: Statements,
    prepared: Prepared,
    applied: Option<Applied>,
    pub script: Script,
    out: Vec<u8>,
    status: Status,
    leaves: Leaves,
    pub heard: RefCell<Vec<u8>>,
    /// The lease has given the connection or its client up.
    pub lost: bool,
    /// What came of joining a channel, where one is.
    joining: Option<Joining>,
    /// Transactions that have ended and changed who may log in where.
    pub logins_changed: usize,
}

impl Departing for Session {
    fn settings(&self) -> &SessionSettings {
        &self.settings
    }

    fn reported(&self) -> &Reported {
        &self.reported
    }

    fn now(&self) -> Instant {
        Instant::now()
    }

    fn carry_out(&mut self, departure: Departure) {
        match departure {
            Departure::Pins => self.pinned = true,
            Departure::Leaves(leaves) => self.leaves = self.leaves.max(leaves),
            Departure::NextEpoch => self.prepared.next_epoch(),
            Departure::GivesUp => self.lost = true,
            _ => {}
        }
    }
}

impl Sending for Session {
    fn message_max(&self) -> usize {
        1 << 20
    }

    fn is_pinned(&self) -> bool {
        self.pinned
    }

    fn is_pinned_by_mode(&self) -> bool {
        false
    }

    fn is_studied(&mut self, _: Frame<'_>) -> bool {
        true
    }

    fn forget_study(&mut self) {}

    fn plan(&self, query: Frame<'_>) -> Rc<Plan> {
        plan_of(&query.body[..query.body.len() - 1])
    }

    fn parts(&self, _: &Plan, _: Frame<'_>) -> Option<Vec<Rc<Plan>>> {
        None
    }

    fn plan_of(&self, statement: &Statement) -> Rc<Plan> {
        plan_of(&statement.sql)
    }

    fn lifts(&self, _: &Plan, _: Frame<'_>) -> bool {
        false
    }

    fn listening(&mut self, plan: &Plan) -> Option<ListenChange> {
        match &plan.kind {
            Kind::Listen(channel) => Some(ListenChange::To(channel.clone())),
            _ => None,
        }
    }

    fn join(&mut self, _: &str) -> Joining {
        let joining = *self.joining.get_or_insert(Joining::Waits);
        self.joining = Some(joining).filter(|of| *of == Joining::Waits);
        joining
    }

    fn is_joining(&self) -> bool {
        self.joining == Some(Joining::Waits)
    }

    fn undo_listen(&mut self, _: DivertedChange) {}

    fn names(&self) -> impl DerefMut<Target = Names> + '_ {
        self.names.borrow_mut()
    }

    fn tell(&self, said: &[u8]) {
        self.heard.borrow_mut().extend_from_slice(said);
    }

    fn status(&self) -> Status {
        self.status
    }

    fn is_full(&self) -> bool {
        false
    }

    fn has_unsent(&self) -> bool {
        !self.out.is_empty()
    }

    fn script(&mut self) -> &mut Script {
        &mut self.script
    }

    fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    fn compose<T>(
        &mut self,
        with: Composing<'_>,
        write: impl FnOnce(&mut Composer<'_>, &mut Vec<u8>, &mut Script) -> T,
    ) -> T {
        let mut composer = Composer {
            names: &mut self.names.borrow_mut(),
            statements: &self.statements,
            prepared: &mut self.prepared,
            fresh: with.fresh,
            changes: 0,
            has_failed: self.status == Status::Failed,
            may_have_failed: with.may_have_failed,
            found: Found::default(),
        };
        write(&mut composer, &mut self.out, &mut self.script)
    }

    fn learn(&mut self, _: Frame<'_>) {}

    fn compose_point(&mut self, _: Composing<'_>) {}
}

impl Arriving for Session {
    fn settings(&self) -> &SessionSettings {
        &self.settings
    }

    fn strings(&self) -> Strings {
        Strings::Standard
    }

    fn is_pinned(&self) -> bool {
        self.pinned
    }

    fn is_pinned_by_mode(&self) -> bool {
        false
    }

    fn keeps_last_values(&self) -> bool {
        false
    }

    fn leaves(&self) -> Leaves {
        self.leaves
    }

    fn is_restoring(&self) -> bool {
        false
    }

    fn is_for_another(&self, code: &[u8]) -> bool {
        code == b"25006"
    }

    fn refusal(&self, _: Why) -> Vec<u8> {
        let mut said = Vec::new();
        Refusal::error(sqlstate::DUPLICATE_PREPARED_STATEMENT, "no").encode(&mut said);
        said
    }

    fn carry_out(&mut self, arrival: Arrival<'_>) {
        match arrival {
            Arrival::Tell { early, bytes } => {
                Sending::tell(self, early);
                Sending::tell(self, bytes);
            }
            Arrival::Name(outcome) => self.names.borrow_mut().heard(outcome),
            Arrival::SettleNames => self.names.borrow_mut().settle(),
            Arrival::UndoNames => self.names.borrow_mut().undo_all(),
            Arrival::NextEpoch => self.prepared.next_epoch(),
            Arrival::Pins(pins) => self.pinned = pins,
            Arrival::Leaves(leaves) => self.leaves = leaves,
            Arrival::GivesUp | Arrival::OutOfStep | Arrival::AmidCopy => self.lost = true,
            Arrival::Ended(end) => {
                self.pinned |= end.pins;
                self.logins_changed += usize::from(end.changed_logins);
                if end.holds {
                    end.changes.into_iter().for_each(|change| self.settings.change(change));
                }
            }
            _ => {}
        }
    }
}

/// A client, its lease and its server, with what is on its way between them.
pub struct Through {
    pub lease: Lease,
    pub session: Session,
    pub server: Server,
    inbox: Vec<u8>,
    /// What the server said and Weir has not heard.
    back: Vec<u8>,
}

impl Through {
    pub fn new(lease: Lease) -> Self {
        let session = Session {
            settings: SessionSettings::default(),
            reported: Reported::default(),
            pinned: false,
            names: RefCell::new(Names::new(AMPLE)),
            statements: Statements::new(AMPLE),
            prepared: Prepared::new(AMPLE),
            applied: Some("".into()),
            script: Script::default(),
            out: Vec::new(),
            status: Status::Idle,
            leaves: Leaves::Nothing,
            heard: RefCell::default(),
            lost: false,
            joining: None,
            logins_changed: 0,
        };
        let (inbox, back) = Default::default();
        Self { lease, session, server: Server::new(true), inbox, back }
    }

    /// The client sends these bytes.
    pub fn sends(&mut self, bytes: &[u8]) {
        self.inbox.extend_from_slice(bytes);
        self.turns();
    }

    /// Whether the server has something to read.
    pub fn has_sent(&self) -> bool {
        !self.session.out.is_empty()
    }

    /// The server reads what it was sent, as far as whole messages go.
    pub fn arrives(&mut self) {
        let sent = std::mem::take(&mut self.session.out);
        let mut rest = &sent[..];
        while let Ok(Some(message)) = frame::next(rest, usize::MAX) {
            self.server.takes(message);
            rest = &rest[message.whole.len()..];
        }
        self.session.out = rest.to_vec();
        self.back.append(&mut self.server.said);
    }

    /// Whether something is there to be heard.
    pub fn has_said(&self) -> bool {
        !self.back.is_empty()
    }

    /// Weir hears up to so many bytes of what the server has said.
    pub fn hears(&mut self, at_most: usize) {
        let len = at_most.min(self.back.len());
        let (lease, session) = (&mut self.lease, &mut self.session);
        let mut script = std::mem::take(&mut session.script);
        let taken = script.hear(&self.back[..len], &mut |heard| {
            match heard {
                Heard::Prepared(number) => session.prepared.confirmed(number),
                Heard::NotPrepared(number) => session.prepared.not_prepared(number),
                Heard::Forgotten { number, left_out } => session.prepared.closed(number, left_out),
                Heard::Shape(number, shape) => session.prepared.described(number, shape),
                Heard::Ready { status, .. } => session.status = status,
                _ => {}
            }
            lease.hear(heard, Instant::now, session);
        });
        self.session.script = script;
        // A message that is cut comes again with the rest.
        let taken = taken.unwrap();
        self.back.drain(..taken);
        self.turns();
    }

    /// Whether a channel is joined and nobody has said what came of that.
    pub fn is_joining(&self) -> bool {
        self.session.is_joining()
    }

    /// A server listens to the channel, or none does for Weir.
    pub fn joins(&mut self, is_confirmed: bool) {
        self.session.joining = Some(match is_confirmed {
            true => Joining::Confirmed { joined: true },
            false => Joining::Refused,
        });
        self.turns();
    }

    /// Goes on as far as it can without anybody else.
    fn turns(&mut self) {
        loop {
            self.parts();
            let (len, fed) = self.lease.feed(&self.inbox, &mut self.session);
            assert_eq!(fed, Ok(()));
            self.inbox.drain(..len);
            let (lease, session) = (&mut self.lease, &mut self.session);
            let mut script = std::mem::take(&mut session.script);
            script.answer_invented(&mut |heard| lease.hear(heard, Instant::now, session));
            session.script = script;
            if len == 0 {
                return;
            }
        }
    }

    /// The client and the connection part where nothing holds them together, and the client has
    /// the same one again.
    fn parts(&mut self) {
        let is_free = self.session.script.is_idle() && self.session.out.is_empty();
        if !self.lease.may_part() || !is_free {
            return;
        }
        let applied = self.session.settings.applied();
        if self.session.applied.as_ref() != Some(&applied) {
            self.session.prepared.next_epoch();
            self.session.applied = Some(applied);
        }
        if !self.session.pinned {
            assert!(self.server.is_clean(), "{:?}", self.server);
            assert!(self.back.is_empty());
            let path = self.session.settings.value("search_path").unwrap_or(BASE);
            assert_eq!(path, self.server.session_path, "a setting is not followed");
            self.lease = Lease::default();
        }
    }

    /// Everything that is under way arrives.
    pub fn settles(&mut self) {
        while self.has_sent() || self.has_said() || self.is_joining() {
            self.arrives();
            self.hears(usize::MAX);
            if self.is_joining() {
                self.joins(true);
            }
        }
    }

    /// Another client, without settings, has the connection from now on.
    pub fn is_another_s(&mut self) {
        self.session.names = RefCell::new(Names::new(AMPLE));
        self.session.heard.borrow_mut().clear();
    }

    /// Whether all that the client has sent is answered.
    pub fn is_over(&self) -> bool {
        self.inbox.is_empty() && self.lease.is_quiet() && self.session.script.is_idle()
    }
}
