//! One batch on a server connection.

use std::cell::OnceCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::{Duration, Instant};

use tokio::task::spawn_local;
use wire::postgres::Malformed;
use wire::postgres::backend::{Fields, Status, tag};
use wire::postgres::frontend;

use super::{Member, Outcome};
use crate::backends::{Backend, BackendState};
use crate::client::Client;
use crate::connection::Connection;
use crate::pipeline::compose::{Composer, StatementUse};
use crate::pipeline::prepared::DOUBTFUL;
use crate::pipeline::round::messages;
use crate::pipeline::script::{Expect, ResponseAction, ServerEvent};
use crate::pipeline::settings::strings_of;
use crate::slow::{self, Slow};
use crate::worker::{ConfirmedCommit, HUNG, SharedCommit, UnconfirmedCommit, WorkerContext};

/// A statement that has failed in a batch, and its like, go alone for so long.
const ALONE: Duration = Duration::from_secs(1);

/// So much of an answer is kept until the transaction is committed: notices, which are told by
/// nothing that runs here, and tags.
const ANSWER_MAX: usize = 1024 * 1024;

/// ReadyForQuery outside a transaction.
const READY: [u8; 6] = [b'Z', 0, 0, 0, 5, b'I'];

/// SQLSTATEs, beside [`DOUBTFUL`], that are not about what a statement asks for: of the lock that
/// was waited for too long; of a server that is no primary any more, or stops; of a cancel that
/// was meant for another one.
const NOT_ITS_OWN: [&[u8]; 6] = [b"55P03", b"25006", b"57P01", b"57P02", b"57P03", b"57014"];

/// What the server has answered to a batch.
#[derive(Default)]
struct BatchReply {
    /// What clients are to hear, in the order of the statements.
    bytes: Vec<u8>,
    /// Statements that were completed.
    completed: usize,
    /// The SQLSTATE of the error that has undone all of it.
    failed: Option<Vec<u8>>,
    /// That error says where in the statement, or in which parameter, it is.
    points_at_text: bool,
    /// The transaction has ended.
    ended: bool,
    /// The server said what answers nothing: that it stops, or what is for a session that listens.
    aside: bool,
}

/// When a batch was sent, and how long it ran.
struct Times {
    asked: Instant,
    ran: Duration,
}

/// Runs statements in one transaction, and tells their clients.
pub(super) async fn run(
    front: &Rc<WorkerContext>,
    server: &mut Connection,
    members: Vec<Member>,
    commit: Option<SharedCommit>,
    limit: Option<Duration>,
) {
    let strings = strings_of(&server.reported);
    let alike = members.into_iter().partition(|member| member.strings == strings);
    let (mut members, others): (Vec<_>, Vec<_>) = alike;
    // This server would read their text in another way.
    others.into_iter().for_each(|member| member.end(Outcome::Alone));
    if members.is_empty() {
        return undone(commit);
    }
    // Two batches lock the rows that both of them change in one order.
    members.sort_unstable_by(|a, b| a.round.bytes().cmp(b.round.bytes()));
    let asked = Instant::now();
    let mut named = VecDeque::new();
    let without_waiting = commit.as_ref().map(SharedCommit::without_waiting);
    if compose(front, server, &members, without_waiting.as_deref(), &mut named).is_err() {
        // Nothing of it was sent.
        server.broken = true;
        undone(commit);
        return members.into_iter().for_each(|member| member.end(Outcome::Alone));
    }
    if let Some(first) = members.first() {
        server.record.lent(first.client.id);
    }
    server.record.asked(asked);
    server.drew = true;
    front.shared.metrics.batches.inc();
    let mut said = BatchReply::default();
    let backend = server.backend.clone();
    tokio::select! {
        biased;
        () = hear(front, server, &mut named, &mut said) => {}
        () = too_long(front, &backend, limit) => {}
    }
    let ran = asked.elapsed();
    if !said.ended || server.broken || server.status != Status::Idle {
        server.broken = true;
        server.script.abandon(&mut |heard| note_name(&mut named, &heard));
        for member in members {
            member.client.names().settle();
            member.end(Outcome::Unknown);
        }
        return;
    }
    conclude(front, server, members, commit, &said, Times { asked, ran });
}

