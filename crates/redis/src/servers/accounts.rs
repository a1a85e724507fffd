//! As whom a worker's lanes are logged in.
//!
//! A lane belongs to an account, and an account to one user with one password. A client has an
//! account only after a server has let it in with these very words, each time that it says them;
//! so whoever says a former password shares nothing with those who said it while it was right.
//! Where Weir itself has let it in, the account is that of the user that the settings have for it.
//!
//! An account that no client has is kept for a while, with its lanes, for one that comes back.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use ring::hmac;

use crate::desk::shown;
use crate::server::{ConnectionProfile, Login};

/// For how long an account is kept that no client has.
const KEPT_FOR: Duration = Duration::from_secs(60);
/// How many of them are kept.
const UNUSED_MAX: usize = 256;
/// Bytes of a user's name that are shown.
const NAME_BYTES_MAX: usize = 128;

/// As whom lanes are logged in.
#[derive(Debug)]
pub struct Account {
    /// No other has, or will have, the same on this worker.
    id: u64,
    login: Login,
    /// The numbers of its places.
    pub(super) numbers: RefCell<Vec<(ConnectionProfile, usize)>>,
    /// Clients may come to have it.
    is_found: Cell<bool>,
    /// Since when no client has it.
    unused: Cell<Option<Instant>>,
}

impl Account {
    fn new(id: u64, login: Login) -> Rc<Self> {
        let (numbers, is_found, unused) = (RefCell::default(), Cell::new(true), Cell::default());
        Rc::new(Self { id, login, numbers, is_found, unused })
    }

    /// Its number, which no other account of this worker ever has.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// How servers are logged in to.
    pub fn login(&self) -> &Login {
        &self.login
    }

    /// Whether it is a client's, and not Weir's own.
    pub fn is_of_client(&self) -> bool {
        !matches!(self.login, Login::Own)
    }

    /// Whether a client has it.
    pub(super) fn is_used(self: &Rc<Self>) -> bool {
        // All that clients have had are kept in one place until nothing is left of them.
        matches!(self.login, Login::Own | Login::Nobody) || Rc::strong_count(self) > 1
    }

    /// What its user is called; `None` of Weir's own.
    pub fn user(&self) -> Option<String> {
        match &self.login {
            Login::Own => None,
            Login::Nobody => Some("default".to_owned()),
            Login::As(credentials) | Login::Mapped(credentials) => {
                Some(shown(credentials.name(), NAME_BYTES_MAX))
            }
        }
    }
}

/// Whether the settings have a user for its clients, and the digest of what is sent for it.
type Key = (bool, [u8; 32]);

/// All accounts of a worker.
pub struct Accounts {
    own: Rc<Account>,
    nobody: Rc<Account>,
    next: Cell<u64>,
    /// Passwords are looked for by what only this worker can make of them.
    key: hmac::Key,
    by_key: RefCell<HashMap<Key, Weak<Account>>>,
    /// All that clients have or had, but for `nobody`, until nothing is left of them.
    all: RefCell<Vec<Rc<Account>>>,
}

impl Default for Accounts {
    fn default() -> Self {
        Self {
            own: Account::new(0, Login::Own),
            nobody: Account::new(1, Login::Nobody),
            next: Cell::new(2),
            key: hmac::Key::new(hmac::HMAC_SHA256, &rand::random::<[u8; 32]>()),
            by_key: RefCell::default(),
            all: RefCell::default(),
        }
    }
}

impl Accounts {
    /// The account that Weir itself is logged in with.
    pub fn own(&self) -> &Rc<Account> {
        &self.own
    }

    /// That of clients who have not logged in and were let in so.
    pub fn nobody(&self) -> &Rc<Account> {
        &self.nobody
    }

    /// That of a client who asks servers so. A server, or Weir, has let it in just now.
    pub fn of(&self, login: &Login) -> Rc<Account> {
        let Some(key) = self.key_of(login) else {
            return Rc::clone(if matches!(login, Login::Own) { &self.own } else { &self.nobody });
        };
        if let Some(account) = self.by_key.borrow().get(&key).and_then(Weak::upgrade) {
            return account;
        }
        let account = Account::new(self.next.get(), login.clone());
        self.next.set(self.next.get() + 1);
        self.by_key.borrow_mut().insert(key, Rc::downgrade(&account));
        self.all.borrow_mut().push(Rc::clone(&account));
        account
    }

