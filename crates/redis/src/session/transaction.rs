//! `WATCH`, `MULTI` and `EXEC`, on a connection of the client's own: what the machine of
//! [`dedicated`](super::dedicated) wants is carried out here.

use std::rc::Rc;

use flow::service::{Affinity, Effect, Request, Route};
use wire::resp::{Command, put_command};

use super::dedicated::{
    Action, Bond, Closing, Dedicated, OwnQuestion, OwnRequest, Reply, RequestWords, TransactionStep,
};
use super::dispatch::StepEffect;
use super::requests::Question;
use super::tracking::{agreed, tag_of_client};
use super::{Asking, CommandResult, ListedCommand, Session};
use crate::commands::{self, Positions, TransactionCommand};
use crate::front::Home;
use crate::server::ConnectionProfile;

impl Bond {
    /// By which connection a request goes that would go by this one else.
    fn route(self, else_by: Route) -> Route {
        match self {
            Self::Step(StepEffect::Unknown) => Route::Own(Affinity::Taint),
            Self::Step(_) => Route::Own(Affinity::Step),
            Self::None => else_by.own(),
            Self::Waits => Route::OwnWaiting(Affinity::Free),
            Self::WaitsAmidWatch => Route::OwnWaiting(Affinity::Step),
        }
    }

    /// What a request does to its server that would do this else.
    fn effect(self, else_it: Effect) -> Effect {
        match self {
            Self::Step(effect) => Effect::of_step(effect != StepEffect::Reads),
            Self::None | Self::Waits | Self::WaitsAmidWatch => else_it,
        }
    }
}

/// What is asked where the machine has the command under way asked.
#[derive(Default)]
pub(super) enum AtHand<'a> {
    /// Nothing is: no command has asked for it.
    #[default]
    Nothing,
    /// The command as it came.
    Command {
        bytes: &'a [u8],
        /// Where its keys are.
        home: Option<Home>,
    },
    /// What was made of it.
    Question(Question),
}

impl<'a> AtHand<'a> {
    /// A command that has no keys, or of which it does not matter where they are.
    pub(super) fn command(bytes: &'a [u8]) -> Self {
        Self::Command { bytes, home: None }
    }

    fn home(&self) -> Option<Home> {
        match self {
            Self::Command { home, .. } => *home,
            Self::Nothing | Self::Question(_) => None,
        }
    }

    /// What is asked, whose requests are made by `request`.
    fn question(&mut self, request: impl FnOnce(&[u8]) -> Request) -> Option<Question> {
        match std::mem::take(self) {
            Self::Nothing => None,
            Self::Command { bytes, .. } => Some(Question::Whole(request(bytes))),
            Self::Question(what) => Some(what),
        }
    }
}

