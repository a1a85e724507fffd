//! One client: its connection, what it has done, and what it has to find.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use wire::postgres::frontend::{
    Target, put_bind, put_describe, put_execute, put_parse, put_query, put_sync,
};

use super::model::{Ledger, NAMES, Session, Values};
use rig::postgres::{MessageClient, Reply};

/// Of what it did so much is told when something is wrong.
const TRAIL: usize = 40;
/// Time zones that are not the server's own.
const ZONES: [&str; 4] = ["Europe/Vienna", "Asia/Tokyo", "America/Lima", "Africa/Lagos"];
/// Users, each with a pool of its own.
pub const USERS: usize = 3;

pub type ActResult<T = ()> = Result<T, String>;

/// Where clients connect to, and what they find there.
#[derive(Debug, Clone)]
pub struct IsolationTarget {
    pub address: SocketAddr,
    /// The server's own settings.
    pub defaults: Values,
    /// What chance begins with.
    pub seed: u64,
}

pub struct Actor {
    pub number: usize,
    pub chance: StdRng,
    pub peer: MessageClient,
    pub session: Session,
    pub ledger: Ledger,
    place: IsolationTarget,
    trail: VecDeque<String>,
}

impl Actor {
    pub fn new(number: usize, place: &IsolationTarget) -> ActResult<Self> {
        let mut chance = StdRng::seed_from_u64(place.seed.wrapping_add(number as u64));
        let (peer, session) =
            connect(number, place, &mut chance).map_err(|e| format!("client {number}: {e}"))?;
        let (ledger, trail) = Default::default();
        Ok(Self { number, chance, peer, session, ledger, place: place.clone(), trail })
    }

    /// Leaves without a word and comes back.
    pub fn reconnect(&mut self) -> ActResult {
        self.note("a new connection");
        (self.peer, self.session) =
            connect(self.number, &self.place, &mut self.chance).map_err(|e| self.wrong(&e))?;
        Ok(())
    }

    /// What was wrong, and what came before.
    pub fn wrong(&self, what: &dyn std::fmt::Display) -> String {
        let trail: Vec<_> = self.trail.iter().map(|did| format!("    {did}\n")).collect();
        let (number, session) = (self.number, &self.session);
        format!("client {number}: {what}\n{session:?}\n{}", trail.concat())
    }

    /// Takes note of what it does.
    pub fn note(&mut self, what: impl Into<String>) {
        if self.trail.len() == TRAIL {
            self.trail.pop_front();
        }
        let mut what = what.into();
        what.truncate(200);
        self.trail.push_back(what);
    }

    pub fn send(&mut self, bytes: &[u8]) -> ActResult {
        self.peer.send(bytes).map_err(|e| self.wrong(&e))
    }

    pub fn reply(&mut self) -> ActResult<Reply> {
        let reply = self.peer.reply().map_err(|e| self.wrong(&e))?;
        let mut said = format!("  -> {:?} {:?} {}", reply.tags, reply.error, reply.status);
        if let Some(row) = reply.rows.first() {
            said.push_str(&format!(" {row:.40?}"));
        }
        self.note(said);
        Ok(reply)
    }

    pub fn must<T: PartialEq + std::fmt::Debug>(
        &self,
        what: &str,
        found: T,
        wanted: T,
    ) -> ActResult {
        if found == wanted {
            return Ok(());
        }
        Err(self.wrong(&format!("{what}: found {found:.400?}, wanted {wanted:.400?}")))
    }

    /// A number that no other question has.
    pub fn unique(&mut self) -> u32 {
        self.chance.random_range(1_000_000..2_000_000_000)
    }

    /// Whether a chance of one in `n` comes true.
    pub fn one_in(&mut self, n: u32) -> bool {
        self.chance.random_range(0..n) == 0
    }

    /// Asks, by one of the two protocols.
    pub fn ask(&mut self, sql: &str) -> ActResult<Reply> {
        let mut out = Vec::new();
        let extended = self.one_in(2);
        self.note(format!("{}: {sql}", if extended { "extended" } else { "simple" }));
        match extended {
            true => put_round(&mut out, sql, &[]),
            false => put_query(&mut out, sql.as_bytes()),
        }
        self.send(&out)?;
        self.reply()
    }

