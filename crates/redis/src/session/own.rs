//! What Weir answers itself: who a client is, and what it is told of the server it sees.

use wire::resp::{Command, put_array, put_bulk, put_map, put_simple};

use super::dedicated::Dedicated;
use super::dispatch::{Change, OwnAnswer, is_before_login};
use super::{Asking, CommandResult, Session};
use crate::commands::{Do, OwnCommand, Spec, number};

/// Whether `MONITOR` shows it: what logs in, and what would change a server, may have secrets.
pub(super) fn is_shown(spec: &Spec) -> bool {
    let may_tell = matches!(spec.what, Do::Refused(_) | Do::Own(OwnCommand::Config));
    !is_before_login(spec) && !may_tell
}

impl Session {
    pub(super) fn answer(
        &mut self,
        answer: OwnAnswer,
        command: Command<'_>,
        client: &Asking,
    ) -> CommandResult {
        let word = || command.get(1).unwrap_or_default();
        let mut out = Vec::new();
        match answer {
            OwnAnswer::Auth => return self.auth(command, client),
            OwnAnswer::Client(what) => return self.client(what, command, client),
            OwnAnswer::ConfigGet => self.config_get(command, &mut out),
            OwnAnswer::Console => return self.console(command, client),
            OwnAnswer::Echo => put_bulk(&mut out, word()),
            OwnAnswer::Hello => return self.hello(command, client),
            OwnAnswer::Info => {
                self.info(&command, client);
                return Ok(());
            }
            OwnAnswer::Latency(what) => self.latency(what, command, &mut out),
            OwnAnswer::Monitor => {
                self.monitor(client);
                return Ok(());
            }
            OwnAnswer::Pong => put_simple(&mut out, b"PONG"),
            OwnAnswer::PongAsMessage => {
                put_array(&mut out, 2);
                put_bulk(&mut out, b"pong");
                put_bulk(&mut out, word());
            }
            OwnAnswer::Quit => {
                self.is_over = true;
                put_simple(&mut out, b"OK");
            }
            OwnAnswer::Reset => {
                self.reset(client);
                return Ok(());
            }
            OwnAnswer::Select => self.select(command, &mut out)?,
            OwnAnswer::Slowlog(what) => self.slowlog(what, command, &mut out)?,
        }
        self.say(&out, client);
        Ok(())
    }

    /// `RESET` is answered behind what the client is told until then: it speaks RESP2 from then on,
    /// in which it could not read that.
    fn reset(&mut self, client: &Asking) {
        self.hears_again(client);
        self.drive_alone(client, Dedicated::reset);
        let mut answer = Vec::new();
        put_simple(&mut answer, b"RESET");
        match self.subscribed.take() {
            None => self.say(&answer, client),
            Some(subscribed) => {
                client.apart(move |apart| subscribed.end(answer, apart));
                self.front.metrics.answered.inc();
            }
        }
        self.begin_anew(client);
    }

    fn select(&mut self, command: Command<'_>, out: &mut Vec<u8>) -> CommandResult {
        let wanted = command.get(1).and_then(number);
        let wanted =
            wanted.ok_or_else(|| "ERR value is not an integer or out of range".to_owned())?;
        let databases = self.front.in_force.load().databases;
        let wanted = u32::try_from(wanted).ok().filter(|wanted| *wanted < databases);
        let wanted = wanted.ok_or_else(|| "ERR DB index is out of range".to_owned())?;
        if wanted != self.database {
            self.standing().allows(Change::Database)?;
        }
        self.database = wanted;
        put_simple(out, b"OK");
        Ok(())
    }

    fn config_get(&self, command: Command<'_>, out: &mut Vec<u8>) {
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
    }
}
