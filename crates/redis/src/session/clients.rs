//! `CLIENT`, of Weir's clients, whose numbers are those of the process.

use std::collections::HashSet;
use std::rc::Rc;
use std::time::{Duration, Instant};

use flow::service::Pause;
use wire::resp::{Command, put_bulk, put_error, put_integer, put_null, put_simple, put_verbatim};

use super::console::{clients, kill, set_pause};
use super::dispatch::{ClientCommand, refused, shortened};
use super::{Asking, CommandResult, Session};
use crate::commands::number;
use crate::console::rows::ClientRow;

/// Bytes of a name that a client has, or its library.
const TEXT_BYTES_MAX: usize = 4096;

/// Which clients are meant.
#[derive(Debug, Default, Clone)]
struct Filter {
    ids: Option<HashSet<u64>>,
    address: Option<String>,
    local_address: Option<String>,
    user: Option<String>,
    kind: Option<String>,
    /// Whoever asks is not meant.
    skips: Option<u64>,
    /// So many seconds old at least.
    age: Option<u64>,
    /// None are: there are none of that kind.
    none: bool,
}

impl Filter {
    fn meets(&self, of: &ClientRow) -> bool {
        let is = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|of| of == is);
        !self.none
            && self.ids.as_ref().is_none_or(|ids| ids.contains(&of.id))
            && is(&self.address, &of.address)
            && is(&self.local_address, &of.local_address)
            && is(&self.user, of.user.as_deref().unwrap_or_default())
            && is(&self.kind, of.kind())
            && self.skips != Some(of.id)
            && self.age.is_none_or(|age| of.age.as_secs() >= age)
    }

    fn of_kind(&mut self, kind: &str) -> CommandResult {
        match kind {
            "normal" | "pubsub" => self.kind = Some(kind.to_owned()),
            "master" | "replica" | "slave" => self.none = true,
            _ => return Err(format!("ERR Unknown client type '{}'", shortened(kind))),
        }
        Ok(())
    }
}

impl Session {
    pub(super) fn client(
        &mut self,
        what: ClientCommand,
        command: Command<'_>,
        client: &Asking,
    ) -> CommandResult {
        let argument = || command.get(2).unwrap_or_default();
        let mut out = Vec::new();
        match what {
            ClientCommand::Id => put_integer(&mut out, self.id()),
            ClientCommand::GetName if self.card.name.borrow().is_empty() => {
                put_null(&mut out, self.version);
            }
            ClientCommand::GetName => put_bulk(&mut out, &self.card.name.borrow()),
            ClientCommand::SetName => {
                check_name(argument())?;
                *self.card.name.borrow_mut() = argument().to_vec();
                put_simple(&mut out, b"OK");
            }
            ClientCommand::SetInfo => {
                self.set_info(argument(), command.get(3).unwrap_or_default())?;
                put_simple(&mut out, b"OK");
            }
            ClientCommand::Tracking => return self.track(&command, client),
            ClientCommand::TrackingInfo => self.put_tracking(&mut out),
            ClientCommand::GetRedir => self.put_redirect(&mut out),
            ClientCommand::Caching => return self.cache(argument(), client),
            ClientCommand::Info => {
                let row = self.front.row(&self.card, Some(client.figures()));
                put_verbatim(&mut out, &format!("{}\n", row.line()), self.version);
            }
            ClientCommand::Reply => self.reply(argument(), &mut out, client)?,
            ClientCommand::StaysOff if argument().eq_ignore_ascii_case(b"OFF") => {
                put_simple(&mut out, b"OK");
            }
            ClientCommand::StaysOff => {
                return Err(refused("CLIENT", &text(&command, 1).to_ascii_uppercase()));
            }
            ClientCommand::List => return self.list(&command, client),
            ClientCommand::Kill => return self.kill(&command, client),
            ClientCommand::Pause => return self.pause(&command, client),
            ClientCommand::Unblock => return self.unblock(&command, client),
            ClientCommand::Unpause => {
                self.set_pause(None, client);
                return Ok(());
            }
        }
        self.say(&out, client);
        Ok(())
    }

    /// What a client says of the library that it uses.
    fn set_info(&self, option: &[u8], value: &[u8]) -> CommandResult {
        let option = String::from_utf8_lossy(option);
        let mut library = self.card.library.borrow_mut();
        let (name, kept) = match &*option.to_ascii_lowercase() {
            "lib-name" => ("lib-name", &mut library.name),
            "lib-ver" => ("lib-ver", &mut library.version),
            _ => return Err(format!("ERR Unrecognized option '{}'", shortened(&option))),
        };
        check_length(value)?;
        if !is_one_word(value) {
            return Err(format!(
                "ERR {name} cannot contain spaces, newlines or special characters."
            ));
        }
        *kept = value.to_vec();
        Ok(())
    }

    /// Its number in the process.
    pub(super) fn id(&self) -> i64 {
        i64::try_from(self.card.id).unwrap_or(i64::MAX)
    }

