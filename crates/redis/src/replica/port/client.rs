//! A connection to an announced port.

use std::future::pending;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use flow::logins::FailedLogin;
use ring::digest::{SHA256, digest};
use subtle::ConstantTimeEq as _;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};
use wire::resp::{
    Command, CommandFrame, Commands, Limits, Version, put_array, put_bulk, put_error, put_integer,
    put_map, put_simple,
};

use super::super::replay::{Base, Replay, ReplayError, has};
use super::super::stream::decimal;
use super::{Facts, words};

/// What a client may send: nothing that is asked here is long.
const LIMITS: Limits = Limits { args: 64, bulk: 16 << 10, inline: 4 << 10, is_before_login: false };
/// Commands within one `MULTI`: Sentinel sends four.
const QUEUED_MAX: usize = 16;
/// How long a client may say nothing.
const IDLE: Duration = Duration::from_secs(300);
/// How long a wrong password is waited for.
const REFUSED_AFTER: Duration = Duration::from_millis(250);

/// A client, or a server that is to be filled.
pub struct Client<'a, S> {
    stream: S,
    peer: IpAddr,
    facts: &'a Facts,
    /// It has shown a certificate that is vouched for.
    is_known: bool,
    /// It has given the password.
    is_let_in: bool,
    /// The replies to what has come since `MULTI`, and how many they are.
    queued: Option<(usize, Vec<u8>)>,
}

/// What is done once a command is answered.
enum Next {
    Go,
    Close,
    /// A server wants the stream, from behind this offset of this history if it can be.
    Fill(Option<(Vec<u8>, u64)>),
}

impl<'a, S: AsyncRead + AsyncWrite + Unpin> Client<'a, S> {
    /// Nothing was read yet.
    pub fn new(stream: S, peer: IpAddr, is_known: bool, facts: &'a Facts) -> Self {
        Self { stream, peer, facts, is_known, is_let_in: false, queued: None }
    }

    /// Answers until one side has enough.
    pub async fn serve(mut self) {
        // Whoever asked is gone, or hears it in its own words.
        let _ = self.answer_all().await;
    }

