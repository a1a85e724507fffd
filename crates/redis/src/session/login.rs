//! `AUTH` and `HELLO`: who a client is.
//!
//! A login is done apart, behind all that the client has asked before: one that fails is told late
//! where many from its address have failed. Nothing of the client is looked at meanwhile.

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;

use flow::logins::FailedLogin;
use flow::service::Apart;
use tokio::task::AbortHandle;
use wire::resp::{Command, Version, put_array, put_bulk, put_integer, put_map};

use super::clients::check_name;
use super::dispatch::{Change, shortened};
use super::passed::Check;
use super::{Asking, CommandResult, Session, join};
use crate::commands::number;
use crate::fleet::Release;
use crate::front::Front;
use crate::servers::accounts::Account;
use crate::servers::{Hello, LoggedIn, NotIn, Outcome, Servers};
use crate::users::DEFAULT;

pub(super) const WRONG: &str = "WRONGPASS invalid username-password pair or user is disabled.";

/// A login that is under way, until it is dropped.
#[derive(Debug, Default)]
pub(super) struct Login(RefCell<Option<AbortHandle>>);

impl Drop for Login {
    fn drop(&mut self) {
        // Its client is gone: nobody waits for it.
        if let Some(task) = self.0.take() {
            task.abort();
        }
    }
}

impl Login {
    /// Runs until the client is gone.
    pub(super) fn begin(&self, run: impl Future<Output = ()> + 'static) {
        let task = tokio::task::spawn_local(run);
        *self.0.borrow_mut() = Some(task.abort_handle());
    }
}

impl Session {
    pub(super) fn auth(&mut self, command: Command<'_>, client: &Asking) -> CommandResult {
        let (name, password) = match (command.get(1), command.get(2)) {
            (Some(password), None) => (None, password),
            (Some(name), Some(password)) if command.len() == 3 => (Some(name), password),
            _ => return Err("ERR syntax error".to_owned()),
        };
        if self.needs_no_password(name) {
            self.say_ok(client);
            return Ok(());
        }
        self.log_in(name, password, None, client)
    }

    /// Whether there are no users, and the client says that it is the server's own: that one is let
    /// in with any password where it has none.
    fn needs_no_password(&self, name: Option<&[u8]>) -> bool {
        let has_none = self.front.in_force.load().users.anonymous().is_some();
        has_none && name == Some(DEFAULT)
    }

    pub(super) fn hello(&mut self, command: Command<'_>, client: &Asking) -> CommandResult {
        let version = match command.get(1).map(number) {
            None => self.version,
            Some(Some(2)) => Version::Two,
            Some(Some(3)) => Version::Three,
            Some(Some(_)) => return Err("NOPROTO unsupported protocol version".to_owned()),
            Some(None) => {
                return Err("ERR Protocol version is not an integer or out of range".to_owned());
            }
        };
        let (mut login, mut name, mut at) = (None, None, 2);
        while let Some(option) = command.get(at) {
            let is = |word: &[u8]| option.eq_ignore_ascii_case(word);
            match (command.get(at + 1), command.get(at + 2)) {
                (Some(user), Some(password)) if is(b"AUTH") => {
                    login = Some((user, password));
                    at += 3;
                }
                (Some(wanted), _) if is(b"SETNAME") => {
                    name = Some(wanted);
                    at += 2;
                }
                _ => {
                    let option = String::from_utf8_lossy(option);
                    let option = shortened(&option);
                    return Err(format!("ERR Syntax error in HELLO option '{option}'"));
                }
            }
        }
        if let Some(name) = name {
            check_name(name)?;
        }
        if version != self.version {
            self.standing().allows(Change::Protocol)?;
        }
        let hello = Hello { version, name: name.map(<[u8]>::to_vec) };
        if let Some((user, password)) = login
            && !self.needs_no_password(Some(user))
        {
            return self.log_in(Some(user), password, Some(hello), client);
        }
        if self.identity.is_none() {
            self.unnamed.fails()?;
            return Err("NOAUTH HELLO must be called with the client already authenticated, \
                        otherwise the HELLO <proto> AUTH <user> <pass> option can be used to \
                        authenticate the client and select the RESP protocol version at the same \
                        time"
                .to_owned());
        }
        let answer = greeting(&hello, self.id(), &self.front.shared.fleet.release());
        self.greeted(hello);
        self.say(&answer, client);
        Ok(())
    }

