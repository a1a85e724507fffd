//! From a connection to a session: TLS, the first packet, the login, and the greeting.
//! PostgreSQL documentation, "Message Flow", "Start-up".

mod asked;
mod console;

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::SystemTime;

use flow::logins::FailedLogin;
use flow::outlet::Outlet;
use flow::stream::Stream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wire::postgres::backend::{
    Status, put_authentication_ok, put_backend_key_data, put_negotiate_protocol_version,
    put_parameter_status, put_ready_for_query,
};
use wire::postgres::startup::{self, First};
use wire::postgres::{Refusal, frame, sqlstate};

pub(super) use asked::StartupRequest;

use super::Session;
use crate::auth::{Ask, AuthStep, ChannelBinding, ClientAuth, Credentials};
use crate::batches::Lines;
use crate::client::About;
use crate::console::Seat;
use crate::door::ClientEvidence;
use crate::server::ALPN;
use crate::settings::TlsSettings;
use crate::worker::WorkerContext;

/// PostgreSQL's own limit of a startup packet (`MAX_STARTUP_PACKET_LENGTH`).
const PACKET_MAX: usize = 10_000;

/// How much of an answer of the console waits for its client: SHOW CLIENTS of very many.
const CONSOLE_SPILL_MAX: usize = 64 << 20;

/// What a client has entered.
enum Entered {
    /// A database, which the session serves.
    Session(Box<Session>),
    /// The console for operators.
    Console(Seat),
}

/// Why there is no session.
enum NoSession {
    /// The client went away, asked for nothing, or only for a cancel.
    Gone,
    /// It is told why.
    Refused(Refusal),
}

impl From<io::Error> for NoSession {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

impl From<Refusal> for NoSession {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Serves a connection until it ends.
pub async fn serve(lines: Rc<Lines>, stream: Stream, peer: Option<SocketAddr>) {
    let front = lines.front.clone();
    let limit = front.settings().timeouts.login.get();
    let mut entrance = Entrance::new(lines, stream, peer);
    let entered = Box::pin(entrance.enter());
    let entered = if limit.is_zero() {
        entered.await
    } else {
        tokio::time::timeout(limit, entered).await.unwrap_or_else(|_| {
            let what = "the login took longer than postgres.timeouts.login";
            Err(Refusal::fatal(sqlstate::CONNECTION_FAILURE, what).into())
        })
    };
    match entered {
        Ok(Entered::Session(session)) => {
            drop(entrance);
            session.run().await;
        }
        Ok(Entered::Console(seat)) => {
            let came = std::mem::take(&mut entrance.came);
            if let Some(stream) = entrance.stream.take() {
                let outlet = Outlet::new(stream, CONSOLE_SPILL_MAX);
                Box::pin(console::serve(front, outlet, seat, came)).await;
            }
        }
        Err(NoSession::Gone) => {
            if let Some(stream) = &mut entrance.stream {
                // Without TLS's goodbye libpq takes a cancel for one that has failed.
                let _ = stream.shutdown().await;
            }
        }
        Err(NoSession::Refused(refusal)) => {
            front.shared.metrics.logins_refused.inc();
            entrance.log_failure(&refusal, &refusal.message);
            let mut out = Vec::new();
            refusal.encode(&mut out);
            if let Some(stream) = &mut entrance.stream {
                let _ = stream.write_all(&out).await;
                let _ = stream.shutdown().await;
            }
        }
    }
}

struct Entrance {
    lines: Rc<Lines>,
    stream: Option<Stream>,
    /// `None` for a Unix socket.
    peer: Option<SocketAddr>,
    came: Vec<u8>,
    /// As whom the client wants in, and to which database, once it has said so; no more once the
    /// log has its failure.
    wants: Option<(String, String)>,
}

impl Entrance {
    fn new(lines: Rc<Lines>, stream: Stream, peer: Option<SocketAddr>) -> Self {
        Self { lines, stream: Some(stream), peer, came: Vec::new(), wants: None }
    }

