//! Who has to prove what: `auth_type`, the HBA file, `auth_query`.

use std::path::Path;

use super::Read;
use super::gateway::is_reachable;
use super::ini::Ini;
use super::users::plain_password;
use super::{connection, hba};
use crate::auth::hba::{Maps, read_maps};
use crate::settings::{From, Method};
use units::draft::{Draft, text, texts};

pub fn fill(ini: &Ini, read: Read<'_>, draft: &mut Draft) {
    let kind = ini.get("auth_type").filter(|kind| !kind.is_empty()).unwrap_or("md5");
    match kind {
        // What holds without any rule.
        "md5" => {}
        "scram-sha-256" => draft.element("auth").set("method", text("scram-sha-256")),
        "plain" => draft.element("auth").set("method", text("password")),
        "peer" => {
            let rule = draft.element("auth");
            rule.set("from", text("local"));
            rule.set("method", text("peer"));
        }
        "cert" => {
            let rule = draft.element("auth");
            rule.set("from", text("hostssl"));
            rule.set("method", text("cert"));
        }
        "trust" | "any" => trust(kind, ini, draft),
        "hba" => rules(ini, read, draft),
        other => draft.demand(format!(
            "auth_type = {other}: there is no such method here; clients log in by their passwords"
        )),
    }
    auth_query(ini, read, draft);
}

fn trust(kind: &str, ini: &Ini, draft: &mut Draft) {
    let rule = draft.element("auth");
    if is_reachable(ini) {
        let words = "PgBouncer believed whoever reached its port. Here only clients of this \
                     machine are; trust-strangers = true for the address goes on as before.";
        rule.note(words);
        rule.set("address", texts(&["127.0.0.0/8", "::1/128"]));
        rule.set("method", text("trust"));
        let local = draft.element("auth");
        local.set("from", text("local"));
        local.set("method", text("trust"));
    } else {
        rule.set("method", text("trust"));
    }
    if kind == "any" {
        draft.leave(
            "auth_type = any: a client stays the user that it says it is; with user in \
             [[postgres.database]] the server sees that one",
        );
    }
}

fn rules(ini: &Ini, read: Read<'_>, draft: &mut Draft) {
    let Some(file) = ini.get("auth_hba_file").filter(|file| !file.is_empty()) else {
        draft.demand("auth_type = hba: there is no auth_hba_file, so every client is refused");
        draft.element("auth").set("method", text("reject"));
        return;
    };
    let maps = maps(ini, read, draft);
    let (rules, broken) = match read(&ini.place(Path::new(file), read)) {
        Ok(text) => hba::rules(&text, &maps),
        Err(error) => {
            draft.demand(format!(
                "auth_hba_file = {file} can't be read ({error}), so every client is refused: run \
                 this where it can be, or write its rules as [[postgres.auth]]"
            ));
            draft.element("auth").set("method", text("reject"));
            return;
        }
    };
    for line in broken {
        draft.leave(format!("{file}: {line:?} is not a rule; PgBouncer passes over it as well"));
    }
    let tls = ini.get("client_tls_sslmode").is_some_and(|mode| mode != "disable");
    let authorities = ini.get("client_tls_ca_file").is_some_and(|file| !file.is_empty());
    for rule in rules {
        write(&rule, is_reachable(ini), tls && authorities, draft);
    }
}

/// The maps that `auth_ident_file` defines.
fn maps(ini: &Ini, read: Read<'_>, draft: &mut Draft) -> Maps {
    let Some(file) = ini.get("auth_ident_file").filter(|file| !file.is_empty()) else {
        return Maps::new();
    };
    match read(&ini.place(Path::new(file), read)) {
        Ok(text) => {
            let (maps, lost) = read_maps(&text);
            for line in lost {
                draft.leave(format!("{file}: {line:?} is a pattern, or no line of a map"));
            }
            maps
        }
        Err(error) => {
            draft.demand(format!(
                "auth_ident_file = {file} can't be read ({error}), so rules with a map reject"
            ));
            Maps::new()
        }
    }
}