    /// A server has refused it, or it is given up: whoever is let in from now on has another one.
    pub fn is_refused(&self, account: &Account) {
        if let Some(key) = self.key_of(&account.login)
            && account.is_found.replace(false)
        {
            self.by_key.borrow_mut().remove(&key);
        }
    }

    fn key_of(&self, login: &Login) -> Option<Key> {
        match login {
            Login::Own | Login::Nobody => None,
            Login::As(credentials) => Some((false, credentials.digest(&self.key))),
            Login::Mapped(credentials) => Some((true, credentials.digest(&self.key))),
        }
    }

    /// Those that no client has and that are not kept any longer: no client has them again.
    pub fn outworn(&self, now: Instant) -> Vec<Rc<Account>> {
        let mut unused: Vec<(Instant, Rc<Account>)> = Vec::new();
        for account in self.all.borrow().iter() {
            let since = account.unused.get().unwrap_or(now);
            account.unused.set((!account.is_used()).then_some(since));
            if account.unused.get().is_some() {
                unused.push((since, Rc::clone(account)));
            }
        }
        unused.sort_by_key(|(since, _)| *since);
        let beyond = unused.len().saturating_sub(UNUSED_MAX);
        let outworn = unused.into_iter().enumerate().filter(|(at, (since, account))| {
            let is_old = now.saturating_duration_since(*since) >= KEPT_FOR;
            *at < beyond || is_old || !account.is_found.get()
        });
        let outworn: Vec<_> = outworn.map(|(_, (_, account))| account).collect();
        outworn.iter().for_each(|account| self.is_refused(account));
        outworn
    }

    /// Nothing is left of an account.
    pub fn is_over(&self, account: &Account) {
        self.all.borrow_mut().retain(|of| of.id != account.id);
    }
}

impl fmt::Debug for Accounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Accounts").field("all", &self.all.borrow().len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Credentials;

    fn ann(password: &str) -> Login {
        Login::As(Credentials::new(Some(b"ann"), password.as_bytes()))
    }

    #[test]
    fn only_who_says_the_same_shares_an_account() {
        let all = Accounts::default();
        let first = all.of(&ann("one"));
        assert_eq!(all.of(&ann("one")).id(), first.id());
        let alone = all.of(&Login::As(Credentials::new(None, b"one")));
        let Login::As(credentials) = ann("one") else { unreachable!("it is a client's") };
        let mapped = all.of(&Login::Mapped(credentials));
        assert_eq!(mapped.user(), first.user());
        let others = [&all.of(&ann("two")), &alone, &mapped, all.own(), all.nobody()];
        let others = others.map(|of| of.id());
        let own = [Login::Own, Login::Nobody].map(|login| all.of(&login).id());
        assert_eq!(own, [all.own().id(), all.nobody().id()]);
        assert!(!others.contains(&first.id()));
        assert_eq!(first.user().as_deref(), Some("ann"));
        all.is_refused(&first);
        let second = all.of(&ann("one"));
        assert_ne!(second.id(), first.id(), "what was refused is not shared any more");
        // What is said of the first one again does not concern the second.
        all.is_refused(&first);
        assert_eq!(all.of(&ann("one")).id(), second.id());
    }

    #[test]
    fn accounts_that_no_client_has_are_given_up_after_a_while_or_where_there_are_many() {
        let (all, begun) = (Accounts::default(), Instant::now());
        let kept = all.of(&ann("one"));
        drop(all.of(&ann("two")));
        assert!(all.outworn(begun).is_empty());
        let two = all.of(&ann("two"));
        assert!(all.outworn(begun + KEPT_FOR).is_empty(), "a client has it again");
        let id = two.id();
        drop(two);
        assert!(all.outworn(begun + KEPT_FOR).is_empty());
        let outworn = all.outworn(begun + KEPT_FOR * 2);
        assert_eq!(outworn.iter().map(|of| of.id()).collect::<Vec<_>>(), [id]);
        assert_ne!(all.of(&ann("two")).id(), id, "nobody comes to have it again");
        // Until nothing is left of it, it is looked at again and again.
        drop(outworn);
        assert!(all.outworn(begun + KEPT_FOR * 2).iter().any(|of| of.id() == id));
        all.is_over(&all.outworn(begun + KEPT_FOR * 2)[0]);
        for n in 0..UNUSED_MAX + 10 {
            drop(all.of(&ann(&format!("many {n}"))));
        }
        assert_eq!(all.outworn(begun + KEPT_FOR * 2).len(), 10 + 1);
        assert!(kept.is_used());
    }
}