    /// Asks what must be done, with the transaction's status after it.
    pub fn run(&mut self, sql: &str, tag: &str, status: char) -> ActResult<Reply> {
        let reply = self.ask(sql)?;
        self.must(sql, (&reply.error, reply.status), (&None, status))?;
        self.must(sql, &reply.tags, &vec![tag.to_owned()])?;
        Ok(reply)
    }

    /// Asks what must fail.
    pub fn fail(&mut self, sql: &str, code: &str, status: char) -> ActResult {
        let reply = self.ask(sql)?;
        self.must(sql, (reply.error.as_deref(), reply.status), (Some(code), status))
    }

    /// A question whose answer says whose it is, and what it must be.
    pub fn probe(&mut self) -> (u32, String) {
        let n = self.unique();
        (n, format!("SELECT {n}::int, {}", seen()))
    }

    /// Whether the answer to a probe with this number is this client's.
    pub fn check(&self, n: u32, reply: &Reply, status: char) -> ActResult {
        self.must("a probe's end", (&reply.error, reply.status), (&None, status))?;
        let mut wanted = vec![Some(n.to_string())];
        wanted.extend(self.session.now.iter().cloned().map(Some));
        wanted.push(Some(self.session.who()));
        self.must("a probe", &reply.rows, &vec![wanted])?;
        for name in [1, 2] {
            let reported = self.peer.reported.get(NAMES[name]);
            self.must("what is reported", reported, Some(&self.session.now[name]))?;
        }
        Ok(())
    }

    /// Asks for its own settings.
    pub fn look(&mut self, status: char) -> ActResult {
        let (n, sql) = self.probe();
        let reply = self.ask(&sql)?;
        self.check(n, &reply, status)
    }

    /// A setting by chance, and a new value.
    pub fn setting(&mut self) -> (usize, String) {
        let setting = self.chance.random_range(0..NAMES.len());
        (setting, value(setting, self.number, &mut self.chance))
    }
}

/// What tells sessions from each other.
pub fn seen() -> String {
    let mut sql = "coalesce(current_setting('app.id', true), '')".to_owned();
    for name in &NAMES[1..] {
        sql.push_str(&format!(", current_setting('{name}')"));
    }
    sql + ", session_user || '/' || current_user"
}

/// Appends a round of the extended protocol with parameters in text.
pub fn put_round(out: &mut Vec<u8>, sql: &str, values: &[&str]) {
    put_parse(out, b"", sql.as_bytes(), &[]);
    let values: Vec<_> = values.iter().map(|value| Some(value.as_bytes())).collect();
    put_bind(out, b"", b"", &values);
    put_describe(out, Target::Portal(b""));
    put_execute(out, b"", 0);
    put_sync(out);
}

fn value(setting: usize, number: usize, chance: &mut StdRng) -> String {
    let n = chance.random_range(0..50);
    match NAMES[setting] {
        "TimeZone" => ZONES[n % ZONES.len()].to_owned(),
        "statement_timeout" => format!("{}ms", 100_000 + 100 * number + 2 * n + 1),
        "search_path" => format!("c{number}_{n}, public"),
        // Some in common, so that lanes are shared and left.
        _ if n < 10 => format!("common {n}"),
        _ => format!("{number}-{n}"),
    }
}

fn connect(
    number: usize,
    place: &IsolationTarget,
    chance: &mut StdRng,
) -> io::Result<(MessageClient, Session)> {
    let user = format!("u{}", number % USERS);
    let mut start = place.defaults.clone();
    let mut options = String::new();
    for setting in 0..NAMES.len() {
        if chance.random_range(0..4) == 0 {
            start[setting] = value(setting, number, chance);
            let escaped = start[setting].replace(' ', "\\ ");
            options.push_str(&format!("-c {}={escaped} ", NAMES[setting]));
        }
    }
    let parameters = [("user", &*user), ("database", "postgres"), ("options", options.trim_end())];
    let peer = MessageClient::connect(place.address, &parameters)?;
    Ok((peer, Session::new(&user, start)))
}
