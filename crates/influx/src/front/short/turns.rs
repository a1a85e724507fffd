//! The one task that serves a worker's plain writes: it reads what has come, and answers what is
//! acknowledged.

use std::cell::Cell;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::fd::AsFd as _;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use flow::poll_set::Ready;
use flow::progress::Phase;
use http::StatusCode;
use journal::{AckError, Tickets};
use uring::{Outgoing, Sends};

use super::super::Front;
use super::super::answer::Answer;
use super::super::body;
use super::super::request_id::RequestId;
use super::super::stages::ANSWER;
use super::super::write::{AdmittedWrite, Write};
use super::cut::{Plain, RequestFraming, cut};
use super::{Input, Left, Member, Short, Step};

/// How many connections may be served before the worker's other tasks have their turn.
const SERVED_MAX: usize = 256;

/// How long reading may take before they have it, which large and compressed bodies make long; and
/// after how many plain requests it is looked at the clock.
const READING_MAX: Duration = Duration::from_millis(5);
const REQUESTS_A_LOOK: usize = 16;

/// While so many writes wait for the journal, the next thing to do comes within microseconds.
const BUSY_MIN: usize = 32;

/// How often a busy worker looks for it before it sleeps, giving way to other threads each time: to
/// be put to sleep and woken costs more, on a virtual machine above all.
const LOOKS_MAX: usize = 10;

/// A buffer of answers that has grown past this is given back.
const OUT_KEPT_MAX: usize = 256 << 10;

/// What came of reading.
enum Turn {
    /// Nothing has come yet.
    Nothing,
    /// Not all of it has come.
    More,
    /// The rest of the connection goes the long way.
    Other,
    /// A write, or what is wrong with it, and the request's id.
    Write(Result<AdmittedWrite, Answer>, RequestId),
}

/// A write whose points the journal has.
struct Pending {
    /// The connection's key among the members.
    key: usize,
    write: AdmittedWrite,
    id: RequestId,
}

/// Serves the worker's plain writes for as long as it runs.
pub async fn run(front: Rc<Front>) {
    let Some(short) = &front.short else {
        return;
    };
    let mut turns = Turns {
        front: &front,
        short,
        ready: Vec::new(),
        reading: ReadBudget::begin(Instant::now()),
        pending: Tickets::new(),
        settled: Vec::new(),
        sends: Sends::new(),
        answers: Vec::new(),
        out: Vec::new(),
        outcomes: Vec::new(),
    };
    if !turns.sends.is_batched() {
        let worker = front.worker.index;
        tracing::info!(worker, "no io_uring here: each answer is sent by a call of its own");
    }
    poll_fn(|cx| turns.poll(cx)).await
}

struct Turns<'a> {
    front: &'a Front,
    short: &'a Short,
    /// What may be read now.
    ready: Vec<Ready>,
    /// How long has been read in this turn of the task.
    reading: ReadBudget,
    pending: Tickets<Pending>,
    /// What is to be answered now.
    settled: Vec<(Pending, Result<(), AckError>)>,
    sends: Sends,
    /// The answers that are to be sent now, and their bytes.
    answers: Vec<Reply>,
    out: Vec<u8>,
    /// What came of them, by their numbers.
    outcomes: Vec<(usize, io::Result<usize>)>,
}

/// How long a turn of the task has read.
struct ReadBudget {
    begun: Instant,
    /// Requests since it was looked at the clock; a compressed one counts for all.
    requests: Cell<usize>,
    over: Cell<bool>,
}

impl ReadBudget {
    fn begin(now: Instant) -> Self {
        Self { begun: now, requests: Cell::new(0), over: Cell::new(false) }
    }

    /// Notes a request that was read.
    fn note(&self, is_gzip: bool) {
        let requests = self.requests.get() + if is_gzip { REQUESTS_A_LOOK } else { 1 };
        let look = requests >= REQUESTS_A_LOOK;
        self.requests.set(if look { 0 } else { requests });
        if look && self.begun.elapsed() > READING_MAX {
            self.over.set(true);
        }
    }

    /// Whether the rest is for the next turn.
    fn is_over(&self) -> bool {
        self.over.get()
    }
}

/// An answer among those that are to be sent.
struct Reply {
    /// The connection's key among the members.
    key: usize,
    /// Where it is in what is to be sent.
    bytes: Range<usize>,
    /// The connection ends with it.
    last: bool,
}

