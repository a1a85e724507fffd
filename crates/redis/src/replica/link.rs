//! The connection to a master: joining it, what it sends, and what it is told.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use flow::backoff::Backoff;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use wire::resp::put_command;

use super::answers::{Histories, Lineage, keys_of};
use super::inbox::{BaseHead, Inbox, Order};
use super::joins::ReplicaConnection;
use super::keys::Keys;
use super::lines::Id;
use super::rdb::{Framing, RdbError};
use super::state::{Durable, Figure, State};
use super::stream::offset_of;
use crate::server::{Connection, Server, ServerError};
use crate::settings::AofSettings;

/// How much is read at once.
pub const READ_BYTES: usize = 128 << 10;
/// A line of a master's before its stream is no longer.
const LINE_BYTES_MAX: usize = 4 << 10;
/// How often a master is told what is durable, whatever happens: one that sends a base without a
/// file of its own begins its stream only when it is told, and ignores what it is told too early.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// How a master asks at once what is durable, without the head of its command.
const GETACK: &[u8] = b"\r\n$6\r\nGETACK\r\n$1\r\n*\r\n";
/// The first and the longest wait before a master is joined again.
const RETRY: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];

/// Set when the process stops.
pub type Stop = watch::Receiver<bool>;

/// Why a link ended.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// There is no connection.
    #[error("it cannot be joined: {0}")]
    Server(#[from] ServerError),
    /// The connection is gone.
    #[error("the link broke: {0}")]
    Io(#[from] io::Error),
    /// It answers with an error.
    #[error("it refuses: {0}")]
    Refused(String),
    /// It follows another server.
    #[error("it is itself a replica: name its master in redis.aof")]
    IsReplica,
    /// It follows another server, and others have it as the master.
    #[error(
        "{0} have it as the master, and it says that it is itself a replica, as during a failover: \
         they are asked again until both say the same"
    )]
    IsNoMaster(&'static str),
    /// It has less of a history than it sent before.
    #[error(
        "it goes back in its own history, to offset {0} from {1}: what it has is not what it sent. \
         Move the master's directory away to begin anew"
    )]
    GoesBack(u64, u64),
    /// It would go on with what it says it does not have.
    #[error("it goes on under the id {0}, and INFO says that it has no such history")]
    OtherHistory(Id),
    /// It has been failed over.
    #[error("it is elsewhere, as its Sentinels say")]
    Moved,
    /// Nothing came within the timeout.
    #[error("it was silent for {0:?}")]
    Silent(Duration),
    /// Its data set is none.
    #[error(transparent)]
    Rdb(#[from] RdbError),
    /// What is received has nowhere to go.
    #[error("the disk takes no more")]
    Closed,
}

/// What a master is joined with, and how far its stream was received.
#[derive(Debug)]
pub struct Link {
    server: Server,
    state: Arc<State>,
    timeout: Duration,
    base_max: u64,
    /// The port that the master is told, if any.
    announced: Option<u16>,
    position: Option<(Id, u64)>,
    /// How much of whose history was confirmed where the stream does not go on there.
    before: Option<(Id, u64)>,
    /// How many bases were begun.
    bases: u64,
}

/// What the master sends next.
#[derive(Debug)]
enum Phase {
    /// The line before a base.
    Head { id: Id, offset: u64 },
    /// The bytes of an RDB file.
    Base { framing: Framing, id: Id, offset: u64 },
    /// Commands, without an end.
    Stream,
}

impl Link {
    /// Nothing is sent yet.
    pub fn new(
        server: Server,
        settings: &AofSettings,
        announced: Option<u16>,
        state: Arc<State>,
    ) -> Self {
        let (timeout, base_max) = (settings.timeout.get(), settings.base_max.bytes());
        let (position, before) = (None, None);
        Self { server, state, timeout, base_max, announced, position, before, bases: 0 }
    }

    pub fn name(&self) -> &str {
        &self.server.name
    }

    /// Where the files end now, and how much of whose history was confirmed.
    pub fn resume(&mut self, position: Option<(Id, u64)>, confirmed: Option<(Id, u64)>) {
        (self.position, self.before) = (position, confirmed);
        self.bases = self.state.durable.borrow().bases;
        self.state.received(position.map_or(0, |(_, offset)| offset));
    }

