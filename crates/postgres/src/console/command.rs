//! What may be said to the console, read as PgBouncer does (`admin.c`, `cmd_normal_rx` and
//! `cmd_set_*_rx`): one command with at most one argument, words or quoted names, a semicolon or
//! none.

use super::action::{Action, Wait};

/// The longest argument, as in PgBouncer; a database's name is shorter.
const ARGUMENT_BYTES_MAX: usize = 63;

/// A command of the console, as PgBouncer has them, or one of Weir's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// `SHOW HELP`.
    Help,
    /// `SHOW` of something else.
    Show(Show),
    /// `SHOW` of a setting that drivers ask every server for.
    ShowSetting(&'static str, &'static str),
    /// `SET` of such a setting: taken, and of no effect.
    IgnoredSet,
    /// A command that changes something.
    Act(Action),
    /// A command of PgBouncer's that is not done here, with the reason.
    NotHere(&'static str),
    /// Nothing, or a semicolon alone.
    Empty,
}

/// What can be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Show {
    /// `ACTIVE_SOCKETS`: clients and servers that are doing something.
    ActiveSockets,
    /// `BACKENDS`: the servers, their roles and how far behind they are. Weir's own.
    Backends,
    /// `CLIENTS`.
    Clients,
    /// `CONFIG`.
    Config,
    /// `DATABASES`.
    Databases,
    /// `DNS_HOSTS`: always empty, the system resolves names.
    DnsHosts,
    /// `DNS_ZONES`: always empty, the system resolves names.
    DnsZones,
    /// `LANES`: shared server connections. Weir's own.
    Lanes,
    /// `LISTS`: how many there are of what.
    Lists,
    /// `MEM`.
    Mem,
    /// `PEERS`: always empty, one process uses all cores.
    Peers,
    /// `PEER_POOLS`, which is always empty.
    PeerPools,
    /// `PLANS`: how statements were classified, and why some do not ride. Weir's own.
    Plans,
    /// `POOLS`.
    Pools,
    /// `SERVERS`.
    Servers,
    /// `SOCKETS`: clients and servers.
    Sockets,
    /// `STATE`.
    State,
    /// `STATS`.
    Stats,
    /// `STATS_AVERAGES`.
    StatsAverages,
    /// `STATS_TOTALS`.
    StatsTotals,
    /// `TOTALS`.
    Totals,
    /// `USERS`.
    Users,
    /// `VERSION`.
    Version,
}

impl Show {
    /// Every table, in the order of the alphabet.
    pub const ALL: [(&'static str, Self); 23] = [
        ("active_sockets", Self::ActiveSockets),
        ("backends", Self::Backends),
        ("clients", Self::Clients),
        ("config", Self::Config),
        ("databases", Self::Databases),
        ("dns_hosts", Self::DnsHosts),
        ("dns_zones", Self::DnsZones),
        ("lanes", Self::Lanes),
        ("lists", Self::Lists),
        ("mem", Self::Mem),
        ("peer_pools", Self::PeerPools),
        ("peers", Self::Peers),
        ("plans", Self::Plans),
        ("pools", Self::Pools),
        ("servers", Self::Servers),
        ("sockets", Self::Sockets),
        ("state", Self::State),
        ("stats", Self::Stats),
        ("stats_averages", Self::StatsAverages),
        ("stats_totals", Self::StatsTotals),
        ("totals", Self::Totals),
        ("users", Self::Users),
        ("version", Self::Version),
    ];
}

/// Why a text is not a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreadable {
    /// No command reads so.
    Syntax,
    /// A command that needs a database has none.
    NoDatabase,
    /// The number of a client is none.
    NoClient,
}

const SUSPEND: &str = "SUSPEND is not done here: it is for PgBouncer's restart, which hands \
                       sockets over; PAUSE before a server is restarted, and stop Weir with \
                       SIGTERM";
const FDS: &str = "SHOW FDS is not done here: it is for PgBouncer's restart, which hands sockets \
                   over, and it would show cancel keys and passwords";
const SET: &str = "settings are not changed at the console: write them in weir.toml, where a \
                   restart finds them again, then RELOAD";

