//! What Weir answers itself: who a client is, and what it is told of the server it sees.

use flow::service::Client;
use wire::resp::{
    Command, Version, put_array, put_bulk, put_integer, put_map, put_null, put_simple,
};

use super::all::{refused, sub_command};
use super::{Asking, Session, Taken};
use crate::commands::{Spec, number};
use crate::front::Home;
use crate::servers::Servers;
use crate::users::{DEFAULT, Identity};

/// The version whose commands Weir knows: what clients are told.
const REDIS_VERSION: &str = "7.0.15";
/// Numbers of clients leave room for so many workers.
const WORKERS_MAX: u64 = 1024;
/// Commands that show or touch what is everybody's, of those that are served at all.
const DANGEROUS: [&str; 3] = ["FLUSHALL", "FLUSHDB", "KEYS"];

/// Whether a client may say this before it has logged in.
pub(super) fn is_before_login(spec: &Spec) -> bool {
    ["AUTH", "HELLO", "QUIT", "RESET"].contains(&spec.name)
}

/// Whether a client may use a command, which the operator may have kept for administrators.
pub(super) fn may(spec: &Spec, is_kept: bool, identity: Option<Identity>) -> Taken {
    if (is_kept || DANGEROUS.contains(&spec.name)) && !identity.is_some_and(|of| of.admin) {
        let name = spec.name;
        return Err(format!("NOPERM weir: {name} is for users with admin = true"));
    }
    Ok(())
}

impl Session {
    pub(super) fn answer(
        &mut self,
        spec: &'static Spec,
        command: Command<'_>,
        client: &Asking,
    ) -> Taken {
        let mut out = Vec::new();
        match spec.name {
            "PING" | "ECHO" => match (command.get(1), command.len()) {
                (_, 3..) => return Err(arity("ping")),
                (message, _) if spec.name == "PING" && self.is_in_subscribed_mode() => {
                    put_array(&mut out, 2);
                    put_bulk(&mut out, b"pong");
                    put_bulk(&mut out, message.unwrap_or_default());
                }
                (Some(message), _) => put_bulk(&mut out, message),
                (None, _) => put_simple(&mut out, b"PONG"),
            },
            "AUTH" => self.auth(command, &mut out)?,
            "HELLO" => self.hello(command, client, &mut out)?,
            "SELECT" => self.select(command, &mut out)?,
            "QUIT" => {
                self.is_over = true;
                return Ok(());
            }
            "RESET" => {
                self.leave_transaction(client);
                let (front, written) = (self.front.clone(), self.written.clone());
                *self = Self { written, ..Self::new(front) };
                put_simple(&mut out, b"RESET");
            }
            "CLIENT" => self.client(command, client, &mut out)?,
            "INFO" => put_bulk(&mut out, self.info().as_bytes()),
            "CONFIG" => self.config(command, &mut out)?,
            "COMMAND" => {
                let any = Home::at(self.front.any_server());
                self.ask_one(any, true, command, client);
                return Ok(());
            }
            _ => return Err("ERR This instance has cluster support disabled".to_owned()),
        }
        self.say(&out, client);
        Ok(())
    }

    fn auth(&mut self, command: Command<'_>, out: &mut Vec<u8>) -> Taken {
        let (name, password) = match (command.get(1), command.get(2)) {
            (Some(password), None) => (DEFAULT, password),
            (Some(name), Some(password)) if command.len() == 3 => (name, password),
            _ => return Err("ERR syntax error".to_owned()),
        };
        self.log_in(name, password)?;
        put_simple(out, b"OK");
        Ok(())
    }

    fn log_in(&mut self, name: &[u8], password: &[u8]) -> Taken {
        let in_force = self.front.in_force.load();
        if in_force.users.anonymous().is_some() {
            return Err("ERR AUTH <password> called without any password configured for the \
                        default user. Are you sure your configuration is correct?"
                .to_owned());
        }
        let Some(identity) = in_force.users.log_in(name, password) else {
            self.front.metrics.logins_refused.inc();
            return Err("WRONGPASS invalid username-password pair or user is disabled.".to_owned());
        };
        self.identity = Some(identity);
        Ok(())
    }

    fn hello(
        &mut self,
        command: Command<'_>,
        client: &Client<Servers>,
        out: &mut Vec<u8>,
    ) -> Taken {
        let wanted = match command.get(1).map(number) {
            None => self.version,
            Some(Some(2)) => Version::Two,
            Some(Some(3)) => Version::Three,
            Some(Some(_)) => return Err("NOPROTO unsupported protocol version".to_owned()),
            Some(None) => {
                return Err("ERR Protocol version is not an integer or out of range".to_owned());
            }
        };
        let (mut login, mut name, mut at) = (None, None, 2);
        while let Some(option) = command.get(at) {
            let is = |word: &[u8]| option.eq_ignore_ascii_case(word);
            match (command.get(at + 1), command.get(at + 2)) {
                (Some(user), Some(password)) if is(b"AUTH") => {
                    login = Some((user, password));
                    at += 3;
                }
                (Some(wanted), _) if is(b"SETNAME") => {
                    name = Some(wanted);
                    at += 2;
                }
                _ => {
                    let option = String::from_utf8_lossy(option);
                    let option = super::shortened(&option);
                    return Err(format!("ERR Syntax error in HELLO option '{option}'"));
                }
            }
        }
        if let Some(name) = name {
            check_name(name)?;
        }
        if let Some((user, password)) = login {
            self.log_in(user, password)?;
        }
        if self.identity.is_none() {
            return Err("NOAUTH HELLO must be called with the client already authenticated, \
                        otherwise the HELLO <proto> AUTH <user> <pass> option can be used to \
                        authenticate the client and select the RESP protocol version at the same \
                        time"
                .to_owned());
        }
        if wanted != self.version && !self.transaction.is_none() {
            return Err("ERR weir: HELLO cannot change the protocol while keys are watched".into());
        }
        self.version = wanted;
        if let Some(subscribed) = &self.subscribed {
            subscribed.speaks(wanted);
        }
        if let Some(name) = name {
            self.name = name.to_vec();
        }
        self.put_hello(client, out);
        Ok(())
    }