impl Session {
    /// What begins a transaction, ends it, or says which keys it depends on.
    pub(super) fn steps(
        &mut self,
        what: TransactionCommand,
        of: &ListedCommand<'_>,
        client: &Asking,
    ) -> CommandResult {
        let bytes = of.command.bytes();
        let at_hand = AtHand::command(bytes);
        match what {
            TransactionCommand::Multi => self.drive(at_hand, client, |machine, out| {
                machine.begin(out);
                Ok::<(), &str>(())
            }),
            TransactionCommand::Exec => self.execute(at_hand, client),
            TransactionCommand::Discard => self.drive(at_hand, client, |machine, out| {
                machine.discard(out);
                Ok::<(), &str>(())
            }),
            TransactionCommand::Watch => {
                let home = self.only_home(of)?;
                let (place, mark) = (self.at(home.server), self.mark());
                let at_hand = AtHand::Command { bytes, home: Some(home) };
                self.drive(at_hand, client, |machine, out| machine.watch(place, mark, out))
            }
            TransactionCommand::Unwatch => self.drive(at_hand, client, |machine, out| {
                machine.unwatch(out);
                Ok::<(), &str>(())
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
    ) -> CommandResult {
        let home = self.home_of(&command, positions)?;
        let home = home.or_else(|| self.front.only().map(Home::at));
        if let Some(home) = home {
            self.writes(home.server);
        }
        let place = home.map(|home| self.at(home.server));
        let step = TransactionStep { place, effect, bytes: command.bytes() };
        let at_hand = AtHand::Command { bytes: command.bytes(), home };
        self.drive(at_hand, client, |machine, out| machine.step(step, out))
    }

    fn execute(&mut self, at_hand: AtHand<'_>, client: &Asking) -> CommandResult {
        let (front, account, place) =
            (Rc::clone(&self.front), Rc::clone(&self.account), self.place(0));
        let any = || {
            let place = ConnectionProfile { server: front.any_server(), ..place };
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
        self.drive_alone(client, Dedicated::leave_transaction);
    }

    /// As [`drive`](Self::drive), of what no command has asked for.
    pub(super) fn drive_alone(
        &mut self,
        client: &Asking,
        input: impl FnOnce(&mut Dedicated, &mut Vec<Action>),
    ) {
        let _ = self.drive(AtHand::Nothing, client, |machine, out| {
            input(machine, out);
            Ok::<(), &str>(())
        });
    }

    /// Has the machine take something in, and does what comes out.
    pub(super) fn drive<E: Into<String>>(
        &mut self,
        mut at_hand: AtHand<'_>,
        client: &Asking,
        input: impl FnOnce(&mut Dedicated, &mut Vec<Action>) -> Result<(), E>,
    ) -> CommandResult {
        let mut actions = std::mem::take(&mut self.actions);
        let taken = input(&mut self.dedicated, &mut actions);
        actions.drain(..).for_each(|action| self.carry_out(action, &mut at_hand, client));
        self.actions = actions;
        taken.map_err(Into::into)
    }

    /// Does what the machine wants.
    fn carry_out(&mut self, action: Action, at_hand: &mut AtHand<'_>, client: &Asking) {
        match action {
            Action::Take(place) => client.take(place),
            Action::Release(place) => client.release(place),
            Action::Ask(of) => {
                self.ask_own(of, at_hand, client);
                self.front.metrics.leased.inc();
            }
            Action::AskAll(of) => {
                self.ask_all_own(of, at_hand, client);
                self.front.metrics.leased.inc();
            }
            Action::Say(Reply::Ok) => self.say(b"+OK\r\n", client),
            Action::Say(Reply::Queued) => self.say(b"+QUEUED\r\n", client),
            Action::Say(Reply::NothingRun) => self.say(b"*0\r\n", client),
            Action::Close(Closing::TrackingLost) => self.front.lose_tracking(client.id()),
            Action::Close(Closing::Refused(words)) => client.part(words),
        }
    }

    /// Asks by the client's own connection.
    pub(super) fn ask_own(&mut self, of: OwnRequest, at_hand: &mut AtHand<'_>, client: &Asking) {
        let home = at_hand.home();
        let at_place = |bytes: &[u8]| match home {
            Some(home) => self.request(home, bytes),
            None => self.request_at(of.place, bytes),
        };
        let what = match of.words {
            RequestWords::Command => at_hand.question(at_place),
            RequestWords::Name(name) => {
                let mut bytes = Vec::new();
                put_command(&mut bytes, [name].iter());
                Some(Question::Whole(at_place(&bytes)))
            }
            RequestWords::Whole(bytes) => {
                Some(Question::Whole(Request { tag: tag_of_client(), ..at_place(&bytes) }))
            }
            RequestWords::FromMulti(queued) => Some(from_multi(&at_place(&[]), queued)),
        };
        let Some(what) = what else { return };
        let what = what.map(|request| {
            request.route = of.bond.route(request.route);
            request.effect = of.bond.effect(request.effect);
        });
        self.ask_if_heard(of.is_heard, what, of.mark, client);
    }

    /// Asks all servers by the connections that keys are tracked by.
    fn ask_all_own(&mut self, of: OwnQuestion, at_hand: &AtHand<'_>, client: &Asking) {
        let bytes: Rc<[u8]> = match (of.words, at_hand) {
            (RequestWords::Whole(bytes), _) => bytes.into(),
            (_, AtHand::Command { bytes, .. }) => (*bytes).into(),
            _ => return,
        };
        let request = |place: &usize| {
            let request = self.request_at(*place, Rc::clone(&bytes));
            Request { route: request.route.own(), ..request }
        };
        let parts = of.places.iter().map(request).collect();
        self.ask_if_heard(of.is_heard, Question::Parts(parts, Rc::new(agreed)), of.mark, client);
    }

    fn ask_if_heard(&mut self, is_heard: bool, what: Question, mark: Option<u64>, client: &Asking) {
        let hears = !client.hears_no_answers();
        client.hears_answers(hears && is_heard);
        self.ask(what, mark, client);
        client.hears_answers(hears);
    }
}

/// `MULTI` and what was queued, as this request; the answer is that to the last.
fn from_multi(like: &Request, queued: Vec<Vec<u8>>) -> Question {
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
    Question::Parts(parts, Rc::new(last))
}

/// What a command is counted by.
fn number_of(name: &[u8]) -> Option<u32> {
    u32::try_from(commands::find_numbered(name)?.1).ok()
}