    fn list(&self, command: &Command<'_>, client: &Asking) -> CommandResult {
        let mut filter = Filter::default();
        match (command.get(2).map(|word| word.to_ascii_uppercase()), command.len()) {
            (None, _) => {}
            (Some(word), 4) if word == b"TYPE" => {
                filter.of_kind(&text(command, 3).to_lowercase())?
            }
            (Some(word), 4..) if word == b"ID" => {
                let ids = (3..command.len()).map(|at| id(command, at));
                filter.ids = Some(ids.collect::<Result<_, _>>()?);
            }
            _ => return Err("ERR syntax error".to_owned()),
        }
        let version = self.version;
        self.ask_workers(client, move |front| async move {
            let all = clients(&front.shared).await;
            let lines = all.iter().filter(|of| filter.meets(of)).map(|of| of.line() + "\n");
            let mut out = Vec::new();
            put_verbatim(&mut out, &lines.collect::<String>(), version);
            out
        });
        Ok(())
    }

    fn kill(&self, command: &Command<'_>, client: &Asking) -> CommandResult {
        let own = self.card.id;
        let is_old_form = command.len() == 3;
        let filter = match is_old_form {
            true => Filter { address: Some(text(command, 2)), ..Filter::default() },
            false => self.filter(command)?,
        };
        let asking = Rc::downgrade(client);
        self.ask_workers(client, move |front| async move {
            let all = clients(&front.shared).await;
            let those = all.iter().filter(|of| filter.meets(of));
            let mut ids: HashSet<u64> = those.map(|of| of.id).collect();
            // Whoever asks has the answer before it goes.
            let is_meant = ids.remove(&own);
            let killed = kill(&front.shared, move |of| ids.contains(&of)).await;
            let killed = killed + i64::from(is_meant);
            if let Some(asking) = asking.upgrade().filter(|_| is_meant) {
                asking.part(Vec::new());
            }
            let mut out = Vec::new();
            match (is_old_form, killed) {
                (true, 0) => put_error(&mut out, "ERR No such client"),
                (true, _) => put_simple(&mut out, b"OK"),
                (false, killed) => put_integer(&mut out, killed),
            }
            out
        });
        Ok(())
    }

    fn filter(&self, command: &Command<'_>) -> Result<Filter, String> {
        let mut filter = Filter { skips: Some(self.card.id), ..Filter::default() };
        let mut at = 2;
        while at < command.len() {
            if at + 1 == command.len() {
                return Err("ERR syntax error".to_owned());
            }
            match &*text(command, at).to_uppercase() {
                "ID" => filter.ids = Some(HashSet::from([id(command, at + 1)?])),
                "ADDR" => filter.address = Some(text(command, at + 1)),
                "LADDR" => filter.local_address = Some(text(command, at + 1)),
                "USER" => filter.user = Some(text(command, at + 1)),
                "TYPE" => filter.of_kind(&text(command, at + 1).to_lowercase())?,
                "MAXAGE" => filter.age = Some(id(command, at + 1)?),
                "SKIPME" => match &*text(command, at + 1).to_lowercase() {
                    "yes" => filter.skips = Some(self.card.id),
                    "no" => filter.skips = None,
                    _ => return Err("ERR syntax error".to_owned()),
                },
                _ => return Err("ERR syntax error".to_owned()),
            }
            at += 2;
        }
        Ok(filter)
    }

    fn pause(&self, command: &Command<'_>, client: &Asking) -> CommandResult {
        let millis = command.get(2).and_then(number).and_then(|of| u64::try_from(of).ok());
        let Some(millis) = millis else {
            return Err("ERR timeout is not an integer or out of range".to_owned());
        };
        let writes_only = match command.get(3) {
            None => false,
            Some(mode) if mode.eq_ignore_ascii_case(b"ALL") => false,
            Some(mode) if mode.eq_ignore_ascii_case(b"WRITE") => true,
            Some(_) => return Err("ERR CLIENT PAUSE mode must be WRITE or ALL".to_owned()),
        };
        let until = Instant::now().checked_add(Duration::from_millis(millis));
        self.set_pause(Some(Pause { writes_only, until }), client);
        Ok(())
    }

    fn set_pause(&self, pause: Option<Pause>, client: &Asking) {
        self.ask_workers(client, move |front| async move {
            set_pause(&front.shared, pause).await;
            b"+OK\r\n".to_vec()
        });
    }
}

pub(super) fn check_name(name: &[u8]) -> CommandResult {
    check_length(name)?;
    match is_one_word(name) {
        true => Ok(()),
        false => {
            Err("ERR Client names cannot contain spaces, newlines or special characters.".into())
        }
    }
}

/// What a client says of itself is kept for as long as it is there.
fn check_length(text: &[u8]) -> CommandResult {
    match text.len() <= TEXT_BYTES_MAX {
        true => Ok(()),
        false => Err(format!("ERR weir: names have {TEXT_BYTES_MAX} bytes at most")),
    }
}

fn is_one_word(text: &[u8]) -> bool {
    text.iter().all(|byte| (b'!'..=b'~').contains(byte))
}

fn text(command: &Command<'_>, at: usize) -> String {
    String::from_utf8_lossy(command.get(at).unwrap_or_default()).into_owned()
}

fn id(command: &Command<'_>, at: usize) -> Result<u64, String> {
    let id = command.get(at).and_then(number).and_then(|id| u64::try_from(id).ok());
    id.filter(|id| *id > 0).ok_or_else(|| "ERR client-id should be greater than 0".to_owned())
}
