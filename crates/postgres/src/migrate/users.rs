//! Users: `userlist.txt` and `[users]`.

use std::path::Path;

use super::Read;
use super::connection;
use super::gateway::mode_of;
use super::ini::Ini;
use super::keys::{self, To};
use crate::auth::read_user_list;
use units::draft::{Draft, text};

/// The longest name of a user in PostgreSQL.
const NAME_BYTES_MAX: usize = 63;

pub fn fill(ini: &Ini, read: Read<'_>, draft: &mut Draft) {
    let mut users = listed(ini, read, draft);
    let own = ini.section("users");
    for (name, _) in &own {
        if !users.iter().any(|(known, _)| known == name) {
            users.push(((*name).to_owned(), String::new()));
        }
    }
    let rules = ini.get("auth_type");
    let nobody = users.is_empty() && ini.get("auth_user").is_none_or(str::is_empty);
    if nobody && !matches!(rules, Some("trust" | "any" | "hba")) {
        let words = "There was no user that could be carried over; put in the real ones, with the \
                     verifiers of pg_authid.rolpassword.";
        draft.table("").note(words);
        draft.demand("[[postgres.user]]: put in the real users; there was none to carry over");
        users.push(("nobody".to_owned(), String::new()));
    }
    for (name, password) in users {
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            draft.leave(format!("user {name:?}: PostgreSQL can have no such user"));
            continue;
        }
        let element = draft.element("user");
        element.set("name", text(&name));
        if !password.is_empty() {
            element.set("password", text(&password));
        }
        if let Some((_, line)) = own.iter().find(|(of, _)| *of == name) {
            let left = settings(element, line);
            for (key, why) in left {
                draft.leave(format!("{key} of user {name}: {why}"));
            }
        }
    }
}

/// The password of a user in `auth_file`, where it stands there in clear: Weir can log in with it.
pub fn plain_password(ini: &Ini, read: Read<'_>, user: &str) -> Option<String> {
    let users = listed(ini, read, &mut super::draft(Path::new("")));
    let (_, password) = users.into_iter().find(|(name, _)| name == user)?;
    let plain = !password.is_empty() && !password.starts_with("SCRAM-SHA-256$");
    let md5 = password.len() == 35 && password.starts_with("md5");
    (plain && !md5).then_some(password)
}

/// The users of `auth_file`, each once, with the last password.
fn listed(ini: &Ini, read: Read<'_>, draft: &mut Draft) -> Vec<(String, String)> {
    let Some(file) = ini.get("auth_file").filter(|file| !file.is_empty()) else {
        return Vec::new();
    };
    let text = match read(&ini.place(Path::new(file), read)) {
        Ok(text) => text,
        Err(error) => {
            draft.demand(format!(
                "auth_file = {file} can't be read ({error}), so its users are missing: run this \
                 where it can be, or add them as [[postgres.user]]"
            ));
            return Vec::new();
        }
    };
    let mut users: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        // Whatever comes behind a broken line does not count, as in PgBouncer.
        let Ok(read) = read_user_list(line) else {
            draft.demand(format!(
                "auth_file = {file} has a line that can't be read; PgBouncer, too, reads it up to \
                 there, so the users behind it are missing"
            ));
            break;
        };
        for (name, password) in read {
            let password = String::from_utf8_lossy(password.expose()).into_owned();
            match users.iter_mut().find(|(known, _)| *known == name) {
                Some((_, known)) => *known = password,
                None => users.push((name, password)),
            }
        }
    }
    users
}

/// Writes a line of `[users]`; gives what is left over, with the reasons.
fn settings(element: &mut units::draft::Section, line: &str) -> Vec<(String, String)> {
    let Some(pairs) = connection::pairs(line) else {
        return vec![(line.to_owned(), "this is not a list of key=value".to_owned())];
    };
    let mut left = Vec::new();
    for (key, value) in pairs {
        let written = match keys::find(keys::USER, &key) {
            Some(To::Count(to)) => number(&value, to).map(|value| (to, value)),
            Some(To::Seconds(to)) => keys::seconds(&value).map(|value| (to, value)),
            Some(To::As(_)) => mode_of(&value).map(|(mode, _)| ("mode", text(mode))),
            Some(To::Nothing(why)) => {
                left.push((format!("{key}={value}"), why.to_owned()));
                continue;
            }
            Some(To::Words(_)) | None => None,
        };
        match written {
            Some((to, value)) => element.set(to, value),
            None => {
                left.push((format!("{key}={value}"), "PgBouncer can't read this".to_owned()));
            }
        }
    }
    left
}

/// A number that may stand for `key`.
pub fn number(value: &str, key: &str) -> Option<String> {
    let number: u64 = value.parse().ok()?;
    (number > 0 || key != "pool-size").then(|| number.to_string())
}
