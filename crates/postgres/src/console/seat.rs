//! One client's place at the console: what it may do, and what becomes of its queries.

use wire::postgres::backend::{
    Status, TEXT_OID, put_command_complete, put_data_row, put_empty_query_response,
    put_parameter_status, put_ready_for_query, put_row_description,
};
use wire::postgres::refusal::{Refusal, sqlstate};

use super::action::Action;
use super::command::{Command, Show, Unreadable, parse};
use crate::settings::Console;

/// The longest query that is repeated in an error.
const REPEATED_CHARS_MAX: usize = 200;

/// What a user may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rank {
    /// May run every command.
    Admin,
    /// May run `SHOW` commands and change nothing.
    Stats,
}

impl Rank {
    /// The rank of a user; `None` may not even look.
    pub fn of(settings: &Console, user: &str) -> Option<Self> {
        let named = |names: &[String]| names.iter().any(|name| name == user);
        if named(&settings.admin_users) {
            Some(Self::Admin)
        } else if named(&settings.stats_users) {
            Some(Self::Stats)
        } else {
            None
        }
    }

    /// Whether a command may be given. The one place that decides it.
    fn may(self, command: &Command) -> bool {
        match command {
            Command::Help
            | Command::Show(_)
            | Command::ShowSetting(..)
            | Command::IgnoredSet
            | Command::Empty => true,
            Command::Act(_) | Command::NotHere(_) => self == Self::Admin,
        }
    }
}

/// What a query asks of the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Nothing: the answer is whole.
    Whole,
    /// To fill a [`Snapshot`](super::Snapshot) and encode this with it.
    Show(Show),
    /// To do this and to say by [`Action::done`] how it ended.
    Act(Action),
}

/// One client's place at the console.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seat {
    rank: Rank,
    /// The names of the console itself, which no command can be about.
    names: Vec<String>,
}

impl Seat {
    /// A place for `user`, who has proved to be that.
    ///
    /// # Errors
    /// The user may not use the console.
    pub fn admit(settings: &Console, user: &str) -> Result<Self, Refusal> {
        let rank = Rank::of(settings, user).ok_or_else(|| {
            let refused = "not allowed";
            Refusal::fatal(sqlstate::INVALID_AUTHORIZATION, refused).hint(
                "the console is for the users in admin-users and stats-users of [postgres.console]",
            )
        })?;
        Ok(Self { rank, names: settings.databases.clone() })
    }

    /// Appends what a client is told after its login, up to where the first ReadyForQuery is due.
    pub fn welcome(out: &mut Vec<u8>) {
        let version = concat!(env!("CARGO_PKG_VERSION"), "/weir");
        for (name, value) in [
            ("server_version", version),
            ("client_encoding", "UTF8"),
            ("server_encoding", "UTF8"),
            ("DateStyle", "ISO"),
            ("TimeZone", "GMT"),
            ("standard_conforming_strings", "on"),
            ("is_superuser", "on"),
        ] {
            put_parameter_status(out, name.as_bytes(), value.as_bytes());
        }
    }

    /// Takes the text of a Query; what can be answered at once is appended to `out`.
    pub fn on_query(&self, sql: &[u8], out: &mut Vec<u8>) -> Answer {
        match self.read(sql) {
            Ok(Command::Show(table)) => return Answer::Show(table),
            Ok(Command::Act(action)) => return Answer::Act(action),
            Ok(Command::Help) => {
                let usage = Refusal::error(sqlstate::SUCCESSFUL_COMPLETION, "Console usage");
                usage.detail(USAGE).encode_as_notice(out);
                put_command_complete(out, "SHOW");
            }
            Ok(Command::ShowSetting(name, value)) => {
                put_row_description(out, &[(name, TEXT_OID)]);
                put_data_row(out, [Some(value.as_bytes())]);
                put_command_complete(out, "SHOW");
            }
            Ok(Command::IgnoredSet) => {
                let word = Refusal::error(sqlstate::SUCCESSFUL_COMPLETION, "SET ignored");
                word.encode_as_notice(out);
                put_command_complete(out, "SET");
            }
            Ok(Command::Empty) => put_empty_query_response(out),
            Ok(Command::NotHere(why)) => {
                Refusal::error(sqlstate::FEATURE_NOT_SUPPORTED, why).encode(out);
            }
            Err(refusal) => refusal.encode(out),
        }
        put_ready_for_query(out, Status::Idle);
        Answer::Whole
    }

    /// The refusal for anything but Query, Sync and Terminate; the client is closed after it.
    pub fn other_message() -> Refusal {
        let what = "extended query protocol not supported by the console";
        Refusal::fatal(sqlstate::FEATURE_NOT_SUPPORTED, what)
            .hint("use the simple protocol: psql does, JDBC with preferQueryMode=simple")
    }

    /// The command that `sql` is, if it is one and this client may give it.
    fn read(&self, sql: &[u8]) -> Result<Command, Refusal> {
        let text = std::str::from_utf8(sql).map_err(|_| invalid("?"))?;
        let command = match parse(text) {
            Ok(command) => command,
            Err(Unreadable::Syntax) => return Err(invalid(text)),
            Err(wrong) if self.rank == Rank::Admin => return Err(wrong.refusal()),
            Err(_) => return Err(not_admin()),
        };
        if !self.rank.may(&command) {
            return Err(not_admin());
        }
        if let Command::Act(action) = &command
            && let Some(name) = action.database()
            && self.names.iter().any(|own| own == name)
        {
            let verb = action.word().to_ascii_lowercase();
            let what = format!("cannot {verb} admin db: {name}");
            return Err(Refusal::error(sqlstate::NOT_IN_STATE, what));
        }
        Ok(command)
    }
}

impl Unreadable {
    fn refusal(self) -> Refusal {
        let what = match self {
            Self::Syntax => "invalid command, use SHOW HELP;",
            Self::NoDatabase => "a database is required",
            Self::NoClient => "KILL_CLIENT needs the id of a client, as SHOW CLIENTS gives it",
        };
        Refusal::error(sqlstate::SYNTAX_ERROR, what)
    }
}

fn not_admin() -> Refusal {
    Refusal::error(sqlstate::INSUFFICIENT_PRIVILEGE, "admin access needed")
}

fn invalid(text: &str) -> Refusal {
    let text: String = text.chars().take(REPEATED_CHARS_MAX).collect();
    let what = format!("invalid command '{text}', use SHOW HELP;");
    Refusal::error(sqlstate::SYNTAX_ERROR, what)
}

const USAGE: &str = "
\tSHOW HELP|CONFIG|DATABASES|POOLS|CLIENTS|SERVERS|USERS|VERSION
\tSHOW BACKENDS|LANES|PLANS
\tSHOW PEERS|PEER_POOLS
\tSHOW SOCKETS|ACTIVE_SOCKETS|LISTS|MEM|STATE
\tSHOW DNS_HOSTS|DNS_ZONES
\tSHOW STATS|STATS_TOTALS|STATS_AVERAGES|TOTALS
\tRELOAD
\tPAUSE [<db>]
\tRESUME [<db>]
\tDISABLE <db>
\tENABLE <db>
\tRECONNECT [<db>]
\tKILL [<db>]
\tKILL_CLIENT <client_id>
\tSHUTDOWN
\tSHUTDOWN WAIT_FOR_SERVERS|WAIT_FOR_CLIENTS
\tWAIT_CLOSE [<db>]";
