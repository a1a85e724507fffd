//! A client's lease beside a server, without sockets.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher};
use std::rc::Rc;
use std::time::Instant;

use wire::postgres::backend::Status;
use wire::postgres::frame::{self, Frame};
use wire::postgres::frontend::tag;
use wire::postgres::{Refusal, sqlstate};
use wire::sql::Strings;

use super::server::{BASE, Server};
use crate::pipeline::compose::StatementUse;
use crate::pipeline::lease::answer::{Arrival, Hearing};
use crate::pipeline::lease::client::{Progress, WaitingInput};
use crate::pipeline::lease::endpoints::{
    BindLookup, Endpoints, MessageLookup, QueryLookup, bound_statement,
};
use crate::pipeline::lease::feed::Next;
use crate::pipeline::lease::listening::{ChannelRequest, ListenChange};
use crate::pipeline::lease::machine::Lease;
use crate::pipeline::lease::note::{Departure, SessionFacts};
use crate::pipeline::names::{Limits, Names};
use crate::pipeline::prepared::PreparedStatements;
use crate::pipeline::script::{Script, ServerEvent};
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

/// What all leases of a test have in common: the statements of one worker, and one moment.
pub struct Worker {
    statements: Statements,
    /// Those that keep their numbers, whoever asks for them first.
    _kept: Vec<Rc<Statement>>,
    reported: Reported,
    now: Instant,
}

impl Worker {
    pub fn new(texts: &[&str]) -> Rc<Self> {
        let statements = Statements::new(AMPLE);
        let kept = texts.iter().map(|sql| statements.known(sql.as_bytes(), &[0; 2])).collect();
        Rc::new(Self { statements, _kept: kept, reported: Vec::new(), now: Instant::now() })
    }
}

/// A session and its server connection, as far as its lease changes them.
#[derive(Clone)]
pub struct Session {
    pub settings: SessionSettings,
    names: Names,
    prepared: PreparedStatements,
    applied: Option<Applied>,
    pub script: Script,
    out: Vec<u8>,
    status: Status,
    leaves: Leaves,
    /// What the client has heard since it was asked last.
    pub heard: Vec<u8>,
    /// The lease has given the connection up.
    pub gives_up: bool,
    /// The client is closed for what it has sent or its server has said.
    pub is_killed: bool,
    /// Transactions that have ended and changed who may log in where.
    pub logins_changed: usize,
}

/// A client, its lease and its server, with what is on its way between them.
#[derive(Clone)]
pub struct Through {
    worker: Rc<Worker>,
    pub lease: Lease,
    pub session: Session,
    pub server: Server,
    inbox: Vec<u8>,
    /// What the server said and Weir has not heard.
    back: Vec<u8>,
}

impl Through {
    pub fn new(worker: &Rc<Worker>, lease: Lease) -> Self {
        let session = Session {
            settings: SessionSettings::default(),
            names: Names::new(AMPLE),
            prepared: PreparedStatements::new(AMPLE),
            applied: Some("".into()),
            script: Script::default(),
            out: Vec::new(),
            status: Status::Idle,
            leaves: Leaves::Nothing,
            heard: Vec::new(),
            gives_up: false,
            is_killed: false,
            logins_changed: 0,
        };
        let (inbox, back) = Default::default();
        Self { worker: worker.clone(), lease, session, server: Server::new(true), inbox, back }
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
        let now = self.worker.now;
        let taken = script.hear(&self.back[..len], &mut |heard| {
            match heard {
                ServerEvent::Prepared(number) => session.prepared.confirmed(number),
                ServerEvent::NotPrepared(number) => session.prepared.not_prepared(number),
                ServerEvent::Forgotten { number, left_out } => {
                    session.prepared.closed(number, left_out)
                }
                ServerEvent::Shape(number, shape) => session.prepared.described(number, shape),
                ServerEvent::Ready { status, .. } => session.status = status,
                _ => {}
            }
            session.hear(lease, heard, now);
        });
        self.session.script = script;
        // A message that is cut comes again with the rest.
        let taken = taken.unwrap();
        self.back.drain(..taken);
        self.turns();
    }

    /// Whether a channel is joined and nobody has said what came of that.
    pub fn is_joining(&self) -> bool {
        self.lease.channel == ChannelRequest::Asked
    }

    /// A server listens to the channel, or none does for Weir.
    pub fn joins(&mut self, is_confirmed: bool) {
        self.lease.joined(is_confirmed, true);
        self.turns();
    }

    /// What is known of the two where it is asked what is to become of the client.
    pub fn progress(&self) -> Progress {
        Progress {
            unsent: self.session.out.len(),
            ahead_max: usize::MAX,
            takes_data: self.session.script.takes_data(),
            is_answered: self.session.script.is_answered(),
            is_broken: self.session.gives_up,
            waiting: WaitingInput { has_rounds: false, bytes: self.inbox.len() },
        }
    }

    /// Goes on as far as it can without anybody else.
    pub fn turns(&mut self) {
        loop {
            self.parts();
            let len = self.feed();
            self.inbox.drain(..len);
            self.session.gives_up |= self.lease.ends_amid_round(&self.progress());
            let (lease, session) = (&mut self.lease, &mut self.session);
            let mut script = std::mem::take(&mut session.script);
            let now = self.worker.now;
            script.answer_invented(&mut |heard| session.hear(lease, heard, now));
            session.script = script;
            if len == 0 {
                return;
            }
        }
    }

