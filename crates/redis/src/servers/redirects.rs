//! Commands that a node of a Cluster has not run, and that are asked again where they belong.
//!
//! Nothing is asked again that may have run. What begins as a redirect is one only where nobody but
//! the server can have said it: a script could say the same at its end. No client hears one: it
//! has the address of a server, and a client that follows it goes around Weir.

use std::time::Duration;

use flow::service::{Again, Fabric, Request, Service as _};
use wire::resp::{Command, CommandFrame, Commands, Limits, put_error};

use super::Servers;
use crate::commands::{self, Spec};
use crate::topology::redirect::{Ran, Redirect};

/// What lets the next command in although its slot is not there yet.
const ASKING: &[u8] = b"*1\r\n$6\r\nASKING\r\n";
/// So often a command follows a slot that has moved, without a pause.
const MOVES_MAX: u8 = 4;
/// The first and the longest pause before a command is asked again that nobody can run now.
const PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(500)];

/// A command's own bytes.
pub(super) fn plain(request: &Request) -> &[u8] {
    let behind = request.bytes.strip_prefix(ASKING).filter(|_| request.unheard > 0);
    behind.unwrap_or(&request.bytes)
}

impl Servers {
    /// How many connections to the server of a place have ended, and how many commands it has sent
    /// on, those included that were not heeded yet.
    pub fn breaks(fabric: &Fabric<Self>, place: usize) -> u64 {
        let servers = fabric.service();
        let left = servers.left.borrow();
        let unheeded = left.iter().filter(|of| servers.are_of_one(**of, place)).count();
        fabric.breaks(place) + u64::try_from(unheeded).unwrap_or(u64::MAX)
    }

    /// A command is not run by the server it was sent to: what is asked in its place.
    pub(super) fn sent_on(&self, request: &Request, slot: u32, said: &Redirect) -> Option<Again> {
        let by = self.place(request.server)?.server;
        if self.ran(request) != Ran::Not {
            return None;
        }
        let (server, asks, after) = match said {
            Redirect::Moved { slot: moved, at } if u32::from(*moved) == slot => {
                let number = self.fleet.moved(*moved, at, by)?;
                // For a moment two nodes may each take the other for the one that has it.
                let again = request.turns.checked_sub(MOVES_MAX);
                (number, false, again.map_or(Duration::ZERO, pause))
            }
            Redirect::Ask { slot: asked, at } if u32::from(*asked) == slot => {
                (self.fleet.asks(at, by)?, true, Duration::ZERO)
            }
            // It is about something else, so the server has not said it of this command.
            Redirect::Moved { .. } | Redirect::Ask { .. } => return None,
            Redirect::TryAgain => (by, false, pause(request.turns)),
            Redirect::ClusterDown => {
                self.fleet.call();
                (by, false, pause(request.turns))
            }
        };
        self.look();
        let server = match after.is_zero() {
            true => server,
            false => self.holder(u16::try_from(slot).ok()?),
        };
        let is_tracked = self.place(request.server)?.tracks;
        // Where keys of a server that has none yet are asked for, nobody would tell of them.
        let is_untold = is_tracked && !self.view.borrow().holders.contains(&server);
        if is_untold {
            return None;
        }
        if server != by && !request.route.is_step() {
            self.left.borrow_mut().push(request.server);
        }
        let bytes = match asks {
            true => [ASKING, plain(request)].concat().into(),
            false => plain(request).into(),
        };
        let (replies, unheard) = if asks { (2, 1) } else { (1, 0) };
        let server = self.at_other(request.server, server)?;
        let request = Request { server, bytes, replies, unheard, ..request.clone() };
        Some(Again { after, ..Again::at_once(request) })
    }

    /// What a client hears in the place of an error that begins with this line, if it would follow
    /// that. Where keys are is known better before it does.
    pub(super) fn said_instead(&self, request: &Request, line: &[u8]) -> Option<Vec<u8>> {
        if !Redirect::is_followed(line) {
            return None;
        }
        let ran = self.ran(request);
        let by = self.place(request.server).map(|place| place.server);
        if let (Some(by), Some(Redirect::Moved { slot, at })) = (by, Redirect::read(line)) {
            match ran {
                Ran::Not | Ran::Aborted => {
                    self.fleet.moved(slot, &at, by);
                }
                Ran::Unknown if request.about() == Some(u32::from(slot)) => {
                    self.fleet.is_said_to_have_moved(slot, &at, by);
                }
                Ran::Unknown => {}
            }
            self.look();
        }
        let mut out = Vec::new();
        put_error(&mut out, ran.words(self.is_cluster()));
        Some(out)
    }

    /// Whether a command has run that is answered with a redirect.
    fn ran(&self, request: &Request) -> Ran {
        let (bytes, mut commands) = (plain(request), Commands::default());
        let all = Limits { bulk: u64::MAX, ..Limits::default() };
        match commands.cut(bytes, &all) {
            Ok(CommandFrame::Command(_)) => {
                self.ran_of(&commands.command(bytes), request.route.is_step())
            }
            // Of what is sent as it comes only the beginning is there, and it is no script.
            _ if request.route.is_step() => Ran::Not,
            _ => Ran::Unknown,
        }
    }

    /// `is_queued`: it is a step of a transaction, of which nothing runs before `EXEC`.
    fn ran_of(&self, command: &Command<'_>, is_queued: bool) -> Ran {
        let spec = commands::find(command.name());
        match () {
            () if spec.is_some_and(Spec::is_exec) => Ran::Aborted,
            () if is_queued => Ran::Not,
            // What scripts and functions answer may be words of a client's own.
            () if self.scripts.may_have_said(command) => Ran::Unknown,
            () => Ran::Not,
        }
    }
}

fn pause(turns: u8) -> Duration {
    let doubled = 1_u32.checked_shl(u32::from(turns)).unwrap_or(u32::MAX);
    PAUSES[0].saturating_mul(doubled).min(PAUSES[1])
}
