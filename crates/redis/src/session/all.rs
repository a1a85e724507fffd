//! Commands for all servers.

use std::rc::Rc;

use flow::service::{Effect, Request};
use wire::resp::{Command, put_command};

use super::dispatch::ManagingCommand;
use super::requests::Question;
use super::{Asking, CommandResult, Session, join};
use crate::commands::{self, All};
use crate::front::Home;

/// More than a Cluster has: what the cursor of `SCAN` counts its nodes by.
const NODES_MAX: usize = 1024;

type Join = fn(&[Vec<u8>], &[String]) -> Vec<u8>;

impl Session {
    /// Asks all servers the same.
    pub(super) fn ask_all(&mut self, how: All, command: Command<'_>, client: &Asking) {
        let (reads, joined): (bool, Join) = match how {
            All::Sum => (true, join::sum),
            All::Concat => (true, join::concatenated),
            All::Ok => (false, join::first),
            All::Key => (true, join::any_key),
        };
        self.each(reads, command, joined, client);
    }

    pub(super) fn each(
        &mut self,
        reads: bool,
        command: Command<'_>,
        joined: Join,
        client: &Asking,
    ) {
        if let Some(only) = self.front.only() {
            return self.ask_one(Home::at(only), reads, command, client);
        }
        let all = self.front.holders();
        if !reads {
            all.iter().for_each(|server| self.writes(*server));
        }
        let service = self.front.fabric.service();
        let names = all.iter().filter_map(|server| service.server_name(*server));
        let servers: Rc<Servers> = Rc::new(names.collect());
        let bytes: Rc<[u8]> = command.bytes().into();
        let is_judged = self.is_judged(&command);
        let request = |server: usize| {
            let request = self.request_at(self.at(server), Rc::clone(&bytes));
            let judge = if is_judged { request.judge.by_service() } else { request.judge };
            Request { effect: Effect::of_read(reads), judge, ..request }
        };
        let requests = all.into_iter().map(request).collect();
        let join = Rc::new(move |answers: &[Vec<u8>]| joined(answers, &servers));
        self.ask(Question::Parts(requests, join), None, client);
        self.front.metrics.split.inc();
    }

    pub(super) fn scan(&mut self, command: Command<'_>, client: &Asking) -> CommandResult {
        let holders = self.front.holders();
        // The nodes of a Cluster come and go while a client goes through its keys.
        let count = if self.front.is_cluster() { NODES_MAX } else { holders.len() };
        if count == 1 {
            self.ask_one(Home::at(holders[0]), true, command, client);
            return Ok(());
        }
        let cursor = command.get(1).and_then(commands::number);
        let cursor = cursor.and_then(|cursor| u64::try_from(cursor).ok());
        let cursor = cursor.ok_or_else(|| "ERR invalid cursor".to_owned())?;
        let (at, own) = ((cursor % count as u64) as usize, (cursor / count as u64).to_string());
        let mut bytes = Vec::new();
        let words = command.iter().enumerate();
        let words: Vec<&[u8]> =
            words.map(|(at, word)| if at == 1 { own.as_bytes() } else { word }).collect();
        put_command(&mut bytes, words.iter());
        let Some(place) = holders.get(at).map(|server| self.at(*server)) else {
            client.answer(b"*2\r\n$1\r\n0\r\n*0\r\n");
            return Ok(());
        };
        let name = self.front.fabric.service().name(place);
        let is_last = at + 1 == holders.len();
        let joined = move |parts: &[Vec<u8>]| {
            let part: &[u8] = parts.first().map_or(&[], Vec::as_slice);
            join::scanned(part, &name, (at, count), is_last)
        };
        let request = Request { effect: Effect::Repeats, ..self.request_at(place, bytes) };
        self.ask(Question::Parts(vec![request], Rc::new(joined)), None, client);
        self.front.metrics.split.inc();
        Ok(())
    }

    /// `SCRIPT` or `FUNCTION`, by its sub-command.
    pub(super) fn manage(&mut self, what: ManagingCommand, command: Command<'_>, client: &Asking) {
        match what {
            ManagingCommand::Changes => self.each(false, command, join::first, client),
            ManagingCommand::AsksAll => self.each(true, command, join::in_all, client),
            ManagingCommand::AsksForRunning => self.each(true, command, join::running, client),
            ManagingCommand::AsksOne => {
                self.ask_one(Home::at(self.front.any_server()), true, command, client);
            }
            ManagingCommand::KillsScript => self.kill_scripts(["SCRIPT", "KILL"], client),
            ManagingCommand::KillsFunction => self.kill_scripts(["FUNCTION", "KILL"], client),
        }
    }
}

impl Session {
    /// Has the servers end what runs there, each by a connection of its own: all others wait for
    /// that very script.
    fn kill_scripts(&self, words: [&'static str; 2], client: &Asking) {
        self.ask_workers(client, move |front| async move {
            let mut first = None;
            for server in front.fabric.service().view().with_keys() {
                let answer = match server.ask_apart(&words).await {
                    Ok(answer) => answer,
                    Err(error) => join::error(&format!("ERR weir: {}: {error}", server.name)),
                };
                if answer.starts_with(b"+") {
                    return answer;
                }
                first.get_or_insert(answer);
            }
            first.unwrap_or_default()
        });
    }
}

type Servers = Vec<String>;
