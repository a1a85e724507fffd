//! The servers of a worker: how each is reached and logged in to, what its replies are, and how a
//! connection that one client had is made everybody's again.

mod login;
mod restore;

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use flow::dial::{Socket, Target, Tls};
use flow::lane::{Protocol, Step, What};
use flow::lanes::Known;
use flow::service::{Again, Request, Service, Unanswered};
use flow::tls::{Check, ClientOptions};
use wire::resp::{Command, Piece, Replies, Version, put_error};

use crate::health::Health;
use crate::scripts::{Scripts, Seen};
use crate::settings::{BackendSettings, read_address};

/// A server, and how connections to it are opened. Clones are the same.
#[derive(Debug, Clone)]
pub struct Server {
    /// Its name in the configuration.
    pub name: Arc<str>,
    target: Target,
    user: Option<String>,
    password: Option<watch::secret::Secret>,
}

/// What lanes are alike for: a server, a database of it, and the protocol's version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The server's number.
    pub server: usize,
    /// The database's number.
    pub database: u32,
    /// What the server answers in.
    pub version: Version,
}

/// Why a server can not be asked, in words for the client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{words}")]
pub struct ServerError {
    words: Rc<str>,
    /// The server has said so itself: it is there.
    is_refusal: bool,
}

/// The servers, as a worker's fabric asks for them. Places have numbers, in the order in which
/// they were wanted first.
#[derive(Debug)]
pub struct Servers {
    all: Vec<Server>,
    health: Arc<Health>,
    worker: usize,
    places: RefCell<Vec<Place>>,
    scripts: Seen,
}

impl Server {
    /// Makes ready to reach a server; reads the files that its settings name.
    ///
    /// # Errors
    /// What in the settings stands in the way.
    pub fn new(settings: &BackendSettings) -> Result<Self, String> {
        let named = |error: &dyn fmt::Display| format!("backend {:?}: {error}", settings.name);
        let reached = read_address(&settings.url).map_err(|error| named(&error))?;
        let options = ClientOptions {
            ca: settings.ca.as_deref(),
            check: Check::Name,
            identity: None,
            protocols: &[],
        };
        let host = reached.address.host().filter(|_| reached.tls);
        let tls = host.map(|host| Tls::new(&options, host)).transpose();
        let password = settings.password.or_from(settings.password_file.as_deref());
        let password = password.map_err(|error| named(&error))?;
        Ok(Self {
            name: settings.name.as_str().into(),
            target: Target {
                address: reached.address,
                tls: tls.map_err(|error| named(&error))?,
                connect_timeout: settings.connect_timeout.get(),
            },
            user: settings.user.clone(),
            password: (!password.is_empty()).then_some(password),
        })
    }
}

impl Servers {
    /// These servers, numbered from 0; how they are to this worker goes into `health`.
    pub fn new(
        all: Vec<Server>,
        health: Arc<Health>,
        worker: usize,
        scripts: Arc<Scripts>,
    ) -> Self {
        Self { all, health, worker, places: RefCell::default(), scripts: Seen::new(scripts) }
    }

    /// Whether the answer to a command is to be judged by its first line.
    pub fn is_judged(&self, command: &Command<'_>) -> bool {
        self.scripts.is_concerned(command)
    }

    /// All of them, by their numbers.
    pub fn servers(&self) -> &[Server] {
        &self.all
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The number of a place.
    #[inline]
    pub fn number(&self, place: Place) -> usize {
        let mut places = self.places.borrow_mut();
        places.iter().position(|of| *of == place).unwrap_or_else(|| {
            places.push(place);
            places.len() - 1
        })
    }

    /// The name of the server of a place.
    pub fn name(&self, number: usize) -> &str {
        let server = self.places.borrow().get(number).map(|place| place.server);
        server.and_then(|server| self.all.get(server)).map_or("?", |server| &server.name)
    }

    /// The names of all servers.
    pub fn names(&self) -> Vec<String> {
        self.all.iter().map(|server| server.name.as_ref().to_owned()).collect()
    }

    fn place(&self, number: usize) -> Option<(Server, Place)> {
        let place = *self.places.borrow().get(number)?;
        Some((self.all.get(place.server)?.clone(), place))
    }
}

/// A connection to a server, logged in.
#[derive(Debug)]
pub struct Connection {
    socket: Socket,
    number: usize,
}

/// Where replies end.
#[derive(Debug, Default)]
pub struct Ends(Replies);

impl Protocol for Ends {
    #[inline]
    fn scan(&mut self, bytes: &[u8]) -> Step {
        match self.0.scan(bytes) {
            Ok(step) => {
                let what = match step.what {
                    Piece::Part => What::Part,
                    Piece::End => What::End,
                    // Nothing that a server says by itself was asked for.
                    Piece::Push => What::Broken("a push that nobody asked for"),
                };
                Step { len: step.len, what }
            }
            Err(why) => Step { len: 0, what: What::Broken(why) },
        }
    }
}

/// Nothing is known of a server that could change.
#[derive(Debug)]
pub struct Unchanging;

impl Known for Unchanging {
    fn is_current(&self) -> bool {
        true
    }
}

impl Service for Servers {
    type Connection = Connection;
    type Protocol = Ends;
    type Known = Unchanging;
    type Error = ServerError;