/// Reads one command.
///
/// # Errors
/// It is none.
pub fn parse(sql: &str) -> Result<Command, Unreadable> {
    let mut words = Words { rest: sql };
    let Some(first) = words.word()? else {
        return if words.ended() { Ok(Command::Empty) } else { Err(Unreadable::Syntax) };
    };
    if first.eq_ignore_ascii_case("set") && !words.ended() {
        return set(words);
    }
    let argument = words.argument()?;
    if !words.ended() {
        return Err(Unreadable::Syntax);
    }
    match first.to_ascii_lowercase().as_str() {
        "show" | "select" => show(&argument.ok_or(Unreadable::Syntax)?),
        "pause" => Ok(Command::Act(Action::Pause(argument))),
        "resume" => Ok(Command::Act(Action::Resume(argument))),
        "reconnect" => Ok(Command::Act(Action::Reconnect(argument))),
        "kill" => Ok(Command::Act(Action::Kill(argument))),
        "wait_close" => Ok(Command::Act(Action::WaitClose(argument))),
        "disable" => {
            argument.map(|name| Command::Act(Action::Disable(name))).ok_or(Unreadable::NoDatabase)
        }
        "enable" => {
            argument.map(|name| Command::Act(Action::Enable(name))).ok_or(Unreadable::NoDatabase)
        }
        "kill_client" => {
            let id = argument.and_then(|id| id.parse().ok()).ok_or(Unreadable::NoClient)?;
            Ok(Command::Act(Action::KillClient(id)))
        }
        "reload" => alone(argument, Command::Act(Action::Reload)),
        "suspend" => alone(argument, Command::NotHere(SUSPEND)),
        "shutdown" => {
            let how = argument.map(|how| how.to_ascii_lowercase());
            let wait = match how.as_deref() {
                None => Wait::None,
                Some("wait_for_servers") => Wait::Servers,
                Some("wait_for_clients") => Wait::Clients,
                Some(_) => return Err(Unreadable::Syntax),
            };
            Ok(Command::Act(Action::Shutdown(wait)))
        }
        _ => Err(Unreadable::Syntax),
    }
}

fn alone(argument: Option<String>, command: Command) -> Result<Command, Unreadable> {
    if argument.is_some() { Err(Unreadable::Syntax) } else { Ok(command) }
}

fn show(what: &str) -> Result<Command, Unreadable> {
    let is = |name: &str| what.eq_ignore_ascii_case(name);
    if is("help") {
        return Ok(Command::Help);
    }
    if is("fds") {
        return Ok(Command::NotHere(FDS));
    }
    if let Some((name, value)) = super::fake::setting(what) {
        return Ok(Command::ShowSetting(name, value));
    }
    let table = Show::ALL.iter().find(|(name, _)| is(name));
    table.map(|(_, table)| Command::Show(*table)).ok_or(Unreadable::Syntax)
}

fn set(mut words: Words<'_>) -> Result<Command, Unreadable> {
    words.space()?;
    let name = words.word()?.ok_or(Unreadable::Syntax)?;
    let sign = words.skip_space().strip_prefix('=');
    match sign {
        Some(rest) => words.rest = rest,
        None if words.word()?.is_some_and(|to| to.eq_ignore_ascii_case("to")) => {}
        None => return Err(Unreadable::Syntax),
    }
    words.skip_space();
    if words.quoted('\'')?.is_none() && words.word()?.is_none() {
        return Err(Unreadable::Syntax);
    }
    if !words.ended() {
        return Err(Unreadable::Syntax);
    }
    let known = super::fake::setting(&name).is_some();
    Ok(if known { Command::IgnoredSet } else { Command::NotHere(SET) })
}

/// What has not been read yet.
struct Words<'s> {
    rest: &'s str,
}

impl<'s> Words<'s> {
    fn skip_space(&mut self) -> &'s str {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
        self.rest
    }

    /// At least one space.
    fn space(&mut self) -> Result<(), Unreadable> {
        let before = self.rest.len();
        if self.skip_space().len() < before { Ok(()) } else { Err(Unreadable::Syntax) }
    }

    /// Whether nothing follows, or one semicolon.
    fn ended(&self) -> bool {
        let space = [' ', '\t', '\n', '\r'];
        let rest = self.rest.trim_matches(space);
        rest.strip_suffix(';').unwrap_or(rest).is_empty()
    }

    /// A word after a space, if there is one.
    fn argument(&mut self) -> Result<Option<String>, Unreadable> {
        if self.ended() {
            return Ok(None);
        }
        self.space()?;
        self.word()
    }

    /// Letters, digits and underscores, or a name in double quotes.
    fn word(&mut self) -> Result<Option<String>, Unreadable> {
        self.skip_space();
        if let Some(quoted) = self.quoted('"')? {
            return Ok(Some(quoted));
        }
        let other = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
        let end = self.rest.find(other).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        match word.len() {
            0 => Ok(None),
            length if length > ARGUMENT_BYTES_MAX => Err(Unreadable::Syntax),
            _ => Ok(Some(word.to_owned())),
        }
    }

    /// What stands between two `quote`s, which it holds itself where they are doubled.
    fn quoted(&mut self, quote: char) -> Result<Option<String>, Unreadable> {
        let Some(mut rest) = self.rest.strip_prefix(quote) else {
            return Ok(None);
        };
        let mut text = String::new();
        loop {
            let (before, after) = rest.split_once(quote).ok_or(Unreadable::Syntax)?;
            text.push_str(before);
            match after.strip_prefix(quote) {
                Some(after) => {
                    text.push(quote);
                    rest = after;
                }
                None => {
                    self.rest = after;
                    break;
                }
            }
        }
        if text.len() > ARGUMENT_BYTES_MAX { Err(Unreadable::Syntax) } else { Ok(Some(text)) }
    }
}