/// Writes one rule, in a form that can be used here.
fn write(found: &hba::Rule, reachable: bool, certificates: bool, draft: &mut Draft) {
    let element = draft.element("auth");
    element.note(&found.line);
    let rule = &found.rule;
    let mut lost = found.lost.clone();
    if (rule.method == Method::Cert || rule.client_certificate.is_some()) && !certificates {
        lost = Some("it needs client_tls_ca_file and TLS".to_owned());
    }
    if rule.method == Method::Trust && reachable && !rule.is_of_this_machine() {
        lost = Some(
            "it believes clients of other machines; method = \"trust\" with trust-strangers = \
             true does so here"
                .to_owned(),
        );
    }
    let method = if lost.is_some() { Method::Reject } else { rule.method };
    if let Some(why) = lost {
        element.note(&format!("This can't be carried over: {why}. It rejects."));
    }
    element.set(
        "from",
        text(match rule.from {
            // A certificate can only be shown under TLS, so nothing else fits.
            From::Host if method == Method::Cert => "hostssl",
            From::Any => "any",
            From::Local => "local",
            From::Host => "host",
            From::Hostssl => "hostssl",
            From::Hostnossl => "hostnossl",
        }),
    );
    for (key, names) in [("database", &rule.database), ("user", &rule.user)] {
        if *names != ["all"] {
            element.set(key, texts(names));
        }
    }
    if !rule.address.is_empty() {
        let networks: Vec<String> = rule.address.iter().map(ToString::to_string).collect();
        element.set("address", texts(&networks));
    }
    element.set("method", text(method.name()));
    if method != Method::Reject {
        if let Some(wanted) = rule.client_certificate {
            element.set("client-certificate", text(wanted.name()));
        }
        if !rule.map.is_empty() {
            element.set_lists("map", &rule.map);
        }
    }
}

/// What PgBouncer asks where nothing is said, now and in older versions.
const OWN_QUERIES: [&str; 3] = [
    "SELECT usename, passwd FROM pg_shadow WHERE usename=$1",
    "SELECT rolname, CASE WHEN rolvaliduntil < now() THEN NULL ELSE rolpassword END \
     FROM pg_authid WHERE rolname=$1 AND rolcanlogin",
    "SELECT rolname, CASE WHEN rolvaliduntil < pg_catalog.now() THEN NULL ELSE rolpassword END \
     FROM pg_authid WHERE rolname=$1 AND rolcanlogin",
];

/// A value of `[pgbouncer]`, or the one that every database with one says.
fn of_all(ini: &Ini, key: &str, draft: &mut Draft) -> Option<String> {
    let global = ini.get(key).filter(|value| !value.is_empty()).map(str::to_owned);
    let mut found = global.clone();
    for (name, line) in ini.section("databases") {
        let pairs = connection::pairs(line).unwrap_or_default();
        let own = pairs.into_iter().rev().find(|(of, _)| of == key).map(|(_, value)| value);
        match (own, &found) {
            (Some(own), None) => found = Some(own),
            (Some(own), Some(known)) if own != *known => draft.leave(format!(
                "{key}={own} of database {name}: there is one [postgres.auth-query] for all"
            )),
            _ => {}
        }
    }
    found
}

fn auth_query(ini: &Ini, read: Read<'_>, draft: &mut Draft) {
    let query = of_all(ini, "auth_query", draft);
    let database = of_all(ini, "auth_dbname", draft);
    let Some(user) = of_all(ini, "auth_user", draft) else {
        return;
    };
    let table = draft.table("auth-query");
    table.set("user", text(&user));
    match plain_password(ini, read, &user) {
        Some(password) => table.set("password", text(&password)),
        None => {
            table.note("PgBouncer did not need to know its password in clear; write password.");
            draft.demand(format!(
                "[postgres.auth-query]: write the password of {user}, which is not in auth_file in \
                 clear"
            ));
        }
    }
    let table = draft.table("auth-query");
    if let Some(database) = database {
        table.set("database", text(&database));
    }
    let plain = |query: &str| query.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some(query) = query
        && !OWN_QUERIES.contains(&plain(&query).as_str())
    {
        if query.contains("$1") {
            table.note(
                "It runs with search_path at pg_catalog alone: name functions with their schema.",
            );
            table.set("query", text(&query));
        } else {
            draft.leave(format!("auth_query = {query}: there is no $1 in it"));
        }
    }
}
