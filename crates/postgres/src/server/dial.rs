//! Opening a connection to a server: agreeing on TLS, startup, login.

use std::sync::OnceLock;

use flow::dial::{Address, Socket};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use wire::postgres::backend::{self, BackendKey, Fields, tag};
use wire::postgres::startup;

use super::{ALPN, Conversation, DialError, Server, ServerError, TalkError};
use crate::auth::{Binding, Credentials, Derivation, KeyCache, Keys};
use crate::auth::{Login, LoginRules, LoginStep};

/// Messages that a server may send before it is ready. PostgreSQL sends about 20.
const STARTUP_MESSAGES_MAX: usize = 1000;

/// Passwords whose keys are kept, since each connection of a pool logs in with the same few.
const KEYS_KEPT: usize = 1024;

/// Who logs in, where, and with what settings.
#[derive(Debug, Clone)]
pub struct Identity<'a> {
    /// The user that Weir logs in as.
    pub user: &'a str,
    /// The database's name on the server.
    pub database: &'a str,
    /// Further startup parameters: settings that the session begins with.
    pub parameters: &'a [(&'a str, &'a str)],
    /// What the user proves itself by.
    pub credentials: Credentials,
}

/// What a cancel request for a connection must carry.
#[derive(Clone, PartialEq, Eq)]
pub struct CancelKey {
    /// The process id of the server's backend process.
    pub process_id: i32,
    /// Whoever knows it may cancel.
    pub secret: Box<[u8]>,
}

impl std::fmt::Debug for CancelKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CancelKey").field("process_id", &self.process_id).finish_non_exhaustive()
    }
}

/// A connection that is logged in and idle.
#[derive(Debug)]
pub struct Dialled {
    /// The connection, logged in and idle.
    pub socket: Socket,
    /// What cancels its statements; `None` where the server has given nothing.
    pub key: Option<CancelKey>,
    /// The settings that the server reports (ParameterStatus), each once.
    pub parameters: Vec<(String, String)>,
    /// What came behind the first ReadyForQuery; mostly nothing.
    pub rest: Vec<u8>,
}

impl Dialled {
    /// A setting that the server has reported.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }
}

/// Opens a connection to `server` and logs in.
///
/// Proving a password to a server takes thousands of hashes; that runs on the runtime's threads
/// for blocking work.
///
/// # Errors
/// Nobody is there, TLS fails, the server refuses, or all of it takes longer than the server's
/// `connect_timeout`.
pub async fn dial(server: &Server, identity: Identity<'_>) -> Result<Dialled, DialError> {
    let open = async {
        let socket = connect(server).await?;
        start(socket, &server.target.address, identity).await
    };
    server.target.in_time(open).await
}

/// Opens a connection to `server`, under TLS where that is its way, and says nothing yet
/// ("Message Flow", SSL Session Encryption).
pub(super) async fn connect(server: &Server) -> Result<Socket, DialError> {
    let target = &server.target;
    let address = || target.address.to_string();
    let Some(tls) = &target.tls else { return Ok(target.connect().await?) };
    if server.direct {
        let socket = target.connect().await?;
        // As libpq does: without it nobody knows that the other end speaks PostgreSQL's protocol.
        return match socket.alpn() == Some(ALPN.as_bytes()) {
            true => Ok(socket),
            false => Err(DialError::NoAlpn { address: address() }),
        };
    }
    let mut socket = target.connect_in_clear().await?;
    match agree(&mut socket).await {
        Ok(Agreed::Yes) => Ok(target.start_tls(socket, tls).await?),
        Ok(Agreed::No) if server.required => Err(DialError::NoTls { address: address() }),
        Ok(Agreed::No) => Ok(socket),
        Ok(Agreed::More) => Err(DialError::Injected { address: address() }),
        Err(source) => Err(DialError::Talk { address: address(), source }),
    }
}

enum Agreed {
    Yes,
    No,
    /// Something follows the answer, which no server does.
    More,
}

async fn agree<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) -> Result<Agreed, TalkError> {
    let mut request = Vec::new();
    startup::put_tls_request(&mut request);
    stream.write_all(&request).await?;
    stream.flush().await?;
    // One more than there may be, so that what has come together with it is seen.
    let mut answer = [0; 2];
    let came = stream.read(&mut answer).await?;
    match answer {
        _ if came == 0 => Err(TalkError::Closed),
        _ if came > 1 => Ok(Agreed::More),
        [b'S', _] => Ok(Agreed::Yes),
        [b'N', _] => Ok(Agreed::No),
        [other, _] => Err(TalkError::Unexpected(other)),
    }
}