    fn put_hello(&self, client: &Client<Servers>, out: &mut Vec<u8>) {
        put_map(out, 7, self.version);
        let mut text = |key: &str, value: &str| {
            put_bulk(out, key.as_bytes());
            put_bulk(out, value.as_bytes());
        };
        text("server", "redis");
        text("version", REDIS_VERSION);
        put_bulk(out, b"proto");
        put_integer(out, if self.version == Version::Three { 3 } else { 2 });
        put_bulk(out, b"id");
        put_integer(out, self.id(client));
        let mut text = |key: &str, value: &str| {
            put_bulk(out, key.as_bytes());
            put_bulk(out, value.as_bytes());
        };
        text("mode", "standalone");
        text("role", "master");
        put_bulk(out, b"modules");
        put_array(out, 0);
    }

    /// A client's number, among those of all workers.
    fn id(&self, client: &Client<Servers>) -> i64 {
        let number = client.id() * WORKERS_MAX + self.front.worker as u64 + 1;
        i64::try_from(number).unwrap_or(i64::MAX)
    }

    fn select(&mut self, command: Command<'_>, out: &mut Vec<u8>) -> Taken {
        let wanted = command.get(1).and_then(number);
        let wanted =
            wanted.ok_or_else(|| "ERR value is not an integer or out of range".to_owned())?;
        let databases = self.front.in_force.load().databases;
        let wanted = u32::try_from(wanted).ok().filter(|wanted| *wanted < databases);
        let wanted = wanted.ok_or_else(|| "ERR DB index is out of range".to_owned())?;
        if wanted != self.database && !self.transaction.is_none() {
            return Err("ERR weir: SELECT is refused while keys are watched".to_owned());
        }
        self.database = wanted;
        put_simple(out, b"OK");
        Ok(())
    }

    fn client(&mut self, command: Command<'_>, client: &Asking, out: &mut Vec<u8>) -> Taken {
        let argument = || command.get(2).unwrap_or_default();
        let is = |word: &[u8]| argument().eq_ignore_ascii_case(word);
        match (&*sub_command(&command), command.len()) {
            ("ID", 2) => put_integer(out, self.id(client)),
            ("GETNAME", 2) if self.name.is_empty() => put_null(out, self.version),
            ("GETNAME", 2) => put_bulk(out, &self.name),
            ("SETNAME", 3) => {
                check_name(argument())?;
                self.name = argument().to_vec();
                put_simple(out, b"OK");
            }
            ("SETINFO", 4) => put_simple(out, b"OK"),
            ("INFO", 2) => {
                let version = if self.version == Version::Three { 3 } else { 2 };
                let name = String::from_utf8_lossy(&self.name);
                let (id, database) = (self.id(client), self.database);
                let line = format!("id={id} name={name} db={database} resp={version}\n");
                put_bulk(out, line.as_bytes());
            }
            ("REPLY", 3) if is(b"ON") => put_simple(out, b"OK"),
            ("TRACKING", 3) if is(b"OFF") => put_simple(out, b"OK"),
            ("NO-EVICT" | "NO-TOUCH", 3) if is(b"OFF") => put_simple(out, b"OK"),
            (sub, _) => return Err(refused("CLIENT", sub)),
        }
        Ok(())
    }

    fn info(&self) -> String {
        let servers = self.front.holders().len();
        format!(
            "# Server\r\nredis_version:{REDIS_VERSION}\r\nredis_mode:standalone\r\n\
             server_name:weir\r\nweir_version:{}\r\narch_bits:64\r\nweir_backends:{servers}\r\n\
             \r\n# Replication\r\nrole:master\r\nconnected_slaves:0\r\n\
             \r\n# Cluster\r\ncluster_enabled:0\r\n",
            env!("CARGO_PKG_VERSION")
        )
    }

    fn config(&self, command: Command<'_>, out: &mut Vec<u8>) -> Taken {
        if sub_command(&command) != "GET" || command.len() < 3 {
            return Err(refused("CONFIG", &sub_command(&command)));
        }
        let in_force = self.front.in_force.load();
        let known = [
            ("appendonly", "no".to_owned()),
            ("databases", in_force.databases.to_string()),
            ("proto-max-bulk-len", in_force.limits.bulk.to_string()),
            ("save", String::new()),
        ];
        let asked = |name: &str| {
            let is =
                |pattern: &[u8]| pattern == b"*" || pattern.eq_ignore_ascii_case(name.as_bytes());
            command.iter().skip(2).any(is)
        };
        let told: Vec<_> = known.iter().filter(|(name, _)| asked(name)).collect();
        put_map(out, told.len(), self.version);
        for (name, value) in told {
            put_bulk(out, name.as_bytes());
            put_bulk(out, value.as_bytes());
        }
        Ok(())
    }
}

fn arity(name: &str) -> String {
    format!("ERR wrong number of arguments for '{name}' command")
}

fn check_name(name: &[u8]) -> Taken {
    if name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        return Ok(());
    }
    Err("ERR Client names cannot contain spaces, newlines or special characters.".to_owned())
}