/// The transaction has ended: its clients hear so, now or once it is confirmed, or each of them
/// goes by itself.
fn conclude(
    front: &Rc<WorkerContext>,
    server: &mut Connection,
    members: Vec<Member>,
    commit: Option<SharedCommit>,
    said: &BatchReply,
    times: Times,
) {
    // What it is in the middle of nobody here knows.
    server.broken = said.aside;
    let has_failed = said.failed.is_some();
    // What makes it commit without waiting is run first.
    let before = usize::from(commit.is_some());
    let commit = match has_failed {
        true => {
            undone(commit);
            None
        }
        false => commit,
    };
    if let Some(code) = said.failed.as_deref() {
        let failed = said.completed.checked_sub(before).unwrap_or(members.len());
        let is_doubtful = DOUBTFUL.contains(&code);
        if is_doubtful {
            server.prepared.next_epoch();
        }
        // What the error points at is in the text that Weir has made of it; by itself it is run as
        // its client has sent it.
        let is_edited = said.points_at_text && members.iter().any(|member| member.lifted.is_some());
        let is_its_own = failed < members.len() && !NOT_ITS_OWN.contains(&code);
        if members.len() > 1 || is_doubtful || is_edited || !is_its_own {
            return undo(front, members, failed);
        }
    }
    let Some(parts) = parts(&said.bytes, members.len(), has_failed) else {
        // An answer too many, or one too few: nobody can tell whose they are.
        server.broken = true;
        return members.into_iter().for_each(|member| member.end(Outcome::Unknown));
    };
    let (backend, user) = (server.backend.clone(), server.record.key.user.clone());
    let answered = Answered { members, has_failed, backend, user, times };
    match commit {
        None => answered.tell(front, &parts, &[]),
        Some(commit) => {
            answered.note_unconfirmed(true);
            spawn_local(answered.tell_once_confirmed(front.clone(), commit.hold(&said.bytes)));
        }
    }
}

/// Settles the shared commit of a batch that has committed nothing.
fn undone(commit: Option<SharedCommit>) {
    commit.into_iter().for_each(SharedCommit::settle);
}

/// Writes the statements of all of them, and one Sync.
fn compose(
    front: &WorkerContext,
    server: &mut Connection,
    members: &[Member],
    without_waiting: Option<&str>,
    named: &mut VecDeque<Rc<Client>>,
) -> Result<(), Malformed> {
    let mut fresh = Vec::new();
    let mut first = without_waiting;
    for member in members {
        let mut names = member.client.names();
        let mut composer = Composer {
            names: &mut names,
            statements: &front.statements,
            prepared: &mut server.prepared,
            fresh: &mut fresh,
            changes: member.database.changes(),
            has_failed: false,
            may_have_failed: false,
            found: StatementUse::default(),
        };
        let (out, script) = (&mut server.out, &mut server.script);
        if let Some(sql) = first.take() {
            composer.own(sql.as_bytes(), out, script);
        }
        let before = script.under_way();
        match &member.lifted {
            Some(lifted) => {
                composer.point(lifted, false, ResponseAction::Pass, out, script);
                front.shared.metrics.points.inc();
            }
            None => {
                let asked =
                    |message: &wire::postgres::frame::Frame<'_>| message.tag != frontend::tag::SYNC;
                for message in member.round.messages().filter(asked) {
                    composer.message(message, out, script)?;
                }
            }
        }
        member.database.count_found(&composer.found);
        names.next_round();
        let count = script.names_from(before);
        named.extend(std::iter::repeat_n(&member.client, count).cloned());
    }
    frontend::put_sync(&mut server.out);
    server.script.expect(Expect::Sync);
    Ok(())
}

