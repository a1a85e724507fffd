//! One connection: takes a request, sends it, reads its answer, and is opened anew where it ends.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use flow::dial::{Socket, Stage, Target};
use tokio::io::ReadBuf;

use super::exchange::{ExchangeError, failure, fate, kind};
use super::line::Line;
use super::opening::{OpenError, open};
use super::pacing::{ConnectionStep, Job};
use super::record::{SentRequest, ThreadRecord};
use super::sending::Sending;
use crate::failure::Owner;
use crate::ledger::Fate;
use crate::workload::{Answer, Reader, Workload};

/// The first pause after a connection could not be opened anew, and the longest.
pub const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));
/// Ticks for which an answer is waited for that has its time behind it, and has begun to come.
const LAST_CALLS_MAX: u8 = 10;
const UNASKED: &str = "the server answered what nobody had asked";

/// What the tasks of one thread share. Each part has its own methods and knows of no other.
pub struct ThreadState<W> {
    pub workload: RefCell<W>,
    /// The number of the workload's first operation, among those of all loads.
    pub first_operation: usize,
    pub sending: RefCell<Sending>,
    pub record: RefCell<ThreadRecord>,
    /// Where bytes are read to; nothing stays in it.
    pub scratch: RefCell<Box<[u8]>>,
}

impl<W: Workload> ThreadState<W> {
    /// Opens a connection anew, however long it takes.
    pub async fn reach(&self, target: &Target) -> Socket {
        let mut pause = PAUSES.0;
        loop {
            let greeting = self.workload.borrow().greeting();
            let begun = Instant::now();
            match open(target, greeting).await {
                Ok((socket, _)) => return socket,
                Err(error) => self.note_unreachable(target, &error, begun),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    /// Records why a connection could not be opened anew.
    fn note_unreachable(&self, target: &Target, error: &OpenError, begun: Instant) {
        let (mut owner, words) = error.blame();
        let (mut record, now) = (self.record.borrow_mut(), Instant::now());
        record.roll(now);
        let is_late = matches!(error, OpenError::Dial(error) if error.stage == Stage::Late);
        if is_late && record.missed(begun + target.connect_timeout) {
            owner = Owner::Injector;
        }
        record.note_error(owner, &words, now);
    }
}

/// A connection's task, from its first request to the end of the run.
pub struct Connection<W: Workload> {
    pub at: usize,
    pub target: Target,
    pub line: Line,
    /// Since when it has had no request under way.
    pub free: Instant,
    /// How long an answer may take.
    pub timeout: Duration,
    pub shared: Rc<ThreadState<W>>,
    /// Bytes of the request under way that went out, and that came in.
    pub moved: (usize, usize),
    /// How often the request under way had its time, and something was there to be read.
    pub last_calls: u8,
}

/// What to do next.
enum Turn {
    Send(Job),
    /// The connection has ended while nothing was under way.
    Reopen,
    Over,
}

impl<W: Workload> Connection<W> {
    /// Sends until the run is over; gives the connection, if it is open and idle then.
    pub async fn serve(mut self) -> Option<(Target, Socket)> {
        let mut reader = self.shared.workload.borrow().reader();
        let mut out = Vec::new();
        loop {
            let goes_on = match self.turn().await {
                Turn::Over => {
                    let Self { line, target, .. } = self;
                    return line.into_own().map(|socket| (target, socket));
                }
                Turn::Reopen => self.reopen(&mut reader).await,
                Turn::Send(job) => self.visit(job, &mut reader, &mut out).await,
            };
            if !goes_on {
                return None;
            }
        }
    }

    /// Waits until there is something to send.
    async fn turn(&mut self) -> Turn {
        if self.line.has_left() {
            return Turn::Reopen;
        }
        let step = self.shared.sending.borrow_mut().freed(self.at, self.free);
        match step {
            ConnectionStep::Send(job) => return Turn::Send(job),
            ConnectionStep::End => return Turn::Over,
            ConnectionStep::Wait => {}
        }
        poll_fn(|cx| self.poll_turn(cx)).await
    }

    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<Turn> {
        let mut sending = self.shared.sending.borrow_mut();
        if let Some(job) = sending.take_assigned(self.at) {
            return Poll::Ready(Turn::Send(job));
        }
        if sending.is_over() {
            return Poll::Ready(Turn::Over);
        }
        sending.listen(self.at, cx);
        let mut scratch = self.shared.scratch.borrow_mut();
        let mut read = ReadBuf::new(&mut scratch);
        if self.line.poll_read(cx, &mut read).is_pending() {
            return Poll::Pending;
        }
        let mut record = self.shared.record.borrow_mut();
        if !read.filled().is_empty() {
            record.note_error(Owner::Server, UNASKED, Instant::now());
        }
        self.free = Instant::now();
        if let Some(thought) = sending.pacing.withdraw(self.at, self.free) {
            record.note_thinking(thought);
        }
        Poll::Ready(Turn::Reopen)
    }

    /// Sends a request, and those that the same user sends on its answers; false where the run is
    /// over.
    async fn visit(&mut self, job: Job, reader: &mut W::Reader, out: &mut Vec<u8>) -> bool {
        let mut sent = self.begin(job, reader, out);
        loop {
            let entered = self.enter(sent.number, Fate::Unknown);
            self.last_calls = 0;
            let mut answer = match entered {
                true if out.is_empty() => Err(ExchangeError::Unmade),
                true => self.exchange(reader, out).await,
                false => Err(ExchangeError::Unentered),
            };
            let now = Instant::now();
            let due = sent.at + self.timeout;
            if matches!(answer, Err(ExchangeError::Expired))
                && self.shared.record.borrow().missed(due)
            {
                answer = Err(ExchangeError::Paused);
            }
            self.settle(sent, reader, &answer, now);
            out.clear();
            let next = if answer.is_ok() { reader.follow(out) } else { None };
            let is_reusable = answer.is_ok_and(|answer| answer.reusable);
            if !is_reusable && !self.reopen(reader).await {
                return false;
            }
            let Some(of_load) = next else { return true };
            if self.shared.sending.borrow().is_past_end(now) {
                return true;
            }
            reader.begin(of_load);
            sent = self.note_sent(Job { due: now, free: self.free, ..job }, of_load);
        }
    }

    /// Makes a request; it counts as sent from now on.
    fn begin(&self, job: Job, reader: &mut W::Reader, out: &mut Vec<u8>) -> SentRequest {
        out.clear();
        let of_load = self.shared.workload.borrow_mut().request(job.number, out);
        reader.number(job.number);
        reader.begin(of_load);
        self.note_sent(job, of_load)
    }

    fn note_sent(&self, job: Job, of_load: usize) -> SentRequest {
        let now = Instant::now();
        self.shared.sending.borrow_mut().begin(self.at, now);
        let operation = self.shared.first_operation + of_load;
        self.shared.record.borrow_mut().note_sent(job, operation, now)
    }

    /// Enters into the ledger what is known of a request; where that fails, the run ends.
    fn enter(&self, number: u64, fate: Fate) -> bool {
        let is_entered = self.shared.record.borrow_mut().enter(number, fate);
        if !is_entered {
            self.shared.sending.borrow().stop.ask();
        }
        is_entered
    }

    async fn exchange(
        &mut self,
        reader: &mut W::Reader,
        out: &mut Vec<u8>,
    ) -> Result<Answer, ExchangeError> {
        let mut written = 0;
        loop {
            let allowed = reader.go_on(out, written);
            let said = self.say(reader, &out[written..allowed]).await?;
            written = allowed;
            if let Some(answer) = said {
                return Ok(answer);
            }
        }
    }

    /// Sends a part of a request; gives the answer, if it ends what is to be said.
    async fn say(
        &mut self,
        reader: &mut W::Reader,
        out: &[u8],
    ) -> Result<Option<Answer>, ExchangeError> {
        let (mut written, mut flushed) = (0, out.is_empty());
        poll_fn(|cx| {
            let expired = {
                let mut sending = self.shared.sending.borrow_mut();
                sending.listen(self.at, cx);
                sending.is_expired(self.at)
            };
            // What has come is read before it is decided that nothing has.
            if expired {
                let answer = self.poll_answer(reader, flushed, cx);
                if answer.is_pending() && !self.has_last_call() {
                    return Poll::Ready(Err(ExchangeError::Expired));
                }
                return answer.map_ok(|answer| answer.map(|answer| reusable(answer, flushed)));
            }
            while written < out.len() {
                match self.line.poll_write(cx, &out[written..]) {
                    Poll::Ready(Ok(0)) => {
                        return Poll::Ready(Err(ExchangeError::Io(
                            io::ErrorKind::WriteZero.into(),
                        )));
                    }
                    Poll::Ready(Ok(len)) => {
                        written += len;
                        self.moved.0 += len;
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(ExchangeError::Io(error))),
                    Poll::Pending => break,
                }
            }
            if written == out.len() && !flushed {
                match self.line.poll_flush(cx) {
                    Poll::Ready(Ok(())) => flushed = true,
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(ExchangeError::Io(error))),
                    Poll::Pending => {}
                }
            }
            // An answer may come before all of the request is sent: of one that is refused.
            let answer = std::task::ready!(self.poll_answer(reader, flushed, cx))?;
            Poll::Ready(Ok(answer.map(|answer| reusable(answer, flushed))))
        })
        .await
    }

    /// Whether something has come that the runtime has not told of yet, as where the thread stood
    /// still, or a thousand others are to be told of before. That is waited for until the next
    /// tick; an answer that never ends has always something, so not for ever.
    fn has_last_call(&mut self) -> bool {
        // Of a shared connection something comes all the time, mostly of others.
        let max = if self.line.is_shared() { 1 } else { LAST_CALLS_MAX };
        if self.last_calls >= max || !self.line.has_come() {
            return false;
        }
        self.last_calls += 1;
        self.shared.sending.borrow_mut().extend(self.at);
        true
    }

    /// Reads what has come; gives nothing where the request may have to go on.
    fn poll_answer(
        &mut self,
        reader: &mut W::Reader,
        flushed: bool,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Answer>, ExchangeError>> {
        let mut scratch = self.shared.scratch.borrow_mut();
        loop {
            let mut read = ReadBuf::new(&mut scratch);
            let ready = std::task::ready!(self.line.poll_read(cx, &mut read));
            if let Err(error) = ready {
                return Poll::Ready(Err(error.into()));
            }
            if read.filled().is_empty() {
                return Poll::Ready(reader.ended().ok_or(ExchangeError::Closed).map(Some));
            }
            self.moved.1 += read.filled().len();
            match reader.read(read.filled()) {
                Ok(Some(answer)) => return Poll::Ready(Ok(Some(answer))),
                Ok(None) if flushed => return Poll::Ready(Ok(None)),
                Ok(None) => {}
                Err(malformed) => return Poll::Ready(Err(ExchangeError::Malformed(malformed))),
            }
        }
    }

    /// Records what came of a request.
    fn settle(
        &mut self,
        sent: SentRequest,
        reader: &W::Reader,
        answer: &Result<Answer, ExchangeError>,
        now: Instant,
    ) {
        let (out, came) = std::mem::take(&mut self.moved);
        let (kind, server) = (kind(answer), self.line.end_request());
        if let Some(fate) = fate(kind, answer.is_ok()) {
            self.enter(sent.number, fate);
        }
        self.free = now;
        self.shared.sending.borrow_mut().settle(self.at);
        let mut record = self.shared.record.borrow_mut();
        record.note_result(sent, kind, now);
        record.note_bytes(sent, out, came);
        if let Some(server) = server {
            record.note_server(sent, &server, kind);
        }
        if let Ok(answer) = answer {
            record.note_answer(sent, answer);
        }
        self.shared.workload.borrow_mut().heard(sent.number, answer.as_ref().ok());
        if let Some(owner) = Owner::of(kind)
            && let Some(words) = failure(answer, reader, came)
        {
            record.note_error(owner, &words, sent.due);
        }
    }

    /// Opens the connection anew; false where the run is over. What waits for it meanwhile is
    /// blocked.
    async fn reopen(&mut self, reader: &mut W::Reader) -> bool {
        let closed = self.free;
        if self.line.is_shared() {
            self.line.release();
            let was_open = !self.line.has_left();
            let is_open = self.until_over(self.line.opened()).await.is_some();
            self.free = Instant::now();
            if !was_open {
                let mut record = self.shared.record.borrow_mut();
                record.note_reopening(closed, self.free, false);
            }
            reader.renew(self.shared.workload.borrow().reader());
            return is_open;
        }
        let socket = self.until_over(self.shared.reach(&self.target)).await;
        let now = Instant::now();
        self.free = now;
        self.shared.record.borrow_mut().note_reopening(closed, now, socket.is_some());
        let Some(socket) = socket else { return false };
        reader.renew(self.shared.workload.borrow().reader());
        self.line = Line::Own(socket);
        true
    }

    async fn until_over<T>(&self, what: impl Future<Output = T>) -> Option<T> {
        let mut what = pin!(what);
        poll_fn(|cx| {
            let mut sending = self.shared.sending.borrow_mut();
            if sending.is_past_end(Instant::now()) {
                return Poll::Ready(None);
            }
            sending.listen(self.at, cx);
            drop(sending);
            what.as_mut().poll(cx).map(Some)
        })
        .await
    }
}

/// An answer before all of its request was sent is the last one of its connection.
fn reusable(mut answer: Answer, flushed: bool) -> Answer {
    answer.reusable &= flushed;
    answer
}