    /// Has the log tell once that a client is not let in.
    fn log_failure(&mut self, refusal: &Refusal, why: &str) {
        let Some((user, database)) = self.wants.take() else { return };
        let failed = FailedLogin {
            gateway: "postgres",
            user: Some(user.as_bytes()),
            database: Some(&database),
            from: self.peer.map(|peer| peer.ip()),
            reason: &format!("{} {why}", refusal.code),
        };
        failed.log();
    }

    async fn enter(&mut self) -> Result<Entered, NoSession> {
        let asked = self.asked().await?;
        self.wants = Some((asked.user.clone(), asked.database.clone()));
        let credentials = self.login(&asked).await?;
        let settings = self.lines.front.settings();
        if settings.console.databases.contains(&asked.database) {
            return Ok(Entered::Console(Seat::admit(&settings.console, &asked.user)?));
        }
        drop(settings);
        Ok(Entered::Session(Box::new(self.greet(asked, credentials).await?)))
    }

    fn stream(&mut self) -> Result<&mut Stream, NoSession> {
        self.stream.as_mut().ok_or(NoSession::Gone)
    }

    /// Deals with the packets before the first message.
    async fn asked(&mut self) -> Result<StartupRequest, NoSession> {
        self.direct_tls().await?;
        loop {
            let parsed = startup::parse(&self.came, PACKET_MAX);
            let parsed = parsed.map_err(|e| e.refusal().map_or(NoSession::Gone, Into::into))?;
            let Some((first, len)) = parsed else {
                self.more().await?;
                continue;
            };
            match first {
                First::Tls => {
                    let behind = self.came.len() > len;
                    self.came.clear();
                    self.tls_asked(behind).await?;
                }
                First::Gss => {
                    self.came.drain(..len);
                    self.stream()?.write_all(b"N").await?;
                }
                First::Cancel { process_id, secret } => {
                    let shared = self.lines.front.shared.clone();
                    shared.cancel(process_id, secret).await;
                    return Err(NoSession::Gone);
                }
                First::Start(start) => {
                    let asked = StartupRequest::new(&start);
                    self.came.drain(..len);
                    return Ok(asked);
                }
            }
        }
    }

    /// TLS without asking first (PostgreSQL 17's `sslnegotiation=direct`).
    async fn direct_tls(&mut self) -> Result<(), NoSession> {
        let mut first = [0];
        let peeked = self.stream()?.peek(&mut first).await?;
        if peeked == 0 {
            return Err(NoSession::Gone);
        }
        if startup::is_direct_tls(first[0]) && !self.stream()?.is_tls() {
            let Some(tls) = self.lines.front.shared.tls() else { return Err(NoSession::Gone) };
            self.start_tls(&tls).await?;
            // As PostgreSQL 17 does, without a word: what was begun for another protocol could
            // be led here by whoever is between (ALPACA).
            if self.stream()?.alpn() != Some(ALPN.as_bytes()) {
                tracing::info!(peer = ?self.peer, "direct TLS without ALPN is refused");
                return Err(NoSession::Gone);
            }
        }
        Ok(())
    }

    async fn tls_asked(&mut self, behind: bool) -> Result<(), NoSession> {
        let tls = {
            let plain = self.peer.is_some() && !self.stream()?.is_tls();
            self.lines.front.shared.tls().filter(|_| plain)
        };
        let Some(tls) = tls else {
            return Ok(self.stream()?.write_all(b"N").await?);
        };
        if behind {
            // They would be taken for what was said under encryption (CVE-2021-3935).
            let what = "received unencrypted data after SSL request";
            return Err(Refusal::fatal(sqlstate::PROTOCOL_VIOLATION, what).into());
        }
        self.stream()?.write_all(b"S").await?;
        self.start_tls(&tls).await
    }

    async fn start_tls(&mut self, tls: &flow::tls::ServerTls) -> Result<(), NoSession> {
        let stream = self.stream.take().ok_or(NoSession::Gone)?;
        self.stream = Some(stream.start_tls(tls).await?);
        Ok(())
    }