/// Sends what was written and hears what the server says of it, to the end of the transaction or
/// of the connection.
async fn hear(
    front: &WorkerContext,
    server: &mut Connection,
    named: &mut VecDeque<Rc<Client>>,
    said: &mut BatchReply,
) {
    poll_fn(|cx| {
        while !said.ended {
            let sent = server.poll_send(cx);
            let heard = server.poll_hear(cx, &front.scratch, &mut |_, heard| match heard {
                ServerEvent::Bytes(bytes) => said.bytes.extend_from_slice(bytes),
                ServerEvent::Aside(_) => said.aside = true,
                ServerEvent::Completed(_) => said.completed += 1,
                // Behind its end the server may say that it stops.
                ServerEvent::Failed { body, .. } if !said.ended => {
                    let fields = Fields::read(body).ok();
                    said.points_at_text = fields.as_ref().is_some_and(points_at_text);
                    let code = fields.map(|fields| fields.code().to_vec());
                    said.failed = Some(code.unwrap_or_default());
                }
                ServerEvent::Ready { .. } => said.ended = true,
                heard => note_name(named, &heard),
            });
            let is_whole = matches!(ready!(heard), Ok(true)) && said.bytes.len() < ANSWER_MAX;
            if !is_whole || matches!(sent, Poll::Ready(Err(_))) {
                server.broken = true;
                break;
            }
        }
        Poll::Ready(())
    })
    .await;
}

/// Whether an error has a position in the statement's text, or a context, which names parameters.
fn points_at_text(fields: &Fields<'_>) -> bool {
    fields.get(b'P').is_some() || fields.get(b'W').is_some()
}

/// Waits until a batch has run for longer than any may, or its server was of no use for long: no
/// answer may ever come.
async fn too_long(front: &WorkerContext, backend: &Backend, limit: Option<Duration>) {
    let lost = async {
        let mut changes = front.backends.changes();
        let is_primary = || backend.standing() == BackendState::Primary;
        loop {
            while is_primary() && changes.changed().await.is_ok() {}
            tokio::time::sleep(HUNG).await;
            if !is_primary() {
                return;
            }
        }
    };
    match limit {
        None => lost.await,
        Some(limit) => drop(tokio::time::timeout(limit, lost).await),
    }
}

/// What became of the next message that changes a client's name for a statement.
fn note_name(named: &mut VecDeque<Rc<Client>>, heard: &ServerEvent<'_>) {
    if let ServerEvent::Name(outcome) = heard
        && let Some(client) = named.pop_front()
    {
        client.names().heard(*outcome);
    }
}

/// The server has undone all of it: each goes by itself. What failed does so for a while; where
/// that was the end of the transaction, it may have been any of them.
fn undo(front: &WorkerContext, members: Vec<Member>, failed: usize) {
    front.shared.metrics.batches_undone.inc();
    let until = Instant::now() + ALONE;
    let is_told = failed < members.len();
    for (at, member) in members.into_iter().enumerate() {
        if at == failed || !is_told {
            member.plan.goes_alone(until);
        }
        member.client.names().undo_all();
        member.end(Outcome::Alone);
    }
}

/// A batch that has ended, and whose clients are to hear so.
struct Answered {
    members: Vec<Member>,
    /// The only one has failed.
    has_failed: bool,
    backend: Arc<Backend>,
    user: Arc<str>,
    times: Times,
}

impl Answered {
    /// All is committed, or the only one has failed: each client hears its part, behind the
    /// server's `warning` where there is one.
    fn tell(self, front: &WorkerContext, parts: &[&[u8]], warning: &[u8]) {
        let Times { asked, ran } = self.times;
        let latencies = front.latencies(&self.backend);
        let count = u32::try_from(self.members.len()).unwrap_or(u32::MAX).max(1);
        self.note_slow(front);
        for (member, part) in self.members.into_iter().zip(parts) {
            member.client.names().settle();
            // One that was closed meanwhile has heard why.
            if !member.done.is_closed() {
                member.client.outlet.send_parts(&[warning, part, &READY]);
            }
            let queued = asked.saturating_duration_since(member.round.came);
            latencies.batch.observe(queued, ran);
            if !self.has_failed {
                member.plan.note(ran / count);
            }
            front.shared.metrics.batched.inc();
            member.database.count(|totals| {
                totals.assignments += 1;
                totals.transactions += 1;
                totals.queries += 1;
                totals.transaction_time += ran;
                totals.query_time += ran;
                totals.wait_time += queued;
            });
            member.end(Outcome::Told);
        }
    }