    fn feed(&mut self) -> usize {
        let worker = &*self.worker;
        let Session {
            settings, names, prepared, script, out, status, leaves, heard, gives_up, ..
        } = &mut self.session;
        let mut ends = Endpoints {
            session: SessionFacts { now: worker.now, settings, reported: &worker.reported },
            names,
            statements: &worker.statements,
            changes: 0,
            message_max: 1 << 20,
            script,
            out,
            sent: 0,
            unsent_max: usize::MAX,
            prepared,
            status: *status,
            found: StatementUse::default(),
            departures: &mut |departure| match departure {
                Departure::Leaves(more) => *leaves = (*leaves).max(more),
                Departure::Tells(said) => heard.extend_from_slice(&said),
                Departure::GivesUp => *gives_up = true,
                _ => {}
            },
        };
        let mut at = 0;
        loop {
            let message = match self.lease.next(&self.inbox[at..], &mut ends).unwrap() {
                Next::Message(message) => message,
                Next::Goes(len) => {
                    at += len;
                    continue;
                }
                Next::Pauses => return at,
            };
            let lookup = look_up(message, ends.names);
            if !self.lease.take(message, lookup, &mut ends) {
                return at;
            }
            at += message.whole.len();
        }
    }

    /// The client and the connection part where nothing holds them together, and the client has
    /// the same one again.
    fn parts(&mut self) {
        if !self.lease.may_part() || !self.is_free() || self.lease.is_ending(false) {
            return;
        }
        let applied = self.session.settings.applied();
        if self.session.applied.as_ref() != Some(&applied) {
            self.session.prepared.next_epoch();
            self.session.applied = Some(applied);
        }
        if !self.lease.is_pinned {
            assert!(self.server.is_clean(), "{:?}", self.server);
            assert!(self.back.is_empty());
            let path = self.session.settings.value("search_path").unwrap_or(BASE);
            assert_eq!(path, self.server.session_path, "a setting is not followed");
            self.lease = Lease { client: self.lease.client, ..Lease::default() };
        }
    }

    /// Whether another client could have the connection as far as the protocol goes.
    pub fn is_free(&self) -> bool {
        let session = &self.session;
        !session.gives_up
            && session.status == Status::Idle
            && session.script.is_idle()
            && session.out.is_empty()
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
        self.session.names = Names::new(AMPLE);
        self.session.heard.clear();
        self.lease = Lease::default();
    }

    /// Whether nothing that the client has sent waits, nor an answer to it.
    pub fn rests(&self) -> bool {
        self.inbox.is_empty() && self.session.script.is_answered()
    }

    /// Whether all that the client has sent is answered.
    pub fn is_over(&self) -> bool {
        self.inbox.is_empty() && self.lease.is_quiet() && self.session.script.is_idle()
    }

    /// A number for all that counts for what follows.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let Session { settings, script, applied, out, status, leaves, .. } = &self.session;
        self.session.names.fingerprint(&mut hasher);
        self.session.prepared.fingerprint(&mut hasher);
        let mut debug = DebugHasher(&mut hasher);
        debug.write(&(&self.lease, &self.server, script, settings, applied, status, leaves));
        (out, &self.inbox, &self.back, self.session.gives_up).hash(&mut hasher);
        hasher.finish()
    }
}

/// Hashes what a value says of itself.
pub struct DebugHasher<'a>(pub &'a mut DefaultHasher);

impl DebugHasher<'_> {
    pub fn write(&mut self, value: &impl std::fmt::Debug) {
        std::fmt::write(self, format_args!("{value:?}")).unwrap();
    }
}

impl std::fmt::Write for DebugHasher<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

/// What is known of a message.
fn look_up<'a>(message: Frame<'_>, names: &Names) -> MessageLookup<'a> {
    match message.tag {
        tag::QUERY => {
            let plan = plan_of(&message.body[..message.body.len() - 1]);
            MessageLookup::Query(QueryLookup { plan, parts: None, point: None })
        }
        tag::PARSE => MessageLookup::Parse(None),
        tag::BIND => MessageLookup::Bind(bound_statement(message, names).map(|statement| {
            let plan = plan_of(&statement.sql);
            let listening = match &plan.kind {
                Kind::Listen(channel) => Some(ListenChange::To(channel.clone())),
                _ => None,
            };
            BindLookup { statement, plan, listening }
        })),
        _ => MessageLookup::Nothing,
    }
}

impl Session {
    /// The lease hears something.
    fn hear(&mut self, lease: &mut Lease, heard: ServerEvent<'_>, now: Instant) {
        let mut refusal = Vec::new();
        if let ServerEvent::Refused(_) = heard {
            Refusal::error(sqlstate::DUPLICATE_PREPARED_STATEMENT, "no").encode(&mut refusal);
        }
        let known = Hearing {
            now,
            strings: Strings::Standard,
            leaves: self.leaves,
            is_restoring: false,
            refusal: &refusal,
        };
        let Some(end) = lease.hear(heard, known, &mut |arrival| self.carry_out(arrival)) else {
            return;
        };
        self.logins_changed += usize::from(end.changed_logins);
        if end.holds {
            end.changes.into_iter().for_each(|change| self.settings.change(change));
        }
    }

    fn carry_out(&mut self, arrival: Arrival<'_>) {
        match arrival {
            Arrival::Tell { early, bytes } => {
                self.heard.extend_from_slice(early);
                self.heard.extend_from_slice(bytes);
            }
            Arrival::Name(outcome) => self.names.heard(outcome),
            Arrival::SettleNames => self.names.settle(),
            Arrival::UndoNames => self.names.undo_all(),
            Arrival::ClearNames => self.names.clear(),
            Arrival::ClearPrepared => self.prepared.clear(),
            Arrival::NextEpoch => self.prepared.next_epoch(),
            Arrival::Leaves(leaves) => self.leaves = leaves,
            Arrival::GivesUp => self.gives_up = true,
            Arrival::OutOfStep | Arrival::AmidCopy => self.is_killed = true,
            _ => {}
        }
    }
}
