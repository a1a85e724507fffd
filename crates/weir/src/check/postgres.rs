//! What `weir serve` would do for PostgreSQL's clients, in words.

use postgres::Settings;
use postgres::settings::{AuthRule, BackendSettings, From, Method, Role};

/// How many names are listed before the rest is counted.
const NAMES_MAX: usize = 8;

/// The addresses that clients connect to.
pub fn listeners(settings: &Settings) -> Vec<String> {
    let tls = match &settings.tls {
        Some(tls) if tls.required => ", with TLS only",
        Some(_) => ", with TLS if the client wants it",
        None => "",
    };
    let tcp = settings.listen.iter();
    let tcp = tcp.map(|address| format!("on postgres://{address} for PostgreSQL clients{tls}"));
    let port = settings.unix_port();
    let unix = settings.unix_sockets.iter();
    let unix =
        unix.map(|dir| format!("on {}/.s.PGSQL.{port} for PostgreSQL clients", dir.display()));
    tcp.chain(unix).collect()
}

/// Who gets in, and by what.
pub fn users(settings: &Settings) -> Vec<String> {
    let mut lines = Vec::new();
    let names: Vec<&str> = settings.user.iter().map(|user| user.name.as_str()).collect();
    if !names.is_empty() {
        lines.push(format!("to PostgreSQL: {}", listed(&names)));
    }
    if let Some(query) = &settings.auth_query {
        let place = match query.database.as_str() {
            "" => "the client's own database".to_owned(),
            database => format!("database {database}"),
        };
        lines
            .push(format!("to PostgreSQL: whom a query in {place} knows, asked as {}", query.user));
    }
    if settings.auth.is_empty() {
        lines.push("to PostgreSQL: by password (SCRAM, or what the verifier is for)".to_owned());
    }
    lines.extend(settings.auth.iter().map(rule));
    let console = &settings.console;
    for (names, right) in [(&console.admin_users, "to command"), (&console.stats_users, "to look")]
    {
        if !names.is_empty() {
            let place = console.databases.first().map_or("weir", String::as_str);
            lines.push(format!("to the console {place}: {}, {right}", listed(names)));
        }
    }
    lines
}

fn rule(rule: &AuthRule) -> String {
    let everyone = |names: &[String]| names.iter().any(|name| name == "all");
    let mut text = String::from("to PostgreSQL: ");
    text += &if everyone(&rule.user) { "everyone".to_owned() } else { listed(&rule.user) };
    if !everyone(&rule.database) {
        text += &format!(" to {}", listed(&rule.database));
    }
    text += match rule.from {
        From::Any => "",
        From::Local => " by a Unix socket",
        From::Host => " by TCP",
        From::Hostssl => " by TLS",
        From::Hostnossl => " by TCP without TLS",
    };
    if !rule.address.is_empty() {
        let networks: Vec<String> = rule.address.iter().map(ToString::to_string).collect();
        text += &format!(" from {}", listed(&networks));
    }
    text + match rule.method {
        Method::Trust => ": believed",
        Method::Reject => ": refused",
        Method::Cert => ": by client certificate",
        Method::Peer => ": by their user of the system",
        Method::Password => ": by password in clear",
        Method::Md5 => ": by password (SCRAM or md5)",
        Method::ScramSha256 => ": by password (SCRAM)",
        Method::ScramSha256Plus => ": by password (SCRAM with channel binding)",
    }
}

/// What clients may connect to.
pub fn databases(settings: &Settings) -> Vec<String> {
    let mode = settings.mode.name();
    if settings.database.is_empty() {
        return vec![format!("every database that the servers have, in {mode} mode")];
    }
    let described = settings.database.iter().map(|database| {
        let mode = database.mode.map_or(mode, |mode| mode.name());
        let name = match database.name.as_str() {
            "*" => "every other database",
            name => name,
        };
        let there = match database.dbname.as_str() {
            "" => String::new(),
            there => format!(", there {there}"),
        };
        let user = match database.user.as_str() {
            "" => String::new(),
            user => format!(", as {user}"),
        };
        format!("{name}{there}{user}, in {mode} mode")
    });
    described.collect()
}

/// How many server connections there may be.
pub fn pools(settings: &Settings) -> Vec<String> {
    let (pool, lanes) = (&settings.pool, &settings.lanes);
    let mut line =
        format!("up to {} server connections for each database and user on each server", pool.size);
    if pool.max_per_backend > 0 {
        line += &format!(", {} in all", pool.max_per_backend);
    }
    let shared = if lanes.on {
        format!("proven reads of many clients on {} of them a worker", lanes.count)
    } else {
        "each for one client at a time: lanes.on = false".to_owned()
    };
    vec![line, shared]
}

/// The servers, each with its role.
pub fn backends(settings: &Settings) -> Vec<String> {
    let described = settings.backend.iter().map(|backend| {
        let role = match backend.role {
            Role::Auto => "for its role",
            Role::Primary => "as the primary",
            Role::Replica => "as a replica",
        };
        let BackendSettings { name, url, user, .. } = backend;
        format!("{name} at {url} {role}, as {user}")
    });
    described.collect()
}

fn listed<S: AsRef<str>>(names: &[S]) -> String {
    let shown = names.iter().take(NAMES_MAX).map(S::as_ref).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMES_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
