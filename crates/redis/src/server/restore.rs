//! Making a connection that one client had everybody's again.

use wire::resp::{Value, Version, put_command, value};

use super::login::refusal;
use super::{Connection, ConnectionProfile, Credentials, Server};
use crate::users::DEFAULT;

impl Server {
    /// Undoes what a client may have left; false where the server does not show that it is undone.
    pub async fn restore(&self, place: ConnectionProfile, connection: &mut Connection) -> bool {
        // A server remembers what a connection has read while it tracked: it would tell whoever
        // tracks by it next, and nothing says that it has forgotten.
        if place.tracks {
            return false;
        }
        let mut out = Vec::new();
        put_command(&mut out, ["RESET"].iter());
        let count = self.put_login(&mut out, place);
        put_command(&mut out, ["CLIENT", "INFO"].iter());
        let Ok(replies) = connection.ask(&out, count + 2).await else { return false };
        let info = replies.last().and_then(|reply| value(reply).ok());
        let info = match info {
            Some((Value::Bulk(text) | Value::Verbatim(text), _)) => text,
            _ => return false,
        };
        let refused = refusal(&replies).filter(|words| !self.is_let_in(place, words));
        refused.is_none() && self.is_as_new(place, info)
    }

    /// Whether a line of `CLIENT INFO` is that of a connection that was just opened.
    fn is_as_new(&self, place: ConnectionProfile, info: &[u8]) -> bool {
        let text = String::from_utf8_lossy(info);
        let text = text.strip_prefix("txt:").unwrap_or(&text);
        let field = |name: &str| {
            let mut fields = text.split_ascii_whitespace().filter_map(|all| all.split_once('='));
            fields.find(|(key, _)| *key == name).map(|(_, value)| value)
        };
        let is = |name: &str, wanted: &str| field(name) == Some(wanted);
        // A server that does not know a field can not have what it tells of.
        let is_or_unknown = |name: &str, wanted: &str| field(name).is_none_or(|of| of == wanted);
        let user = String::from_utf8_lossy(self.login.as_ref().map_or(DEFAULT, Credentials::name));
        let version = if place.version == Version::Three { "3" } else { "2" };
        is("flags", "N")
            && is("db", &place.database.to_string())
            && is("sub", "0")
            && is("psub", "0")
            && is_or_unknown("ssub", "0")
            && is("multi", "-1")
            && is_or_unknown("watch", "0")
            && is_or_unknown("resp", version)
            && is_or_unknown("redir", "-1")
            && is("name", "")
            && is("user", &user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::BackendSettings;

    const NEW: &str = "id=3 addr=127.0.0.1:1 laddr=127.0.0.1:2 fd=8 name= age=0 idle=0 flags=N \
                       db=2 sub=0 psub=0 ssub=0 multi=-1 watch=0 redir=-1 user=default resp=3";

    #[test]
    fn only_a_connection_that_is_as_new_is_shared_again() {
        let settings: BackendSettings =
            toml::from_str("name = \"a\"\nurl = \"redis://127.0.0.1\"").unwrap();
        let server = Server::new(&settings).unwrap();
        let place =
            ConnectionProfile { database: 2, version: Version::Three, ..ConnectionProfile::FIRST };
        let is_as_new = |info: &str| server.is_as_new(place, info.as_bytes());
        assert!(is_as_new(NEW) && is_as_new(&format!("txt:{NEW}\n")));
        for (was, is) in [
            ("flags=N", "flags=t"),
            ("db=2", "db=0"),
            (" sub=0", " sub=1"),
            ("psub=0", "psub=1"),
            ("ssub=0", "ssub=1"),
            ("multi=-1", "multi=0"),
            ("watch=0", "watch=1"),
            ("redir=-1", "redir=7"),
            ("user=default", "user=ann"),
            ("resp=3", "resp=2"),
            ("name=", "name=x"),
            ("flags=N", ""),
            ("user=default", ""),
        ] {
            assert!(!is_as_new(&NEW.replace(was, is)), "{was} {is}");
        }
        assert!(is_as_new(&NEW.replace("watch=0 ", "")), "Redis 7.0 does not tell of it");
        assert!(!is_as_new(""));
    }
}
