//! What the values in `[influx.stamp]` stand for.

use wire::line::StampTag;

/// What the value of a stamped tag is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StampValue<'a> {
    /// The address of the client.
    Peer,
    /// The client's address and port.
    PeerPort,
    /// The name of the user that writes.
    User,
    /// The parameter of this name in the URL of the write.
    Parameter(&'a str),
    /// This text for all points.
    Fixed(&'a str),
}

/// Parameters of a write that are never stamped: they mean something already, and passwords are
/// nobody's tags.
const RESERVED: [&str; 10] =
    ["u", "p", "q", "db", "rp", "precision", "consistency", "bucket", "org", "epoch"];

impl<'a> StampValue<'a> {
    /// What a value stands for.
    pub fn of(text: &'a str) -> Self {
        match text {
            "peer" => Self::Peer,
            "peer-port" => Self::PeerPort,
            "user" => Self::User,
            _ => text.strip_prefix("parameter:").map_or(Self::Fixed(text), Self::Parameter),
        }
    }

    /// Checks an entry.
    ///
    /// # Errors
    /// Why `key` cannot be stamped with this.
    pub fn check(self, key: &str) -> Result<(), String> {
        let value = match self {
            Self::Parameter("") => {
                return Err("names no parameter; write \"parameter:injector\"".to_owned());
            }
            Self::Parameter(name) if RESERVED.contains(&name) => {
                return Err(format!("the parameter {name:?} has a meaning of its own"));
            }
            Self::Fixed(text) => text,
            // Each write has its own.
            Self::Peer | Self::PeerPort | Self::User | Self::Parameter(_) => "x",
        };
        StampTag::new(key, value).map(drop).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_for_what_they_are_called() {
        for (text, value) in [
            ("peer", StampValue::Peer),
            ("peer-port", StampValue::PeerPort),
            ("user", StampValue::User),
            ("parameter:run", StampValue::Parameter("run")),
            ("parameter", StampValue::Fixed("parameter")),
            ("rack 7", StampValue::Fixed("rack 7")),
        ] {
            assert_eq!(StampValue::of(text), value);
            assert_eq!(value.check("tag"), Ok(()), "{text}");
        }
        for (key, text) in [
            ("time", "user"),
            ("", "peer"),
            ("tag", ""),
            ("tag", "a\\b"),
            ("tag", "parameter:"),
            ("tag", "parameter:p"),
            ("tag", "parameter:db"),
        ] {
            assert!(StampValue::of(text).check(key).is_err(), "{key} {text}");
        }
    }
}