    fn note_unconfirmed(&self, is_unconfirmed: bool) {
        for member in &self.members {
            member.client.seen().unconfirmed.set(is_unconfirmed);
        }
    }

    fn note_slow(&self, front: &WorkerContext) {
        let Some(first) = self.members.first() else { return };
        let all = OnceCell::<Vec<_>>::new();
        let plans = || self.members.iter().map(|member| member.plan.clone()).collect();
        slow::note(&front.slow, self.times.ran, || Slow {
            database: &first.database,
            user: &self.user,
            backend: self.backend.name(),
            way: "batch",
            plans: all.get_or_init(plans),
        });
    }

    /// The server has committed all of it without waiting: its clients hear so once a mark has
    /// confirmed that, and else that nobody knows.
    async fn tell_once_confirmed(self, front: Rc<WorkerContext>, mut commit: UnconfirmedCommit) {
        let confirmed = commit.confirmed().await;
        self.note_unconfirmed(false);
        let Some(ConfirmedCommit { bytes, warning }) = confirmed else {
            return self.members.into_iter().for_each(|member| {
                member.client.names().settle();
                member.end(Outcome::Unconfirmed);
            });
        };
        // It was so many parts when it came.
        let Some(parts) = parts(&bytes, self.members.len(), false) else { return };
        self.tell(&front, &parts, warning.as_deref().unwrap_or_default());
    }
}

/// The answer to each of `count` statements, of what the server said up to its one ReadyForQuery.
/// `None`: it is not so many answers. Of a single statement that `has_failed` it is the error.
fn parts(said: &[u8], count: usize, has_failed: bool) -> Option<Vec<&[u8]>> {
    let mut rest = said.strip_suffix(&READY)?;
    let end = if has_failed { tag::ERROR_RESPONSE } else { tag::COMMAND_COMPLETE };
    let mut parts = Vec::with_capacity(count);
    let mut len = 0;
    for message in messages(rest) {
        len += message.whole.len();
        match message.tag {
            of if of == end => parts.push(len),
            tag::READY_FOR_QUERY | tag::ERROR_RESPONSE => return None,
            _ => {}
        }
    }
    (len == rest.len() && parts.last() == Some(&len) && parts.len() == count).then_some(())?;
    let mut before = 0;
    let answers = parts.into_iter().map(|end| {
        let (answer, behind) = rest.split_at(end - before);
        (before, rest) = (end, behind);
        answer
    });
    Some(answers.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DONE: &[u8] = b"2\0\0\0\x04C\0\0\0\x0fINSERT 0 1\0";
    const FAILED: &[u8] = b"E\0\0\0\x0cC22P02\0\0";

    #[test]
    fn each_statement_of_a_batch_has_one_answer_and_no_more() {
        let said = [DONE, DONE, &READY].concat();
        assert_eq!(parts(&said, 2, false), Some(vec![DONE, DONE]));
        assert_eq!(parts(&[FAILED, &READY].concat(), 1, true), Some(vec![FAILED]));
        for (said, count) in [
            (&[DONE, &READY][..], 2),
            (&[DONE, DONE, DONE, &READY], 2),
            (&[DONE, &READY, FAILED], 1),
            (&[DONE, &READY, DONE, &READY], 2),
            (&[DONE, DONE], 2),
            (&[DONE, FAILED, &READY], 2),
            (&[DONE, &FAILED[..5], &READY], 1),
        ] {
            assert_eq!(parts(&said.concat(), count, false), None);
        }
    }
}