    async fn connect(self: Rc<Self>, number: usize) -> Result<Connection, ServerError> {
        let Some((server, place)) = self.place(number) else {
            return Err(ServerError { words: "there is no such server".into(), is_refusal: false });
        };
        let opened = server.open(place, number).await;
        match &opened {
            Ok(_) => self.health.reached(place.server, self.worker, None),
            Err(refused) if refused.is_refusal => {
                self.health.reached(place.server, self.worker, Some(&refused.words));
            }
            Err(error) => self.health.failed(place.server, self.worker, &error.words),
        }
        opened
    }

    fn known(&self, _connection: &Connection) -> (Ends, Unchanging) {
        (Ends::default(), Unchanging)
    }

    fn lost(&self, number: usize) {
        if let Some((_, place)) = self.place(number) {
            let words = "it ended a connection while commands waited on it";
            self.health.failed(place.server, self.worker, words);
        }
    }

    fn are_one(&self, number: usize, other: usize) -> bool {
        let places = self.places.borrow();
        number == other
            || places.get(number).map(|place| place.server)
                == places.get(other).map(|place| place.server)
    }

    fn again(&self, request: &Request, line: &[u8]) -> Option<Again> {
        let bytes = self.scripts.heard(&request.bytes, line)?;
        // Of what was sent behind it, some may have been run before.
        Some(Again { request: Request { bytes: bytes.into(), ..request.clone() }, alone: true })
    }

    async fn restore(self: Rc<Self>, connection: &mut Connection) -> bool {
        match self.place(connection.number) {
            Some((server, place)) => server.restore(place, connection).await,
            None => false,
        }
    }

    fn words(&self, why: &Unanswered<ServerError>) -> Vec<u8> {
        let of = |number: &usize| self.name(*number).to_owned();
        let text = match why {
            Unanswered::Unreachable { server, error } => {
                format!("ERR weir: not sent: {} cannot be reached: {error}", of(server))
            }
            Unanswered::NotSent { server } => {
                format!(
                    "ERR weir: not sent: the connection to {} broke, and what was before this may \
                     have run",
                    of(server)
                )
            }
            Unanswered::MayHaveRun { server } => {
                format!("ERR weir: may have run: the connection to {} broke", of(server))
            }
            Unanswered::Late { server, may_have_run: false } => {
                format!("ERR weir: not sent: {} took no command in time", of(server))
            }
            Unanswered::Late { server, may_have_run: true } => {
                format!("ERR weir: may have run: {} did not answer in time", of(server))
            }
            Unanswered::Cancelled => "ERR weir: cancelled".to_owned(),
            Unanswered::Killed => "ERR weir: closed by an operator".to_owned(),
            Unanswered::Draining => "ERR weir: it stops".to_owned(),
            Unanswered::TooMuchWaits => {
                "ERR weir: more answers wait behind a slow one than max-waiting".to_owned()
            }
            Unanswered::TooLarge => "ERR weir: the command is larger than max-command".to_owned(),
            Unanswered::LeaseLost { server } => {
                format!(
                    "ERR weir: not sent: the connection to {} that this client had for itself has \
                     ended",
                    of(server)
                )
            }
        };
        let mut out = Vec::with_capacity(text.len() + 3);
        put_error(&mut out, &text);
        out
    }
}