    async fn answer_all(&mut self) -> io::Result<()> {
        let (mut commands, mut bytes) = (Commands::default(), Vec::new());
        loop {
            let mut out = Vec::new();
            let limits = if self.may_ask() { LIMITS } else { Limits::UNAUTHENTICATED };
            match commands.cut(&bytes, &limits) {
                Err(malformed) => {
                    put_error(&mut out, &format!("ERR {malformed}"));
                    return self.write(&out).await;
                }
                Ok(CommandFrame::Nothing(len)) => drop(bytes.drain(..len)),
                Ok(CommandFrame::Command(len)) => {
                    let next = self.answer(&commands.command(&bytes), &mut out).await;
                    bytes.drain(..len);
                    self.write(&out).await?;
                    match next {
                        Next::Go => {}
                        Next::Close => return Ok(()),
                        Next::Fill(from) => return self.fill(from).await,
                    }
                }
                Ok(CommandFrame::More) => {
                    let read = timeout(IDLE, self.stream.read_buf(&mut bytes)).await;
                    if read.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?? == 0 {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Whether it may ask what Weir is.
    fn may_ask(&self) -> bool {
        self.is_let_in || self.is_known || self.facts.password.is_none()
    }

    /// Whether it may have the data set: nobody has it who has not shown who he is.
    fn may_have_all(&self) -> bool {
        self.is_let_in || self.is_known
    }

    async fn answer(&mut self, command: &Command<'_>, out: &mut Vec<u8>) -> Next {
        let name = command.name().to_ascii_uppercase();
        match name.as_slice() {
            b"QUIT" => {
                put_simple(out, b"OK");
                return Next::Close;
            }
            b"AUTH" => self.log_in(command.get(1), command.get(2), out).await,
            b"HELLO" => self.hello(command, out).await,
            _ if !self.may_ask() => put_error(out, "NOAUTH Authentication required."),
            b"MULTI" | b"EXEC" if self.facts.master.is_told() => self.together(&name, out),
            _ if self.queued.is_some() => return self.queue(command, out),
            b"PING" => match command.get(1) {
                Some(text) => put_bulk(out, text),
                None => put_simple(out, b"PONG"),
            },
            b"INFO" => put_bulk(out, words::info(self.facts).as_bytes()),
            b"ROLE" => words::role(self.facts, out),
            b"REPLCONF" | b"CLIENT" => put_simple(out, b"OK"),
            b"PSYNC" | b"SYNC" if !self.may_have_all() => put_error(
                out,
                "NOPERM weir: the data set is sent to whoever gives a password or shows a \
                 certificate: set password or client-ca in [redis.aof.port]",
            ),
            b"PSYNC" => {
                let from = command.get(2).and_then(decimal).and_then(|next| next.checked_sub(1));
                return Next::Fill(command.get(1).map(<[u8]>::to_vec).zip(from));
            }
            b"REPLICAOF" | b"SLAVEOF" if self.is_told_by_sentinels(command) => {
                put_simple(out, b"OK")
            }
            b"REPLICAOF" | b"SLAVEOF" => put_error(
                out,
                "ERR weir: this keeps a master's append-only file and is not a server; whom it \
                 follows is in [[redis.aof.master]]",
            ),
            // What Sentinel sends with it; there is nothing to rewrite.
            b"CONFIG" if self.facts.master.is_told() && is_rewrite(command) => {
                put_simple(out, b"OK");
            }
            _ => {
                let (host, port) = self.facts.master.now();
                let words = "ERR weir: this keeps a master's append-only file and serves no data; \
                             the master is";
                put_error(out, &format!("{words} {host}:{port}"));
            }
        }
        Next::Go
    }

    /// Whether it may be told to follow another master: whose Sentinels say where that is, they are
    /// asked, and nobody else is believed; so what it is told here changes nothing.
    fn is_told_by_sentinels(&self, command: &Command<'_>) -> bool {
        let to_none = command.get(1).is_some_and(|host| host.eq_ignore_ascii_case(b"NO"));
        self.facts.master.is_told() && !to_none
    }

    /// `MULTI` and `EXEC`, in which Sentinel has what it tells a replica after a failover.
    fn together(&mut self, name: &[u8], out: &mut Vec<u8>) {
        match (name, self.queued.take()) {
            (b"MULTI", None) => {
                self.queued = Some((0, Vec::new()));
                put_simple(out, b"OK");
            }
            (b"MULTI", queued) => {
                self.queued = queued;
                put_error(out, "ERR MULTI calls can not be nested");
            }
            (_, None) => put_error(out, "ERR EXEC without MULTI"),
            (_, Some((count, replies))) => {
                put_array(out, count);
                out.extend_from_slice(&replies);
            }
        }
    }

    /// Notes what will be answered to a command within `MULTI`.
    fn queue(&mut self, command: &Command<'_>, out: &mut Vec<u8>) -> Next {
        let name = command.name().to_ascii_uppercase();
        let is_told = match name.as_slice() {
            b"REPLICAOF" | b"SLAVEOF" => self.is_told_by_sentinels(command),
            b"CONFIG" => is_rewrite(command),
            b"CLIENT" => true,
            _ => false,
        };
        match &mut self.queued {
            Some((count, replies)) if is_told && *count < QUEUED_MAX => {
                *count += 1;
                put_simple(replies, b"OK");
                put_simple(out, b"QUEUED");
            }
            queued => {
                *queued = None;
                put_error(out, "ERR weir: that is not served within MULTI, which ends here");
            }
        }
        Next::Go
    }

    async fn log_in(&mut self, first: Option<&[u8]>, second: Option<&[u8]>, out: &mut Vec<u8>) {
        match self.check(first, second).await {
            Ok(()) => put_simple(out, b"OK"),
            Err(words) => put_error(out, words),
        }
    }

    /// Checks a password, or the user `default` and a password.
    async fn check(
        &mut self,
        first: Option<&[u8]>,
        second: Option<&[u8]>,
    ) -> Result<(), &'static str> {
        let Some(wanted) = &self.facts.password else {
            return Err("ERR AUTH called without any password configured in [redis.aof.port]");
        };
        let (user, password) = match (first, second) {
            (Some(user), Some(password)) => (user, password),
            (Some(password), None) => (b"default".as_slice(), password),
            _ => return Err("ERR wrong number of arguments for 'auth' command"),
        };
        let is_right = digest(&SHA256, password).as_ref().ct_eq(wanted.as_slice());
        self.is_let_in = user == b"default" && bool::from(is_right);
        if self.is_let_in {
            return Ok(());
        }
        let failed = FailedLogin {
            gateway: "redis.aof.port",
            user: Some(user),
            database: None,
            from: Some(self.peer),
            reason: if user == b"default" { "wrong password" } else { "there is no such user" },
        };
        failed.log();
        sleep(REFUSED_AFTER).await;
        Err("WRONGPASS invalid username-password pair or user is disabled.")
    }

    async fn hello(&mut self, command: &Command<'_>, out: &mut Vec<u8>) {
        if command.get(1).is_some_and(|version| version != b"2") {
            return put_error(out, "NOPROTO unsupported protocol version");
        }
        if command.get(2).is_some_and(|word| word.eq_ignore_ascii_case(b"AUTH"))
            && let Err(words) = self.check(command.get(3), command.get(4)).await
        {
            return put_error(out, words);
        }
        if !self.may_ask() {
            return put_error(out, "NOAUTH HELLO must be called with the client authenticated");
        }
        put_map(out, 4, Version::Two);
        for (name, value) in [("server", "redis"), ("version", "7.0.0"), ("role", "replica")] {
            put_bulk(out, name.as_bytes());
            put_bulk(out, value.as_bytes());
        }
        put_bulk(out, b"proto");
        put_integer(out, 2);
    }

    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = async {
            self.stream.write_all(bytes).await?;
            self.stream.flush().await
        };
        let written = timeout(self.facts.patience, written).await;
        written.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    }

    /// Sends a server what it lacks, and then all that becomes durable.
    async fn fill(&mut self, from: Option<(Vec<u8>, u64)>) -> io::Result<()> {
        let facts = self.facts;
        let Ok(_fill) = facts.fills.try_acquire() else {
            return self
                .write(b"-ERR weir: as many servers are filled as may be at once\r\n")
                .await;
        };
        let Some(id) = facts.state.id() else {
            return self.write(b"-NOMASTERLINK weir has no data set yet\r\n").await;
        };
        let (of, id, dir) = (id, id.to_string(), facts.dir.clone());
        let durable = facts.state.durable.borrow().offset;
        let offset = match from {
            Some((asked, offset))
                if asked == id.as_bytes() && offset <= durable && has(&dir, offset) =>
            {
                self.write(format!("+CONTINUE {id}\r\n").as_bytes()).await?;
                offset
            }
            _ => self.send_base(&id).await?,
        };
        tracing::info!(offset, "a server is filled");
        self.send_stream(Replay::at(dir, of, offset)).await
    }

    /// Sends the base; gives its offset.
    async fn send_base(&mut self, id: &str) -> io::Result<u64> {
        let dir = self.facts.dir.clone();
        let mut base = blocking(move || Base::open(&dir)).await?;
        let (offset, len) = (base.offset, base.len);
        self.write(format!("+FULLRESYNC {id} {offset}\r\n${len}\r\n").as_bytes()).await?;
        loop {
            let piece;
            (base, piece) = blocking(move || {
                let piece = base.next()?;
                Ok((base, piece))
            })
            .await?;
            if piece.is_empty() {
                return Ok(offset);
            }
            self.write(&piece).await?;
        }
    }

    /// Sends the stream up to what is durable, again and again.
    async fn send_stream(&mut self, mut replay: Replay) -> io::Result<()> {
        let mut durable = self.facts.state.durable.subscribe();
        let generation = durable.borrow().bases;
        let mut heard = Vec::new();
        loop {
            let now = *durable.borrow_and_update();
            if now.bases != generation {
                // The master has begun another history, and so does the server.
                return Ok(());
            }
            let piece;
            (replay, piece) = blocking(move || {
                let piece = replay.next(now.offset)?;
                Ok((replay, piece))
            })
            .await?;
            if !piece.is_empty() {
                self.write(&piece).await?;
                continue;
            }
            heard.clear();
            tokio::select! {
                changed = durable.changed() => {
                    if changed.is_err() {
                        return pending().await;
                    }
                }
                // What it acknowledges is nobody's concern; that it has gone is.
                read = self.stream.read_buf(&mut heard) => {
                    if read? == 0 {
                        return Ok(());
                    }
                }
            }
        }
    }
}

fn is_rewrite(command: &Command<'_>) -> bool {
    command.get(1).is_some_and(|what| what.eq_ignore_ascii_case(b"REWRITE"))
}

/// Reads files where nobody waits for it.
async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, ReplayError> + Send + 'static,
) -> io::Result<T> {
    let read = spawn_blocking(read).await.map_err(io::Error::other)?;
    read.inspect_err(|error| tracing::warn!("a server can't be filled: {error}"))
        .map_err(io::Error::other)
}