    async fn more(&mut self) -> Result<(), NoSession> {
        self.came.reserve(512);
        let stream = self.stream.as_mut().ok_or(NoSession::Gone)?;
        match stream.read_buf(&mut self.came).await? {
            0 => Err(NoSession::Gone),
            _ => Ok(()),
        }
    }

    /// Has the client show that it is who it says. Where it fails to, it is told so the later, the
    /// more logins have failed from there.
    async fn login(&mut self, asked: &StartupRequest) -> Result<Credentials, NoSession> {
        let shared = self.lines.front.shared.clone();
        let from = self.peer.map(|peer| peer.ip());
        let place = shared.enter(from, &asked.user).await;
        let shown = self.prove(asked).await;
        match &shown {
            Ok(_) => shared.entered(place, &asked.user),
            Err(NoSession::Refused(refusal)) if is_failure(refusal) => {
                // Before it is told, which may be late.
                self.log_failure(refusal, &refusal.message);
                shared.failed(place).await;
            }
            Err(_) => {}
        }
        shown
    }

    async fn prove(&mut self, asked: &StartupRequest) -> Result<Credentials, NoSession> {
        let (tls, binding, certificate, peer) = {
            let stream = self.stream()?;
            let binding = stream.server_certificate().and_then(ChannelBinding::of);
            let certificate = stream.client_certificate().map(|der| der.to_vec());
            (stream.is_tls(), binding, certificate, stream.peer_uid())
        };
        let shared = self.lines.front.shared.clone();
        let required = |tls: &TlsSettings| tls.required;
        if self.peer.is_some() && !tls && shared.settings().tls.as_ref().is_some_and(required) {
            let what = "this server takes connections with TLS only";
            let refusal = Refusal::fatal(sqlstate::INVALID_AUTHORIZATION, what);
            return Err(refusal.hint("connect with sslmode=require or stricter").into());
        }
        let address = self.peer.map(|peer| peer.ip());
        let door = shared.door(address, tls, &asked.database, &asked.user).await?;
        let system_user = match peer.filter(|_| door.wants_system_user()) {
            Some(number) => Some(shared.system_user(number).await),
            None => None,
        };
        let shown = ClientEvidence {
            binding: binding.as_ref(),
            certificate: certificate.as_deref(),
            system_user: system_user.as_deref(),
        };
        let ask = door.ask(&asked.user, &shown)?;
        let talked = self.talk(ask).await;
        talked.map_err(|why| match why {
            NoSession::Refused(refusal) => {
                let told = door.wrong(refusal);
                self.log_failure(&told, door.reason(&told));
                told.into()
            }
            gone => gone,
        })
    }

    /// Asks, and hears the answers.
    async fn talk(&mut self, ask: Ask<'_>) -> Result<Credentials, NoSession> {
        let shared = self.lines.front.shared.clone();
        let mut out = Vec::new();
        let (mut auth, mut step) = ClientAuth::begin(ask, &mut out);
        loop {
            if !out.is_empty() {
                self.stream()?.write_all(&out).await?;
                self.stream()?.flush().await?;
                out.clear();
            }
            step = match step {
                AuthStep::Done(credentials) => return Ok(credentials),
                AuthStep::Refused(refusal) => return Err(refusal.into()),
                AuthStep::Prepare(derivation) => {
                    let keys = shared.make_ready(derivation).await.ok_or(NoSession::Gone)?;
                    auth.derived(&keys, &mut out)
                }
                AuthStep::Derive(derivation) => {
                    let keys = shared.check(&derivation).await.ok_or(NoSession::Gone)?;
                    let step = auth.derived(&keys, &mut out);
                    if matches!(step, AuthStep::Done(_)) {
                        shared.keep(&derivation, &keys);
                    }
                    step
                }
                AuthStep::More => {
                    let body = self.password(auth.message_bytes_max()).await?;
                    auth.on(&body, &mut out)
                }
            };
        }
    }

