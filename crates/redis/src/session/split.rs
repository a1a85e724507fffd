//! Commands whose keys may be on several servers: each gets its own, and the answers are joined.

use std::rc::Rc;

use hashbrown::HashMap;
use wire::resp::{Command, put_command};

use super::requests::Question;
use super::{Asking, CommandResult, ListedCommand, Session, join};
use crate::commands::{Positions, Spec, Split};
use crate::front::Home;

/// What a short word takes besides its bytes.
const ROOM: usize = 8;

/// What one server gets of a command.
struct SplitPart<'a> {
    home: Home,
    words: Vec<&'a [u8]>,
}

impl Session {
    pub(super) fn split(
        &mut self,
        how: Split,
        of: &ListedCommand<'_>,
        client: &Asking,
    ) -> CommandResult {
        let ListedCommand { spec, command, positions, .. } = *of;
        let reads = matches!(how, Split::Mget | Split::SumRead);
        let is_even = command.len() % 2 == 1;
        if how == Split::Mset && !is_even {
            return Err("ERR wrong number of arguments for 'mset' command".to_owned());
        }
        if let Ok(Some(home)) = self.home_of(&command, &positions) {
            match reads {
                true => self.ask_read(home, of, client),
                false => self.ask_one(home, false, command, client),
            }
            return Ok(());
        }
        let (parts, order) = self.parts(how, spec, &command, &positions);
        if !reads {
            parts.iter().for_each(|part| self.writes(part.home.server));
        }
        let servers = self.front.fabric.service();
        let name = |part: &SplitPart<'_>| servers.server_name(part.home.server).unwrap_or_default();
        let servers: Vec<String> = parts.iter().map(name).collect();
        let request = |part: &SplitPart<'_>| {
            let mut bytes =
                Vec::with_capacity(part.words.iter().map(|word| word.len() + ROOM).sum());
            put_command(&mut bytes, part.words.iter());
            match reads {
                true => self.read(part.home, of, bytes, client),
                false => self.request(part.home, bytes),
            }
        };
        let requests = parts.iter().map(request).collect();
        let joined = move |answers: &[Vec<u8>]| match how {
            Split::Mget => join::ordered(answers, &servers, &order),
            Split::Mset => join::first(answers, &servers),
            Split::Sum | Split::SumRead => join::sum(answers, &servers),
        };
        self.ask(Question::Parts(requests, Rc::new(joined)), None, client);
        self.front.metrics.split.inc();
        Ok(())
    }

    /// What each server gets, in a Cluster for each slot, and for each key which part it is in.
    fn parts<'a>(
        &self,
        how: Split,
        spec: &'static Spec,
        command: &Command<'a>,
        positions: &Positions,
    ) -> (Vec<SplitPart<'a>>, Vec<usize>) {
        let (mut parts, mut order): (Vec<SplitPart<'a>>, Vec<_>) = (Vec::new(), Vec::new());
        let mut numbers = HashMap::new();
        for at in positions.iter() {
            let key = command.get(at).unwrap_or_default();
            let home = self.front.home(key);
            let number = *numbers.entry(home).or_insert_with(|| {
                parts.push(SplitPart { home, words: vec![spec.name.as_bytes()] });
                parts.len() - 1
            });
            if let Some(part) = parts.get_mut(number) {
                order.push(number);
                part.words.push(key);
                if how == Split::Mset {
                    part.words.push(command.get(at + 1).unwrap_or_default());
                }
            }
        }
        (parts, order)
    }
}
