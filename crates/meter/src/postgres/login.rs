//! What a connection begins with: who we are, the password in the way the server asks for it, and
//! the statements that are prepared.

use std::sync::Arc;

use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use wire::postgres::backend::{Authentication, Fields, mechanisms, tag};
use wire::postgres::frame;
use wire::postgres::frontend::{put_password, put_sasl_initial, put_sasl_response, put_sync};
use wire::postgres::startup::{put_start, put_tls_request};

use super::replies::words;
use super::{Options, PostgresError};
use crate::url::Url;
use crate::workload::{Greeting, Refused};

/// The longest message of a login.
const MESSAGE_MAX: usize = 1 << 20;

/// What is said on a connection before its first script.
#[derive(Clone)]
pub struct Login(Arc<LoginParameters>);

struct LoginParameters {
    user: String,
    database: String,
    password: Option<String>,
    /// The statements that are prepared.
    parses: Vec<u8>,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Login").field("user", &self.0.user).finish_non_exhaustive()
    }
}

impl Login {
    /// That of a URL; the database is the user's own where it names none.
    pub fn new(url: &Url, options: &Options, parses: Vec<u8>) -> Result<Self, PostgresError> {
        let wrong = || PostgresError::Database(url.target().to_owned());
        let path = url.path().ok_or_else(wrong)?;
        if path.contains(['/', '\0']) {
            return Err(wrong());
        }
        let user = url.user().map_or_else(|| options.user.clone(), str::to_owned);
        let password = url.password().map(str::to_owned).or_else(|| options.password.clone());
        let database = if path.is_empty() { user.clone() } else { path };
        Ok(Self(Arc::new(LoginParameters { user, database, password, parses })))
    }

    /// The same to another database, with nothing to prepare.
    pub fn to_database(&self, database: &str) -> Self {
        let LoginParameters { user, password, .. } = &*self.0;
        Self(Arc::new(LoginParameters {
            user: user.clone(),
            database: database.to_owned(),
            password: password.clone(),
            parses: Vec::new(),
        }))
    }

    pub fn database(&self) -> &str {
        &self.0.database
    }

    pub fn begin(&self) -> Box<dyn Greeting> {
        Box::new(UnderWay { known: Arc::clone(&self.0), stage: Stage::Begin, came: Vec::new() })
    }
}

struct UnderWay {
    known: Arc<LoginParameters>,
    stage: Stage,
    came: Vec<u8>,
}

enum Stage {
    Begin,
    LoggingIn,
    Scram(Box<ScramSha256>),
    /// The server has proven that it knows the password, too.
    Proven,
    LetIn,
    Preparing,
    Done,
}

impl Greeting for UnderWay {
    fn tls_request(&self) -> Option<Vec<u8>> {
        let mut request = Vec::new();
        put_tls_request(&mut request);
        Some(request)
    }

    fn step(&mut self, came: &[u8], out: &mut Vec<u8>) -> Result<bool, Refused> {
        if matches!(self.stage, Stage::Begin) {
            let LoginParameters { user, database, .. } = &*self.known;
            let name = ("application_name", "weir-load");
            put_start(out, 0, [("user", &**user), ("database", database), name]);
            self.stage = Stage::LoggingIn;
        }
        self.came.extend_from_slice(came);
        let came = std::mem::take(&mut self.came);
        let mut rest = &came[..];
        while let Some(message) = frame::next(rest, MESSAGE_MAX).map_err(refused)? {
            rest = &rest[message.whole.len()..];
            self.hear(message.tag, message.body, out)?;
        }
        self.came = rest.to_vec();
        Ok(matches!(self.stage, Stage::Done))
    }
}

impl UnderWay {
    fn hear(&mut self, kind: u8, body: &[u8], out: &mut Vec<u8>) -> Result<(), Refused> {
        match (kind, &self.stage) {
            (tag::ERROR_RESPONSE, _) => {
                let fields = Fields::read(body).map_err(refused)?;
                return Err(Refused(words(&fields)));
            }
            (tag::AUTHENTICATION, _) => {
                return self.authenticate(Authentication::read(body).map_err(refused)?, out);
            }
            (tag::READY_FOR_QUERY, Stage::LetIn) if !self.known.parses.is_empty() => {
                out.extend_from_slice(&self.known.parses);
                put_sync(out);
                self.stage = Stage::Preparing;
            }
            (tag::READY_FOR_QUERY, Stage::LetIn | Stage::Preparing) => self.stage = Stage::Done,
            (tag::PARAMETER_STATUS | tag::NOTICE_RESPONSE, _)
            | (tag::BACKEND_KEY_DATA, Stage::LetIn)
            | (tag::PARSE_COMPLETE, Stage::Preparing) => {}
            _ => return Err(strange()),
        }
        Ok(())
    }

    fn authenticate(
        &mut self,
        asked: Authentication<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Refused> {
        let known = Arc::clone(&self.known);
        let password = || {
            let missing = "it asks for a password: put it into PGPASSWORD, or into the URL";
            known.password.as_deref().ok_or_else(|| Refused(missing.to_owned()))
        };
        let failed = |error: std::io::Error| Refused(format!("SCRAM-SHA-256 failed: {error}"));
        let stage = std::mem::replace(&mut self.stage, Stage::LoggingIn);
        self.stage = match (asked, stage) {
            (Authentication::Ok, Stage::LoggingIn | Stage::Proven) => Stage::LetIn,
            (Authentication::CleartextPassword, Stage::LoggingIn) => {
                put_password(out, password()?.as_bytes());
                Stage::LoggingIn
            }
            (Authentication::Md5Password { salt }, Stage::LoggingIn) => {
                let hash = md5_hash(known.user.as_bytes(), password()?.as_bytes(), salt);
                put_password(out, hash.as_bytes());
                Stage::LoggingIn
            }
            (Authentication::Sasl(list), Stage::LoggingIn) => {
                if !mechanisms(list).any(|name| name == SCRAM_SHA_256.as_bytes()) {
                    return Err(Refused("of SASL, SCRAM-SHA-256 alone is spoken here".to_owned()));
                }
                let scram = ScramSha256::new(password()?.as_bytes(), ChannelBinding::unsupported());
                put_sasl_initial(out, SCRAM_SHA_256, scram.message());
                Stage::Scram(Box::new(scram))
            }
            (Authentication::SaslContinue(data), Stage::Scram(mut scram)) => {
                scram.update(data).map_err(failed)?;
                put_sasl_response(out, scram.message());
                Stage::Scram(scram)
            }
            (Authentication::SaslFinal(data), Stage::Scram(mut scram)) => {
                scram.finish(data).map_err(failed)?;
                Stage::Proven
            }
            (Authentication::Other(_), _) => {
                let words = "it asks for GSSAPI, SSPI or something newer, which is not spoken here";
                return Err(Refused(words.to_owned()));
            }
            _ => return Err(strange()),
        };
        Ok(())
    }
}

fn refused<E>(_: E) -> Refused {
    strange()
}

fn strange() -> Refused {
    Refused("what answers there does not log in as PostgreSQL does".to_owned())
}