async fn start(
    socket: Socket,
    address: &Address,
    identity: Identity<'_>,
) -> Result<Dialled, DialError> {
    let (user, database) = (identity.user, identity.database);
    let certificate = socket.server_certificate().map(<[u8]>::to_vec);
    let cleartext = !socket.is_in_clear();
    let rules = LoginRules { cleartext, binding: Binding::Prefer };
    let login = Login::new(user, identity.credentials.clone(), certificate.as_deref());
    let mut talk = Conversation::new(socket, Vec::new());
    let started = log_in(&mut talk, &identity, login.rules(rules)).await;
    let address = || address.to_string();
    match started {
        Ok(Ready { key, parameters }) => {
            let (socket, rest) = talk.into_parts();
            Ok(Dialled { socket, key, parameters, rest })
        }
        Err(Start::Refused(error)) => {
            let (user, database) = (user.to_owned(), database.to_owned());
            let error = Box::new(error);
            Err(DialError::Refused { address: address(), user, database, error })
        }
        Err(Start::Login(reason)) => {
            Err(DialError::Login { address: address(), user: user.to_owned(), reason })
        }
        Err(Start::Talk(source)) => Err(DialError::Talk { address: address(), source }),
    }
}

/// Why a start failed, without where.
#[derive(Debug)]
pub(super) enum Start {
    Refused(ServerError),
    Login(String),
    Talk(TalkError),
}

impl<E: Into<TalkError>> From<E> for Start {
    fn from(error: E) -> Self {
        Self::Talk(error.into())
    }
}

/// What is known of a session once it is ready.
#[derive(Debug, Default)]
pub(super) struct Ready {
    pub(super) key: Option<CancelKey>,
    pub(super) parameters: Vec<(String, String)>,
}

/// From the startup message to the first ReadyForQuery ("Message Flow", Start-up).
pub(super) async fn log_in<S: AsyncRead + AsyncWrite + Unpin>(
    talk: &mut Conversation<S>,
    identity: &Identity<'_>,
    mut login: Login,
) -> Result<Ready, Start> {
    let named = [("user", identity.user), ("database", identity.database)];
    let parameters = named.into_iter().chain(identity.parameters.iter().copied());
    // 3.0, since 3.2 would bring longer cancel keys alone, and not each pooler in between knows it.
    startup::put_start(&mut talk.out, 0, parameters);
    talk.send().await?;
    let (mut ready, mut is_in) = (Ready::default(), false);
    for _ in 0..STARTUP_MESSAGES_MAX {
        let frame = talk.next().await?;
        match frame.tag {
            tag::AUTHENTICATION if !is_in => {
                let mut answer = Vec::new();
                let step = login.on(frame.body, &mut answer);
                is_in = prove(&mut login, step, &mut answer).await?;
                talk.out.append(&mut answer);
                talk.send().await?;
            }
            tag::PARAMETER_STATUS if is_in => {
                let (name, value) = backend::parameter_status(frame.body)?;
                set(&mut ready.parameters, name, value);
            }
            tag::BACKEND_KEY_DATA if is_in => {
                let BackendKey { process_id, secret } = BackendKey::read(frame.body)?;
                ready.key = Some(CancelKey { process_id, secret: secret.into() });
            }
            tag::READY_FOR_QUERY if is_in => {
                backend::ready_for_query(frame.body)?;
                return Ok(ready);
            }
            tag::ERROR_RESPONSE => {
                return Err(Start::Refused(ServerError::new(&Fields::read(frame.body)?)));
            }
            tag::NOTICE_RESPONSE | tag::NEGOTIATE_PROTOCOL_VERSION => {}
            other => return Err(TalkError::Unexpected(other).into()),
        }
    }
    Err(TalkError::Endless.into())
}

/// Goes on with the login; whether Weir is in by now.
async fn prove(login: &mut Login, step: LoginStep, out: &mut Vec<u8>) -> Result<bool, Start> {
    let step = match step {
        LoginStep::Derive(derivation) => login.derived(&derive(derivation).await?, out),
        step => step,
    };
    match step {
        LoginStep::More => Ok(false),
        LoginStep::Done => Ok(true),
        LoginStep::Failed(error) => Err(Start::Login(error.to_string())),
        LoginStep::Derive(_) => Err(Start::Login("two derivations in a row".to_owned())),
    }
}

/// The keys of a password: from an earlier login, or computed away from this thread.
async fn derive(derivation: Derivation) -> Result<Keys, Start> {
    static KEPT: OnceLock<Option<KeyCache>> = OnceLock::new();
    let kept = KEPT.get_or_init(|| KeyCache::new(KEYS_KEPT)).as_ref();
    if let Some(keys) = kept.and_then(|kept| kept.get(&derivation)) {
        return Ok(keys);
    }
    let run = move || (derivation.run(), derivation);
    let (keys, derivation) =
        tokio::task::spawn_blocking(run).await.map_err(|error| Start::Login(error.to_string()))?;
    if let Some(kept) = kept {
        kept.put(&derivation, &keys);
    }
    Ok(keys)
}

/// The server may report one more than once; the last counts.
fn set(parameters: &mut Vec<(String, String)>, name: &[u8], value: &[u8]) {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let (name, value) = (text(name), text(value));
    match parameters.iter_mut().find(|(found, _)| *found == name) {
        Some((_, found)) => *found = value,
        None => parameters.push((name, value)),
    }
}
