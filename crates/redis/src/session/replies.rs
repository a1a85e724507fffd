//! `CLIENT REPLY`: whether a client hears answers.
//!
//! What it asks goes its way as ever, and the answers that it does not want are thrown away when it
//! is their turn: nothing of this is left on a connection, and its requests are limited as others
//! are. What it is told without having asked it hears all the same, as with a server; so it does
//! that it is subscribed, or is not any more.

use wire::resp::put_simple;

use super::{Asking, CommandResult, Session};

/// Which answers a client hears.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Replies {
    /// It hears each answer.
    On,
    /// It says `SKIP` at this moment, which has no answer itself.
    SkipNext,
    /// All but that to the command which comes next.
    Skip,
    /// It hears no answer.
    Off,
}

impl Replies {
    /// What holds behind a command.
    fn behind(self) -> Self {
        match self {
            Self::SkipNext => Self::Skip,
            Self::Skip => Self::On,
            Self::On | Self::Off => self,
        }
    }

    /// Whether the client hears the answer to the command at hand.
    pub(super) fn are_heard(self) -> bool {
        !matches!(self, Self::Skip | Self::Off)
    }
}

impl Session {
    /// `CLIENT REPLY`.
    pub(super) fn reply(
        &mut self,
        wanted: &[u8],
        out: &mut Vec<u8>,
        client: &Asking,
    ) -> CommandResult {
        match &*wanted.to_ascii_uppercase() {
            b"ON" => {
                self.set_replies(Replies::On, client);
                put_simple(out, b"OK");
            }
            b"OFF" => self.set_replies(Replies::Off, client),
            b"SKIP" if self.replies == Replies::Off => {}
            b"SKIP" => self.replies = Replies::SkipNext,
            _ => return Err("ERR syntax error".to_owned()),
        }
        Ok(())
    }

    /// `RESET` is answered to a client that heard nothing before, though not behind a `SKIP`.
    pub(super) fn hears_again(&mut self, client: &Asking) {
        if self.replies == Replies::Off {
            self.set_replies(Replies::On, client);
        }
    }

    /// A command was taken; an empty one counts, too.
    #[inline]
    pub(super) fn is_behind_command(&mut self, client: &Asking) {
        if self.replies != Replies::On {
            self.set_replies(self.replies.behind(), client);
        }
    }

    fn set_replies(&mut self, replies: Replies, client: &Asking) {
        self.replies = replies;
        client.hears_answers(replies.are_heard());
    }
}

#[cfg(test)]
mod tests {
    use super::Replies;

    #[test]
    fn one_command_behind_skip_has_no_answer() {
        let skip = Replies::SkipNext.behind();
        assert_eq!((skip, skip.behind()), (Replies::Skip, Replies::On));
        assert_eq!(Replies::Off.behind(), Replies::Off);
    }
}