    /// The body of the next message, which has to be a `p`.
    async fn password(&mut self, max: usize) -> Result<Vec<u8>, NoSession> {
        loop {
            let next = frame::next(&self.came, max).map_err(|error| {
                NoSession::Refused(Refusal::fatal(sqlstate::PROTOCOL_VIOLATION, error.to_string()))
            })?;
            if let Some(frame) = next {
                if frame.tag != b'p' {
                    let what = format!("expected a password, got message type {}", frame.tag);
                    return Err(Refusal::fatal(sqlstate::PROTOCOL_VIOLATION, what).into());
                }
                let (body, len) = (frame.body.to_vec(), frame.whole.len());
                self.came.drain(..len);
                return Ok(body);
            }
            self.more().await?;
        }
    }

    /// Tells the client that it is in, and what the server's settings are.
    async fn greet(
        &mut self,
        asked: StartupRequest,
        credentials: Credentials,
    ) -> Result<Session, NoSession> {
        let front = self.lines.front.clone();
        let (settings, route) = asked.settings(&front, self.peer)?;
        let place = front.place(&asked.database, &asked.user, credentials)?;
        if front.worker.drain.is_started() {
            let what = "terminating connection due to administrator command";
            return Err(Refusal::fatal(sqlstate::ADMIN_SHUTDOWN, what).into());
        }
        let admitted = front.shared.admit(&asked.database, &asked.user)?;
        // Whoever is refused from here on is told by the outlet.
        let stream = self.stream.take().ok_or(NoSession::Gone)?;
        stream.progress().set_user(Some(&asked.user));
        let minor = asked.minor;
        let outlet = Outlet::new(stream, front.settings().lanes.reply_spill.len());
        let client = front.came(outlet.clone());
        let mut session = Session::new(self.lines.clone(), client, place, settings);
        let registration = Registration { front: front.clone(), client: Some(session.client().id) };
        session.client().introduce(about(&asked, &session, self.peer));
        session.route = route.or(session.route);
        session.admitted = admitted;
        session.inbox = std::mem::take(&mut self.came);
        let reported = match session.reported().await {
            Ok(reported) => reported,
            Err(refusal) => {
                self.log_failure(&refusal, &refusal.message);
                let mut out = Vec::new();
                Refusal { severity: wire::postgres::Severity::Fatal, ..refusal }.encode(&mut out);
                outlet.send(&out);
                outlet.finish().await;
                return Err(NoSession::Gone);
            }
        };
        session.database = front.entered(&session.database);
        session.database.count(|totals| totals.logins += 1);
        session.client().enter(session.database.clone());
        let mut out = Vec::with_capacity(512);
        if let Some((minor, unknown)) = &asked.negotiate {
            let unknown: Vec<&str> = unknown.iter().map(String::as_str).collect();
            put_negotiate_protocol_version(&mut out, *minor, unknown);
        }
        put_authentication_ok(&mut out);
        for (name, value) in reported.iter() {
            put_parameter_status(&mut out, name.as_bytes(), value.as_bytes());
        }
        let secret = front.shared.register(session.client().id, front.worker.index, minor);
        put_backend_key_data(&mut out, session.client().id, &secret);
        put_ready_for_query(&mut out, Status::Idle);
        outlet.send(&out);
        registration.keep();
        Ok(session)
    }
}

/// A client that is counted as one, until it is known that there will be no session.
struct Registration {
    front: Rc<WorkerContext>,
    client: Option<i32>,
}

impl Registration {
    /// The session says when the client is gone.
    fn keep(mut self) {
        self.client = None;
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(client) = self.client {
            self.front.left(client);
        }
    }
}

/// Whether a refusal is about who the client is; SQLSTATE class 28, or what is said in its place.
fn is_failure(refusal: &Refusal) -> bool {
    refusal.code.starts_with("28") || refusal.code == sqlstate::CANNOT_CONNECT_NOW
}

/// What the console shows of it.
fn about(asked: &StartupRequest, session: &Session, peer: Option<SocketAddr>) -> About {
    let mut parameters = asked.parameters.iter();
    let name = parameters.find(|(name, _)| name == "application_name");
    About {
        user: asked.user.as_str().into(),
        database: session.database.name.clone(),
        peer,
        local: session.client().outlet.local_addr(),
        connected: SystemTime::now(),
        application_name: name.map_or("", |(_, name)| name.as_str()).into(),
    }
}