    /// Joins the master again and again, until the inbox is closed or the process stops.
    pub async fn run(&mut self, inbox: &Inbox, stop: &mut Stop) {
        let mut backoff = Backoff::new(RETRY[0], RETRY[1]);
        while !inbox.is_closed() {
            self.state.link("connecting");
            let before = self.position;
            let error = tokio::select! {
                error = self.joined(inbox) => error,
                _ = stop.wait_for(|stop| *stop) => return,
            };
            inbox.push(Order::BaseLost);
            self.state.link_lost();
            if inbox.is_closed() {
                return;
            }
            if self.state.trouble(Some(error.to_string())) {
                tracing::warn!(master = self.name(), "{error}");
            }
            if self.position != before {
                backoff.reset();
            }
            tokio::select! {
                () = backoff.wait() => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    }

    /// Joins the master and takes what it sends; gives why that ended.
    async fn joined(&mut self, inbox: &Inbox) -> LinkError {
        match self.join(inbox).await {
            Ok((connection, joined, rest, phase)) => {
                let (reader, writer) = tokio::io::split(connection);
                let taking = MasterStream {
                    link: self,
                    inbox,
                    reader,
                    writer,
                    _joined: joined,
                    rest,
                    phase,
                    asked: AckRequests::default(),
                };
                match taking.run().await {
                    Err(error) => error,
                    Ok(never) => match never {},
                }
            }
            Err(error) => error,
        }
    }

    /// Waits for a master no longer than it may be silent.
    async fn within<T, E>(&self, done: impl Future<Output = Result<T, E>>) -> Result<T, LinkError>
    where
        LinkError: From<E>,
    {
        let done = timeout(self.timeout, done).await;
        Ok(done.map_err(|_| LinkError::Silent(self.timeout))??)
    }

    /// Logs in and asks for the stream.
    async fn join(
        &mut self,
        inbox: &Inbox,
    ) -> Result<(Connection, ReplicaConnection, Vec<u8>, Phase), LinkError> {
        let mut connection = self.within(self.server.dial()).await?;
        let mut out = Vec::new();
        put_command(&mut out, ["ROLE"].iter());
        let mut told = vec!["REPLCONF", "capa", "eof", "capa", "psync2"];
        let port = self.announced.map(|port| port.to_string());
        told.extend(port.iter().flat_map(|port| ["listening-port", port]));
        put_command(&mut out, told.iter());
        put_command(&mut out, ["INFO", "replication"].iter());
        put_command(&mut out, ["INFO", "keyspace"].iter());
        let mut replies = self.within(connection.ask(&out, 4)).await?;
        // A user that may not ask has them unknown.
        let keys = replies.pop().and_then(|reply| keys_of(&reply));
        let histories = replies.pop().and_then(|reply| Histories::read(&reply));
        let text = |reply: &[u8]| String::from_utf8_lossy(reply).trim_end().to_owned();
        if let Some(error) = replies.iter().find_map(|reply| reply.strip_prefix(b"-")) {
            return Err(LinkError::Refused(text(error)));
        }
        if replies.first().is_some_and(|role| role.starts_with(b"*5\r\n$5\r\nslave")) {
            return Err(self.server.told_by().map_or(LinkError::IsReplica, LinkError::IsNoMaster));
        }
        out.clear();
        let (id, next) = match self.position {
            // The offset that is asked for is that of the next byte, from 1.
            Some((id, offset)) => (id.to_string(), offset.saturating_add(1).to_string()),
            None => ("?".to_owned(), "-1".to_owned()),
        };
        put_command(&mut out, ["PSYNC", &id, &next].iter());
        let joined = self.state.joins.one();
        self.within(connection.write_all(&out)).await?;
        self.within(connection.flush()).await?;
        let mut rest = Vec::with_capacity(READ_BYTES);
        let line = loop {
            if let Some(line) = line(&mut rest)? {
                break line;
            }
            // One that is busy with another fork sends empty lines until it can answer.
            if self.within(connection.read_buf(&mut rest)).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
        };
        let phase = self.answered(&line, (keys, histories), inbox)?;
        Ok((connection, joined, rest, phase))
    }

    /// How much of whose history was confirmed: what was received and is not durable was not.
    fn confirmed(&self) -> Option<(Id, u64)> {
        let durable = self.state.durable.borrow().offset;
        let of_files = self.position.map(|(id, offset)| (id, offset.min(durable)));
        of_files.or(self.before)
    }

    /// What the master says to `PSYNC`.
    fn answered(
        &mut self,
        line: &[u8],
        (keys, histories): (Option<u64>, Option<Histories>),
        inbox: &Inbox,
    ) -> Result<Phase, LinkError> {
        let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let refused = || LinkError::Refused(String::from_utf8_lossy(line).into_owned());
        match (words.as_slice(), self.position) {
            ([b"+FULLRESYNC", id, offset], _) => {
                let id = Id::read(id).ok_or_else(refused)?;
                let offset = offset_of(offset).ok_or_else(refused)?;
                if let Some((of, before)) = self.position
                    && of == id
                    && offset < before
                {
                    return Err(LinkError::GoesBack(offset, before));
                }
                tracing::info!(master = self.name(), offset, "the master sends its data set");
                self.state.link("base");
                let lineage = Lineage::of(id, histories, self.confirmed());
                inbox.push(Order::Base(BaseHead { id, offset, keys, lineage }));
                self.bases += 1;
                Ok(Phase::Head { id, offset })
            }
            ([b"+CONTINUE", under @ ..], Some((id, offset))) => {
                let under = under.first().map(|id| Id::read(id).ok_or_else(refused));
                let under = under.transpose()?.unwrap_or(id);
                // Another id is right after a failover, and only then.
                if histories.is_some_and(|known| !known.goes_on((id, offset), under)) {
                    return Err(LinkError::OtherHistory(under));
                }
                if under != id {
                    inbox.push(Order::Renamed(under));
                    self.position = Some((under, offset));
                }
                tracing::info!(master = self.name(), offset, "the stream goes on");
                self.state.link("following");
                Ok(Phase::Stream)
            }
            _ => Err(refused()),
        }
    }
}

/// Cuts a line off the front, without its end; empty ones are a master's signs of life.
///
/// # Errors
/// It has no end.
pub fn line(bytes: &mut Vec<u8>) -> Result<Option<Vec<u8>>, LinkError> {
    let blank = bytes.iter().take_while(|byte| **byte == b'\n').count();
    bytes.drain(..blank);
    let Some(end) = memchr::memchr(b'\n', bytes) else {
        return match bytes.len() > LINE_BYTES_MAX {
            true => Err(LinkError::Refused("a line of the master's has no end".to_owned())),
            false => Ok(None),
        };
    };
    let mut line: Vec<u8> = bytes.drain(..=end).collect();
    line.truncate(line.strip_suffix(b"\r\n").map_or(end, <[u8]>::len));
    Ok(Some(line))
}

/// Whether a master asks what is durable, by `REPLCONF GETACK *` within its stream. A value that
/// looks like it is answered, too, which costs a few bytes.
#[derive(Debug, Default)]
struct AckRequests {
    is_asked: bool,
    /// The end of what was looked at: a question may lie across two reads.
    last: Vec<u8>,
}

impl AckRequests {
    fn look(&mut self, bytes: &[u8]) {
        let across = bytes.get(..GETACK.len().min(bytes.len())).unwrap_or_default();
        self.last.extend_from_slice(across);
        let is_in = |bytes: &[u8]| memchr::memmem::find(bytes, GETACK).is_some();
        self.is_asked |= is_in(bytes) || is_in(&self.last);
        if bytes.len() >= GETACK.len() {
            self.last.clear();
            self.last.extend_from_slice(bytes);
        }
        // One that was whole is not seen again.
        let surplus = self.last.len().saturating_sub(GETACK.len() - 1);
        self.last.drain(..surplus);
    }
}

/// A master that was joined.
struct MasterStream<'a> {
    link: &'a mut Link,
    inbox: &'a Inbox,
    reader: ReadHalf<Connection>,
    writer: WriteHalf<Connection>,
    /// Goes with the connection.
    _joined: ReplicaConnection,
    rest: Vec<u8>,
    phase: Phase,
    /// Whether the master has asked what is durable.
    asked: AckRequests,
}

impl MasterStream<'_> {
    /// Takes what comes, and tells what is durable.
    async fn run(mut self) -> Result<std::convert::Infallible, LinkError> {
        let mut durable = self.link.state.durable.subscribe();
        let mut ticks = interval(TELL_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut heard = Instant::now();
        let server = self.link.server.clone();
        let mut moved = std::pin::pin!(server.moved());
        self.take()?;
        loop {
            if std::mem::take(&mut self.asked.is_asked) {
                self.tell(false).await?;
            }
            let has_room = self.inbox.has_room();
            self.rest.reserve(READ_BYTES);
            tokio::select! {
                read = self.reader.read_buf(&mut self.rest), if has_room => {
                    if read? == 0 {
                        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
                    }
                    heard = Instant::now();
                    self.take()?;
                }
                // What is not read is not silence.
                () = self.inbox.freed(), if !has_room => heard = Instant::now(),
                () = &mut moved => return Err(LinkError::Moved),
                // The sender lives as long as this.
                _ = durable.changed() => self.tell(false).await?,
                _ = ticks.tick() => {
                    if self.inbox.is_closed() {
                        return Err(LinkError::Closed);
                    }
                    if has_room && heard.elapsed() > self.link.timeout {
                        return Err(LinkError::Silent(self.link.timeout));
                    }
                    self.tell(true).await?;
                }
            }
        }
    }

    /// Hands on what has come.
    fn take(&mut self) -> Result<(), LinkError> {
        while !self.rest.is_empty() {
            match &mut self.phase {
                Phase::Head { id, offset } => {
                    let Some(line) = line(&mut self.rest)? else { return Ok(()) };
                    let framing = Framing::read(&line, self.link.base_max)?;
                    self.phase = Phase::Base { framing, id: *id, offset: *offset };
                }
                Phase::Base { framing, id, offset } => {
                    let mut bytes = Vec::with_capacity(self.rest.len());
                    let ended = framing.take(&self.rest, &mut bytes)?;
                    self.inbox.push(Order::BaseBytes(bytes));
                    match ended {
                        None => self.rest.clear(),
                        Some(len) => {
                            self.rest.drain(..len);
                            self.inbox.push(Order::BaseEnd);
                            (self.link.position, self.link.before) = (Some((*id, *offset)), None);
                            self.link.state.received(*offset);
                            self.phase = Phase::Stream;
                            self.link.state.link("following");
                        }
                    }
                }
                Phase::Stream => {
                    let bytes = std::mem::replace(&mut self.rest, Vec::with_capacity(READ_BYTES));
                    let len = bytes.len() as u64;
                    self.asked.look(&bytes);
                    self.link.state.waits(len);
                    // Before anything of it can be durable.
                    if let Some((_, offset)) = &mut self.link.position {
                        *offset = offset.saturating_add(len);
                        self.link.state.received(*offset);
                    }
                    self.inbox.push(Order::Stream(bytes));
                }
            }
        }
        self.link.state.set(Figure::Buffer, self.inbox.bytes() as u64);
        Ok(())
    }

    /// Tells the master up to where its stream is durable, or else that Weir is there.
    async fn tell(&mut self, in_any_case: bool) -> Result<(), LinkError> {
        let Durable { bases, offset } = *self.link.state.durable.borrow();
        let is_of_this = matches!(self.phase, Phase::Stream) && bases == self.link.bases;
        let mut out = Vec::new();
        if is_of_this && let Some(doubt) = self.link.state.doubt() {
            // Keeps the link and has the stream begin, and confirms nothing.
            put_command(&mut out, ["REPLCONF", "ACK", "0"].iter());
            let words = match doubt {
                Keys::Lost(_) => {
                    "it has come back without what was confirmed, and nothing is acknowledged \
                     until `weir redis accept`; its data set of before is pinned"
                }
                _ => {
                    "it has come back with too few keys, and nothing is acknowledged until they \
                     are back, or `weir redis accept`; its data set of before is pinned"
                }
            };
            self.link.state.trouble(Some(words.to_owned()));
        } else if is_of_this {
            let offset = offset.to_string();
            put_command(&mut out, ["REPLCONF", "ACK", &offset, "FACK", &offset].iter());
            self.link.state.trouble(None);
        } else if in_any_case {
            out.push(b'\n');
        }
        let told = async {
            self.writer.write_all(&out).await?;
            self.writer.flush().await
        };
        let limit = self.link.timeout;
        timeout(limit, told).await.map_err(|_| LinkError::Silent(limit))??;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{AckRequests, GETACK};

    #[test]
    fn a_question_is_seen_once_wherever_it_is_cut() {
        let stream = [b"*3\r\n$8\r\nREPLCONF", GETACK, b"*1\r\n$4\r\nPING\r\n"].concat();
        for first in 0..=stream.len() {
            for second in first..=stream.len() {
                let (mut asked, mut seen) = (AckRequests::default(), 0);
                for piece in [&stream[..first], &stream[first..second], &stream[second..]] {
                    asked.look(piece);
                    seen += u32::from(std::mem::take(&mut asked.is_asked));
                }
                assert_eq!(seen, 1, "cut at {first} and {second}");
            }
        }
    }
}
