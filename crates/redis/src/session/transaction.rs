//! `WATCH`, `MULTI` and `EXEC`, on a connection of the client's own: what the machine of
//! [`dedicated`](super::dedicated) wants is carried out here.

use std::rc::Rc;

use flow::service::{Affinity, Effect, Request, Route};
use wire::resp::{Command, put_command};

use super::dedicated::{Action, Dedicated, OwnRequest, Reply, RequestWords, TransactionStep};
use super::dispatch::StepEffect;
use super::{Asking, ListedCommand, Session, Taken};
use crate::commands::{self, Positions, TransactionCommand};
use crate::front::Home;
use crate::server::Place;

impl StepEffect {
    fn route(self) -> Route {
        Route::Own(if self == Self::Unknown { Affinity::Taint } else { Affinity::Step })
    }

    fn at_server(self) -> Effect {
        Effect::of_step(self != Self::Reads)
    }
}

/// The command that is under way, for what is asked as it came.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CommandAtHand<'a> {
    bytes: &'a [u8],
    /// Where its keys are.
    home: Option<Home>,
}

impl Session {
    /// What begins a transaction, ends it, or says which keys it depends on.
    pub(super) fn steps(
        &mut self,
        what: TransactionCommand,
        of: &ListedCommand<'_>,
        client: &Asking,
    ) -> Taken {
        let at_hand = CommandAtHand { bytes: of.command.bytes(), home: None };
        match what {
            TransactionCommand::Multi => self.drive(at_hand, client, |machine, out| {
                machine.begin(out);
                Ok(())
            }),
            TransactionCommand::Exec => self.execute(at_hand, client),
            TransactionCommand::Discard => self.drive(at_hand, client, |machine, out| {
                machine.discard(out);
                Ok(())
            }),
            TransactionCommand::Watch => {
                let home = self.only_home(of)?;
                let (place, mark) = (self.at(home.server), self.mark());
                let at_hand = CommandAtHand { home: Some(home), ..at_hand };
                self.drive(at_hand, client, |machine, out| machine.watch(place, mark, out))
            }
            TransactionCommand::Unwatch => self.drive(at_hand, client, |machine, out| {
                machine.unwatch(out);
                Ok(())
            }),
        }
    }

    /// Queues a command that may be a step of a transaction.
    pub(super) fn queue_step(
        &mut self,
        effect: StepEffect,
        command: Command<'_>,
        positions: &Positions,
        client: &Asking,
    ) -> Taken {
        let home = self.home_of(&command, positions)?;
        let home = home.or_else(|| self.front.only().map(Home::at));
        if let Some(home) = home {
            self.writes(home.server);
        }
        let place = home.map(|home| self.at(home.server));
        let step = TransactionStep { place, effect, bytes: command.bytes() };
        let at_hand = CommandAtHand { bytes: command.bytes(), home };
        self.drive(at_hand, client, |machine, out| machine.step(step, out))
    }

    fn execute(&mut self, at_hand: CommandAtHand<'_>, client: &Asking) -> Taken {
        let (front, account, place) =
            (Rc::clone(&self.front), Rc::clone(&self.account), self.place(0));
        let any = || {
            let place = Place { server: front.any_server(), ..place };
            front.fabric.service().number(&account, place)
        };
        self.drive(at_hand, client, |machine, out| machine.execute(any, out))
    }

    /// An `EXEC` that is none ends the transaction, as a server has it.
    pub(super) fn abort(&mut self, what: &str, client: &Asking) {
        self.leave_transaction(client);
        self.refuse(&format!("EXECABORT Transaction discarded because of: {what}"), client);
    }

    /// Ends a transaction without a word.
    pub(super) fn leave_transaction(&mut self, client: &Asking) {
        self.drive_alone(client, Dedicated::leave);
    }

    /// As [`drive`](Self::drive), of what no command has asked for.
    pub(super) fn drive_alone(
        &mut self,
        client: &Asking,
        input: impl FnOnce(&mut Dedicated, &mut Vec<Action>),
    ) {
        let _ = self.drive(CommandAtHand::default(), client, |machine, out| {
            input(machine, out);
            Ok(())
        });
    }

    /// Has the machine take something in, and does what comes out.
    fn drive(
        &mut self,
        at_hand: CommandAtHand<'_>,
        client: &Asking,
        input: impl FnOnce(&mut Dedicated, &mut Vec<Action>) -> Result<(), &'static str>,
    ) -> Taken {
        let mut actions = std::mem::take(&mut self.actions);
        let taken = input(&mut self.dedicated, &mut actions);
        actions.drain(..).for_each(|action| self.carry_out(action, at_hand, client));
        self.actions = actions;
        Ok(taken?)
    }

    /// Does what the machine wants.
    pub(super) fn carry_out(&self, action: Action, at_hand: CommandAtHand<'_>, client: &Asking) {
        match action {
            Action::Take(place) => client.take(place),
            Action::Release(place) => client.release(place),
            Action::Ask(of) => self.ask_own(of, at_hand, client),
            Action::Say(Reply::Ok) => self.say(b"+OK\r\n", client),
            Action::Say(Reply::Queued) => self.say(b"+QUEUED\r\n", client),
            Action::Say(Reply::NothingRun) => self.say(b"*0\r\n", client),
        }
    }

    /// Asks by the client's own connection.
    fn ask_own(&self, of: OwnRequest, at_hand: CommandAtHand<'_>, client: &Asking) {
        let at_place = |bytes: &[u8]| {
            let request = match at_hand.home {
                Some(home) => self.request(home, bytes),
                None => self.request_at(of.place, bytes),
            };
            Request { route: of.effect.route(), effect: of.effect.at_server(), ..request }
        };
        if !of.is_heard {
            client.hears_answers(false);
        }
        match (of.words, of.mark) {
            (RequestWords::Command, None) => client.ask(at_place(at_hand.bytes)),
            (RequestWords::Command, Some(mark)) => client.ask_noted(at_place(at_hand.bytes), mark),
            (RequestWords::Name(name), _) => {
                let mut bytes = Vec::new();
                put_command(&mut bytes, [name].iter());
                client.ask(at_place(&bytes));
            }
            (RequestWords::FromMulti(queued), _) => ask_from_multi(&at_place(&[]), queued, client),
        }
        if !of.is_heard {
            client.hears_answers(self.replies.are_heard());
        }
        self.front.metrics.leased.inc();
    }
}

/// Sends `MULTI` and what was queued, as this request; the answer is that to the last.
fn ask_from_multi(like: &Request, queued: Vec<Vec<u8>>, client: &Asking) {
    let own = |bytes: Vec<u8>| Request { bytes: bytes.into(), ..like.clone() };
    let mut multi = Vec::new();
    put_command(&mut multi, [b"MULTI"].iter());
    let mut parts: Vec<_> = std::iter::once(multi).chain(queued).map(own).collect();
    if let (Some(first), Some(number)) = (parts.first_mut(), number_of(b"MULTI")) {
        first.tag = number;
    }
    let last = |parts: &[Vec<u8>]| {
        // Without MULTI the others would have been run one by one.
        let begun = parts.first().filter(|first| first.first() == Some(&b'-'));
        begun.or_else(|| parts.last()).cloned().unwrap_or_default()
    };
    client.ask_parts(parts, Rc::new(last));
}

/// What a command is counted by.
fn number_of(name: &[u8]) -> Option<u32> {
    u32::try_from(commands::find_numbered(name)?.1).ok()
}
