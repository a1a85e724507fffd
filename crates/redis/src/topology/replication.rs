//! What a server says of its replication in `INFO`: who its replicas are, and whether a replica is
//! one that may be read.

use super::At;
use crate::info;

/// What a primary says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Primary {
    /// Of which stream its writes are.
    pub id: String,
    /// How far that is.
    pub offset: u64,
    /// Those who follow it.
    pub replicas: Vec<Listed>,
}

/// A replica, as its primary has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The address of the replica.
    pub at: At,
    /// How many seconds ago the primary has heard from it.
    pub lag: u64,
}

/// A replica that may be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readable {
    /// Of which stream the writes are that it has.
    pub id: String,
    /// Up to where it has them.
    pub offset: u64,
}

impl Primary {
    /// Reads the answer to `INFO replication`; `None` where it is none of a primary's.
    pub fn read(answer: &[u8]) -> Option<Self> {
        if info::field(answer, "role")? != "master" {
            return None;
        }
        let text = std::str::from_utf8(answer).ok()?;
        Some(Self {
            id: info::field(answer, "master_replid")?.to_owned(),
            offset: info::field(answer, "master_repl_offset")?.parse().ok()?,
            replicas: text.lines().filter_map(Listed::read).collect(),
        })
    }
}

impl Listed {
    /// Reads a line as `slave0:ip=10.0.0.2,port=6379,state=online,offset=1234,lag=0`.
    fn read(line: &str) -> Option<Self> {
        let (number, fields) = line.strip_prefix("slave")?.split_once(':')?;
        number.parse::<u32>().ok()?;
        let field = |name: &str| {
            let mut fields = fields.split(',').filter_map(|field| field.split_once('='));
            fields.find(|(key, _)| *key == name).map(|(_, value)| value)
        };
        let host = field("ip").filter(|host| !host.is_empty() && *host != "?")?;
        let port = field("port")?.parse().ok().filter(|port| *port > 0)?;
        let is_online = field("state") == Some("online");
        let at = At { host: Some(host.to_owned()), port };
        is_online.then_some(Self { at, lag: field("lag")?.parse().ok()? })
    }
}

impl Readable {
    /// Reads the answer to `INFO`.
    ///
    /// # Errors
    /// Why it is not to be read, in words.
    pub fn read(answer: &[u8]) -> Result<Self, &'static str> {
        let is = |field: &str, wanted: &str| info::field(answer, field) == Some(wanted);
        let id = info::field(answer, "master_replid").ok_or("it does not say what it follows")?;
        let offset =
            info::field(answer, "slave_repl_offset").and_then(|offset| offset.parse().ok());
        match () {
            // It keeps a file of the stream, and has no keys.
            () if info::field(answer, "weir_version").is_some() => Err("it is Weir itself"),
            () if !is("role", "slave") => Err("it is not a replica"),
            () if is("replica_announced", "0") => Err("it is not to be announced"),
            () if is("slave_read_only", "0") => Err("it takes writes of its own"),
            () if is("loading", "1") || is("master_sync_in_progress", "1") => Err("it is loading"),
            () => match offset {
                Some(offset) => Ok(Self { id: id.to_owned(), offset }),
                None => Err("it does not say how far it is"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PRIMARY: &str = "$1\r\n# Replication\r\nrole:master\r\nconnected_slaves:3\r\n\
        slave0:ip=10.0.0.2,port=6380,state=online,offset=98,lag=1\r\n\
        slave1:ip=::1,port=0,state=online,offset=0,lag=0\r\n\
        slave2:ip=10.0.0.3,port=6380,state=wait_bgsave,offset=0,lag=0\r\n\
        slave_foo:bar\r\nmaster_failover_state:no-failover\r\nmaster_replid:abc\r\n\
        master_repl_offset:100\r\n";
    const REPLICA: &str = "$1\r\nrole:slave\r\nmaster_link_status:up\r\nslave_repl_offset:97\r\n\
        slave_read_only:1\r\nreplica_announced:1\r\nmaster_replid:abc\r\n";

    #[test]
    fn a_primary_lists_those_who_follow_it() {
        let at = At { host: Some("10.0.0.2".to_owned()), port: 6380 };
        let replicas = vec![Listed { at, lag: 1 }];
        let wanted = Primary { id: "abc".to_owned(), offset: 100, replicas };
        assert_eq!(Primary::read(PRIMARY.as_bytes()), Some(wanted));
        for other in [REPLICA, "-NOPERM\r\n", "", "$1\r\nrole:master\r\n"] {
            assert_eq!(Primary::read(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn a_replica_is_read_that_has_the_keys_and_is_to_be_found() {
        let wanted = Readable { id: "abc".to_owned(), offset: 97 };
        assert_eq!(Readable::read(REPLICA.as_bytes()), Ok(wanted.clone()));
        // Redis before 6.2 does not know of it.
        let before = REPLICA.replace("replica_announced:1\r\n", "");
        assert_eq!(Readable::read(before.as_bytes()), Ok(wanted));
        for (was, is) in [
            ("role:slave", "role:master"),
            ("replica_announced:1", "replica_announced:0"),
            ("replica_announced:1", "weir_version:0.1.0"),
            ("slave_read_only:1", "slave_read_only:0"),
            ("slave_read_only:1", "loading:1"),
            ("slave_read_only:1", "master_sync_in_progress:1"),
            ("slave_repl_offset:97", "slave_repl_offset:-1"),
            ("master_replid:abc", "x:y"),
        ] {
            assert!(Readable::read(REPLICA.replace(was, is).as_bytes()).is_err(), "{is}");
        }
        assert!(Readable::read(b"-LOADING\r\n").is_err());
    }

    proptest! {
        #[test]
        fn no_answer_makes_it_panic(answer: String) {
            let _ = (Primary::read(answer.as_bytes()), Readable::read(answer.as_bytes()));
        }
    }
}