    fn log_in(
        &mut self,
        name: Option<&[u8]>,
        password: &[u8],
        hello: Option<Hello>,
        client: &Asking,
    ) -> CommandResult {
        let in_force = self.front.in_force.load();
        if in_force.users.anonymous().is_some() {
            let from = self.card.from.map(|from| from.ip());
            log_failure(from, name.unwrap_or(DEFAULT), "there is no [[redis.user]]");
            if name.is_some() {
                return Err(WRONG.to_owned());
            }
            return Err("ERR AUTH <password> called without any password configured for the \
                        default user. Are you sure your configuration is correct?"
                .to_owned());
        }
        let check = Check::new(&in_force, name, password);
        drop(in_force);
        self.may_change_user()?;
        let user: Rc<str> = String::from_utf8_lossy(name.unwrap_or(DEFAULT)).into();
        let greeted = |of: &Hello| greeting(of, self.id(), &self.front.shared.fleet.release());
        let answer = hello.as_ref().map_or_else(|| b"+OK\r\n".to_vec(), greeted);
        let login = Rc::new(Login::default());
        self.login = Some(Rc::clone(&login));
        let (front, from) = (Rc::clone(&self.front), self.card.from.map(|from| from.ip()));
        let login = Rc::downgrade(&login);
        client.apart(move |apart: Apart<Servers>| {
            let Some(of) = login.upgrade() else { return };
            of.begin(async move {
                let place = front.shared.slowing.enter(from, &user).await;
                let (identity, account) = match check.run(&front).await {
                    Ok(found) => found,
                    Err(NotIn::Refused(words)) => {
                        log_failure(from, user.as_bytes(), &words);
                        return refuse(&front, place, &words, apart).await;
                    }
                    Err(NotIn::Unasked(words)) => {
                        log_failure(from, user.as_bytes(), &words);
                        return apart.answer(&join::error(&words));
                    }
                };
                front.shared.slowing.succeeded(place, &user);
                apart.client().set_user(Some(&user));
                let done = LoggedIn { identity, account, user, hello };
                apart.done(Outcome::LoggedIn(done), &answer);
            });
        });
        self.front.metrics.answered.inc();
        Ok(())
    }

    /// What has come of a login holds from now on.
    pub(super) fn is_let_in(&mut self, done: LoggedIn) {
        self.identity = Some(done.identity);
        self.asks_as(done.account);
        *self.card.user.borrow_mut() = Some(done.user);
        if let Some(hello) = done.hello {
            self.greeted(hello);
        }
    }

    /// It asks servers as this from now on.
    pub(super) fn asks_as(&mut self, account: Rc<Account>) {
        if self.account.id() != account.id() {
            // It is subscribed to nothing, or it would not have been let in.
            self.subscribed = None;
            self.written.set(self.written.get().as_another());
            self.account = account;
        }
    }

    fn greeted(&mut self, hello: Hello) {
        self.version = hello.version;
        if let Some(subscribed) = &self.subscribed {
            subscribed.speaks(hello.version);
        }
        if let Some(name) = hello.name {
            *self.card.name.borrow_mut() = name;
        }
    }
}

/// Has the log tell of a login that failed.
fn log_failure(from: Option<IpAddr>, user: &[u8], reason: &str) {
    FailedLogin { gateway: "redis", user: Some(user), database: None, from, reason }.log();
}

/// Tells that a login has failed, late where many from there have.
async fn refuse(
    front: &Front,
    place: flow::logins::slowing::LoginSource,
    words: &str,
    apart: Apart<Servers>,
) {
    front.metrics.logins_refused.inc();
    front.shared.slowing.wait_to_refuse(place, &front.metrics.logins_slowed).await;
    apart.answer(&join::error(words));
}

/// What a client of this number hears, before servers of that release.
fn greeting(of: &Hello, id: i64, release: &Release) -> Vec<u8> {
    let mut out = Vec::new();
    put_map(&mut out, 7, of.version);
    let text = |out: &mut Vec<u8>, key: &str, value: &str| {
        put_bulk(out, key.as_bytes());
        put_bulk(out, value.as_bytes());
    };
    let (name, version) = release.named();
    text(&mut out, "server", name);
    text(&mut out, "version", version);
    put_bulk(&mut out, b"proto");
    put_integer(&mut out, if of.version == Version::Three { 3 } else { 2 });
    put_bulk(&mut out, b"id");
    put_integer(&mut out, id);
    text(&mut out, "mode", "standalone");
    text(&mut out, "role", "master");
    put_bulk(&mut out, b"modules");
    put_array(&mut out, 0);
    out
}
