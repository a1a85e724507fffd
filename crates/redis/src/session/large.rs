//! Commands that end with a large value go to their server as they come.

use flow::service::{Affinity, Request, Route};
use wire::resp::{Command, Commands};

use super::dispatch::{CommandFacts, may_stream};
use super::requests::Question;
use super::transaction::AtHand;
use super::{Asking, Session};
use crate::commands::{self, Spec};

/// From so many bytes on a command that ends with a large value is not kept until it is whole, and
/// one that ends otherwise keeps nobody waiting.
pub(super) const LARGE: u64 = 256 << 10;

impl Session {
    /// Sends a request by a lane, or by a connection for it alone where it would keep others
    /// waiting.
    pub(super) fn send(&mut self, mut request: Request, is_large: bool, client: &Asking) {
        if is_large {
            if client.has_room_for(&mut request) {
                self.ask_alone(request.server, Question::Whole(request), client);
            }
        } else {
            self.ask(Question::Whole(request), None, client);
            self.front.metrics.ridden.inc();
        }
    }

    /// Asks by a connection for this alone, unless the client has one there.
    fn ask_alone(&mut self, place: usize, what: Question, client: &Asking) {
        let _ = self.drive(AtHand::Question(what), client, |machine, out| {
            machine.ask_alone(place, out);
            Ok::<(), &str>(())
        });
    }

    /// Whether the value of a key is known to be larger than a client may leave unread: of such an
    /// answer no more is read than the client takes.
    #[inline]
    pub(super) fn is_too_large(&self, command: &Command<'_>) -> bool {
        let most = || self.front.fabric.settings().spill as u64;
        command.get(1).is_some_and(|key| self.front.desk.samples.is_bigger(key, most))
    }

    /// Sends the beginning of a command on its way whose last argument is still coming, and is
    /// large. Gives how many bytes of it were taken: all, or none.
    pub(super) fn begin_large(
        &mut self,
        commands: &Commands,
        bytes: &[u8],
        client: &Asking,
    ) -> usize {
        self.beginning(commands, bytes).map_or(0, |(spec, number, begun, rest)| {
            let key = begun.get(1).unwrap_or_default();
            self.number = number;
            self.is_seen(spec, &begun);
            self.front.desk.samples.pass(|| Some(key));
            let home = self.front.home(key);
            self.dedicated.begin_command(false);
            self.writes(home.server);
            // Its bytes are gone when it is answered, so it is not asked again.
            let request = self.request(home, bytes);
            let request = Request { route: Route::Own(Affinity::Step), ..request };
            self.ask_alone(request.server, Question::Streamed(request, rest), client);
            bytes.len()
        })
    }

    /// Which command it is, its number, what of it has come, and how much of it is to come.
    fn beginning<'a>(
        &self,
        commands: &'a Commands,
        bytes: &'a [u8],
    ) -> Option<(&'static Spec, usize, Command<'a>, u64)> {
        let coming = commands.coming(bytes)?;
        let total = coming.total.filter(|total| *total >= LARGE)?;
        let (spec, number) = commands::find_numbered(coming.command.get(0)?)?;
        let key = coming.command.get(1)?;
        let rest = total.checked_sub(bytes.len() as u64).filter(|rest| *rest > 0)?;
        self.front.look();
        let fleet = &self.front.shared.fleet;
        let is_taken_away = fleet.is_taken(number, || vec![self.front.home(key).server]);
        let command = &coming.command;
        let facts = CommandFacts { spec: Some(spec), command, is_for_admins: false, is_taken_away };
        let goes = may_stream(&facts, coming.args, &self.standing());
        goes.then_some((spec, number, coming.command, rest))
    }
}