impl Turns<'_> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let (front, short) = (self.front, self.short);
        let (mut served, mut looks) = (0, 0);
        let mut now = Instant::now();
        self.reading = ReadBudget::begin(now);
        loop {
            let admission = &front.admission;
            while let Poll::Ready(Some(one)) = admission.poll_acknowledged(&mut self.pending, cx) {
                self.settled.push(one);
            }
            self.settle(now);
            // What is read behind an answer may wait for the journal, too.
            if !self.answers.is_empty() {
                self.send();
                looks = 0;
                now = Instant::now();
                continue;
            }
            let found = match short.set.poll(cx, |ready| self.ready.push(ready)) {
                Poll::Ready(found) => found,
                Poll::Pending if !self.ready.is_empty() => 0,
                Poll::Pending if looks >= LOOKS_MAX || self.pending.waiting() < BUSY_MIN => {
                    return Poll::Pending;
                }
                Poll::Pending => {
                    rustix::thread::sched_yield();
                    short.set.look(|ready| self.ready.push(ready))
                }
            };
            self.read_ready();
            looks = if found == 0 { looks + 1 } else { 0 };
            served += found;
            if served > SERVED_MAX || self.reading.is_over() {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            now = Instant::now();
        }
    }

    /// Reads what has come, as far as there is time for it.
    fn read_ready(&mut self) {
        let mut ready = std::mem::take(&mut self.ready);
        self.short.prefetch(ready.iter().map(|ready| ready.key as usize));
        let mut read = 0;
        for &Ready { key, ended } in &ready {
            if self.reading.is_over() {
                break;
            }
            read += 1;
            let key = key as usize;
            self.short.with(key, |member| {
                member.input = member.input.announced(ended);
                self.read(key, member);
            });
        }
        ready.drain(..read);
        // What was found meanwhile comes behind.
        ready.append(&mut self.ready);
        self.ready = ready;
    }

    /// Answers writes, but for those whose connection has gone.
    fn settle(&mut self, now: Instant) {
        let mut settled = std::mem::take(&mut self.settled);
        self.short.prefetch(settled.iter().map(|(pending, _)| pending.key));
        for (Pending { key, write, id }, settled) in settled.drain(..) {
            let ticket = write.ticket();
            let done = write.settled(self.front, settled, now);
            self.short.with(key, |member| match member.step {
                Step::Waiting(waiting) if Some(waiting) == ticket => {
                    self.answer(key, member, &done, &id);
                }
                _ => {}
            });
        }
        self.settled = settled;
    }

    /// Reads requests, as long as there are any and nothing is waited for.
    fn read(&mut self, key: usize, member: &mut Member) {
        while member.input != Input::Drained && matches!(member.step, Step::Reading) {
            let scratch = self.front.worker.connections.scratch();
            scratch.lend(|buffer| match member.bare.recv(buffer) {
                Ok(0) => member.step = Step::Leaving(Left::Over),
                Ok(count) => {
                    member.input = member.input.after_read(count == buffer.len());
                    self.take(key, member, &buffer[..count]);
                }
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => member.input = Input::Drained,
                    ErrorKind::Interrupted => {}
                    _ => member.step = Step::Leaving(Left::Over),
                },
            });
        }
    }

    /// Takes what came, together with what was held, and holds what it is too early for.
    fn take(&mut self, key: usize, member: &mut Member, came: &[u8]) {
        let mut held = std::mem::take(&mut member.held);
        member.share = None;
        let turn = if held.is_empty() {
            self.look(member, came, false)
        } else {
            held.extend_from_slice(came);
            self.look(member, &held, true)
        };
        if matches!(turn, Turn::More | Turn::Other) {
            if held.is_empty() {
                held.extend_from_slice(came);
            }
            member.held = held;
        }
        match turn {
            Turn::Nothing => {}
            // Where there is no memory the long way says so.
            Turn::More => match self.front.gateway.memory.bodies.take(member.held.len()) {
                None => member.step = Step::Leaving(Left::Other),
                share => member.share = share,
            },
            Turn::Other => member.step = Step::Leaving(Left::Other),
            Turn::Write(Err(refusal), id) => self.answer(key, member, &Err(refusal), &id),
            Turn::Write(Ok(write), id) => match write.ticket() {
                Some(ticket) => {
                    member.step = Step::Waiting(ticket);
                    self.pending.push(ticket, Pending { key, write, id });
                }
                None => {
                    let done = write.settled(self.front, Ok(()), Instant::now());
                    self.answer(key, member, &done, &id);
                }
            },
        }
    }

    /// Takes a write that has come whole; a head that has not after it was looked for `again` is
    /// left to those who read it piece by piece.
    fn look(&self, member: &Member, bytes: &[u8], again: bool) -> Turn {
        let (progress, connection) = (member.bare.progress(), &member.connection);
        let live = self.front.gateway.live();
        match cut(bytes, live.limits.head_max, live.limits.body_max) {
            RequestFraming::Other => Turn::Other,
            RequestFraming::Nothing => {
                progress.idle();
                Turn::Nothing
            }
            RequestFraming::Part { head: false } if again => Turn::Other,
            RequestFraming::Part { head } => {
                // Once, since the time of a body counts from there.
                if head && progress.phase() != Phase::Body {
                    progress.body();
                }
                Turn::More
            }
            RequestFraming::Whole(request) => {
                let Plain { api, query, headers, body } = &request;
                let write = Write::new(self.front, connection, *api, query, headers);
                let admitted = write.admit_now(body);
                self.reading.note(body::is_gzip(headers));
                match admitted {
                    Some(admitted) => Turn::Write(admitted, self.front.ids.of(headers)),
                    None => Turn::Other,
                }
            }
        }
    }

    /// Makes the answer, the last one of the connection where the worker drains, to be sent with
    /// all others of this turn.
    fn answer(
        &mut self,
        key: usize,
        member: &mut Member,
        done: &Result<(), Answer>,
        id: &RequestId,
    ) {
        let Front { gateway, worker, .. } = self.front;
        let status =
            done.as_ref().map_or_else(|refusal| refusal.status(), |()| StatusCode::NO_CONTENT);
        gateway.metrics.answered(status);
        let last = worker.drain.is_started();
        let begin = self.out.len();
        self.front.put_answer(&mut self.out, done, id, last);
        self.answers.push(Reply { key, bytes: begin..self.out.len(), last });
        member.step = Step::Answering;
        member.bare.progress().answered(self.out.len() - begin);
        member.bare.progress().idle();
    }

    /// Sends the answers that were made, and goes on reading.
    fn send(&mut self) {
        let mut answers = std::mem::take(&mut self.answers);
        let out = std::mem::take(&mut self.out);
        let mut outcomes = std::mem::take(&mut self.outcomes);
        let members = self.short.members.borrow();
        // Another connection may have the key of one that has gone since its answer was made; it
        // has asked for nothing yet.
        answers.retain(|answer| {
            let member = members.get(answer.key);
            member.is_some_and(|member| matches!(member.step, Step::Answering))
        });
        let outgoing = |answer: &Reply| {
            let socket = members.get(answer.key)?.bare.as_fd();
            Some(Outgoing { socket, bytes: &out[answer.bytes.clone()] })
        };
        let all: Vec<_> = answers.iter().filter_map(outgoing).collect();
        let stage = self.front.worker.pulse.enter(&ANSWER);
        self.sends.send(&all, |number, sent| outcomes.push((number, sent)));
        drop((all, stage));
        drop(members);
        for (number, sent) in outcomes.drain(..) {
            let Some(answer) = answers.get(number) else { continue };
            self.short.with(answer.key, |member| {
                if !matches!(member.step, Step::Answering) {
                    return;
                }
                member.step = answer.step_behind(sent, &out);
                if self.reading.is_over() && member.input != Input::Drained {
                    let key = answer.key as u64;
                    let ended = member.input == Input::Ending;
                    return self.ready.push(Ready { key, ended });
                }
                self.read(answer.key, member);
            });
        }
        self.outcomes = outcomes;
        // Kept for the next time, unless there are answers again.
        if self.answers.is_empty() && out.capacity() <= OUT_KEPT_MAX {
            (self.answers, self.out) = (answers, out);
            self.answers.clear();
            self.out.clear();
        }
    }
}

impl Drop for Turns<'_> {
    /// With the worker, or by a fault: then all that comes goes the long way.
    fn drop(&mut self) {
        self.short.end();
    }
}

impl Reply {
    /// What the connection does after so much of its answer was sent.
    fn step_behind(&self, sent: io::Result<usize>, out: &[u8]) -> Step {
        let sent = match sent {
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(_) => return Step::Leaving(Left::Over),
            Ok(sent) => sent,
        };
        match out.get(self.bytes.start + sent..self.bytes.end) {
            Some(rest) if !rest.is_empty() => {
                Step::Leaving(Left::Unsent { rest: rest.to_vec(), last: self.last })
            }
            _ if self.last => Step::Leaving(Left::Over),
            _ => Step::Reading,
        }
    }
}
