//! The client's side of a lease: whether more of it is read, and when it is gone, is to be closed
//! or is told what was notified.

use super::incoming::ClientStream;
use super::machine::Lease;
use super::pause::Pause;

/// How a client's connection ends from its side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEnd {
    /// The client sends nothing more, and may still read.
    Closed,
    /// The connection of the client broke.
    Broken,
}

/// What is known of the server connection, and of what the client has sent, where it is asked what
/// is to become of the client.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Bytes that the server has not taken.
    pub unsent: usize,
    /// While so much is unsent or unread, nothing more of the client is read.
    pub ahead_max: usize,
    /// The server reads the data of a COPY.
    pub takes_data: bool,
    /// No answer of the server's is due.
    pub is_answered: bool,
    /// The server connection is not to be used again.
    pub is_broken: bool,
    /// What the client has sent and was not put out: whole rounds in front, and bytes behind them.
    pub waiting: WaitingInput,
}

/// What the client has sent and was not put out.
#[derive(Debug, Clone, Copy)]
pub struct WaitingInput {
    /// Rounds that were cut stand in front of the bytes.
    pub has_rounds: bool,
    /// How many bytes there are.
    pub bytes: usize,
}

impl WaitingInput {
    fn is_empty(self) -> bool {
        !self.has_rounds && self.bytes == 0
    }
}

/// What is done with a client while its server says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientStep {
    /// More of what it sends is read.
    Read,
    /// Nothing is done for it now.
    Wait,
    /// The server is told that nothing more comes.
    CloseServer,
    /// The client has had all that it will have.
    Gone,
}

/// What follows from the end of what a client sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndStep {
    /// It is still answered.
    GoesOn,
    /// What it has sent still goes out, and nobody hears the answers.
    Leaves,
    /// Nothing is left to do for it.
    Gone,
}

/// How a client is closed from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseOrder {
    /// Whatever it is doing.
    AtOnce,
    /// Once it has had its answers and no transaction is open.
    OnceIdle,
}

impl Lease {
    /// What is done with the client while its server says nothing.
    pub fn client_step(&self, progress: &Progress) -> ClientStep {
        let is_sent = progress.unsent == 0;
        match self.client {
            ClientStream::Open => match self.reads_on(progress) {
                true => ClientStep::Read,
                false => ClientStep::Wait,
            },
            ClientStream::Ended if !is_sent => ClientStep::Wait,
            ClientStream::Ended if progress.is_broken => ClientStep::CloseServer,
            ClientStream::Ended => {
                let is_answered = self.is_quiet() || progress.is_answered;
                match is_answered && self.has_gone_out(progress) {
                    true => ClientStep::Gone,
                    false => ClientStep::Wait,
                }
            }
            // Behind the last answer there is only a goodbye, or a message that will never be
            // whole.
            ClientStream::Leaving => {
                let is_done = progress.waiting.is_empty()
                    || (self.rounds.is_empty() && !self.pause.is_for_answers());
                match is_sent && is_done {
                    true => ClientStep::Gone,
                    false => ClientStep::Wait,
                }
            }
        }
    }

    /// Whether a client that has ended hears nothing any more, as `is_closed` says of its
    /// connection: what it has asked for need not be waited for.
    pub fn hears_nothing(&self, progress: &Progress, is_closed: impl FnOnce() -> bool) -> bool {
        self.client == ClientStream::Ended && progress.unsent == 0 && is_closed()
    }

    /// What waits for its turn is read no further than its limit; a client that goes away meanwhile
    /// is noticed when its answer is written.
    fn reads_on(&self, progress: &Progress) -> bool {
        let goes_on = self.takes_more(progress.takes_data) && !self.pause.is_for_answers();
        let has_room = goes_on || progress.waiting.bytes < progress.ahead_max;
        progress.unsent < progress.ahead_max && has_room
    }

    /// The client's connection ends from its side.
    pub fn client_ends(&mut self, how: StreamEnd, progress: &Progress) -> EndStep {
        let is_sent = progress.unsent == 0;
        let is_answered = self.is_quiet() && self.has_gone_out(progress);
        if how == StreamEnd::Closed && !(is_sent && is_answered) {
            // It may still read what it has asked for.
            self.client = ClientStream::Ended;
            return EndStep::GoesOn;
        }
        if is_sent {
            return EndStep::Gone;
        }
        // What it has sent is still sent on.
        self.client = ClientStream::Leaving;
        EndStep::Leaves
    }

    /// The client has said goodbye, and is still to have its answers.
    pub(super) fn leaves(&mut self) {
        if self.client == ClientStream::Open {
            self.client = ClientStream::Leaving;
        }
    }

    /// Whether the server is to be told that nothing more comes, behind all that was sent: the
    /// client has ended and the server waits for more of it, as amid a COPY.
    pub fn ends_amid_round(&self, progress: &Progress) -> bool {
        let waits = self.rounds.is_within() || self.incoming.is_within() || progress.takes_data;
        self.client == ClientStream::Ended && waits && self.has_gone_out(progress)
    }

    /// Whether the server was told that nothing more comes: all that it says to that, behind its
    /// last answer, too, is for the client.
    pub fn is_ending(&self, is_broken: bool) -> bool {
        self.client == ClientStream::Ended && is_broken
    }

    /// Whether all that the client has sent went out: what is left is no whole message.
    fn has_gone_out(&self, progress: &Progress) -> bool {
        let goes_on = self.takes_more(progress.takes_data) && self.pause == Pause::Nothing;
        goes_on || progress.waiting.is_empty()
    }

    /// Whether the client is closed now that it is to be.
    pub fn closes(&self, order: CloseOrder) -> bool {
        match order {
            CloseOrder::AtOnce => true,
            CloseOrder::OnceIdle => self.rounds.is_empty() && !self.is_open(),
        }
    }

    /// Whether the client hears now what was notified: between its rounds and, as PostgreSQL tells
    /// it, between its transactions, unless more than may wait has come. `is_between`: the last
    /// message of the server's was heard whole.
    pub fn tells_mail(&self, is_between: bool, is_overrun: bool) -> bool {
        self.is_quiet() && is_between && (!self.is_open() || is_overrun)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::pipeline::lease::incoming::Incoming;

    const AHEAD_MAX: usize = 100;

    /// All that was sent is answered, and nothing waits.
    fn rest() -> Progress {
        Progress {
            unsent: 0,
            ahead_max: AHEAD_MAX,
            takes_data: false,
            is_answered: true,
            is_broken: false,
            waiting: WaitingInput { has_rounds: false, bytes: 0 },
        }
    }

    fn waiting(bytes: usize) -> Progress {
        Progress { waiting: WaitingInput { has_rounds: false, bytes }, ..rest() }
    }

    /// A lease with a round under way.
    fn asked(client: ClientStream) -> Lease {
        let mut lease = Lease { client, ..Lease::default() };
        lease.round();
        lease.rounds.end(Instant::now());
        lease
    }

    #[test]
    fn a_client_is_read_as_far_as_its_messages_may_go_and_a_little_further() {
        let lease = Lease::default();
        assert_eq!(lease.client_step(&waiting(AHEAD_MAX)), ClientStep::Read);
        let full = Progress { unsent: AHEAD_MAX, ..rest() };
        assert_eq!(lease.client_step(&full), ClientStep::Wait);
        let lease = asked(ClientStream::Open);
        assert_eq!(lease.client_step(&waiting(AHEAD_MAX - 1)), ClientStep::Read);
        assert_eq!(lease.client_step(&waiting(AHEAD_MAX)), ClientStep::Wait);
        let lease = Lease { pause: Pause::Many, ..Lease::default() };
        assert_eq!(lease.client_step(&waiting(AHEAD_MAX)), ClientStep::Wait);
    }

    #[test]
    fn a_client_that_ends_has_the_answers_to_what_it_has_asked() {
        let mut lease = asked(ClientStream::Open);
        assert_eq!(lease.client_ends(StreamEnd::Closed, &rest()), EndStep::GoesOn);
        let due = Progress { is_answered: false, ..rest() };
        assert_eq!(lease.client_step(&due), ClientStep::Wait);
        assert_eq!(lease.client_step(&Progress { unsent: 1, ..rest() }), ClientStep::Wait);
        assert_eq!(lease.client_step(&rest()), ClientStep::Gone);
        lease.rounds.answered();
        assert_eq!(lease.client_step(&due), ClientStep::Gone, "only Weir's own are due");
        // What waits for an answer has not gone out.
        lease.pause = Pause::Message;
        assert_eq!(lease.client_step(&waiting(1)), ClientStep::Wait);
        lease.pause = Pause::Nothing;
        assert_eq!(lease.client_step(&waiting(1)), ClientStep::Gone, "it is no whole message");
    }

    #[test]
    fn a_client_that_ends_behind_a_message_that_waits_has_its_answer() {
        let mut lease = Lease { pause: Pause::Message, ..Lease::default() };
        assert_eq!(lease.client_ends(StreamEnd::Closed, &waiting(5)), EndStep::GoesOn);
        assert_eq!(lease.client_step(&waiting(5)), ClientStep::Wait);
        // One that is not whole never goes out.
        let mut lease = Lease::default();
        assert_eq!(lease.client_ends(StreamEnd::Closed, &waiting(5)), EndStep::Gone);
    }

    #[test]
    fn a_client_that_has_asked_for_nothing_is_gone_at_once() {
        let mut lease = Lease::default();
        assert_eq!(lease.client_ends(StreamEnd::Closed, &rest()), EndStep::Gone);
        assert_eq!(lease.client_ends(StreamEnd::Broken, &rest()), EndStep::Gone);
        let unsent = Progress { unsent: 1, ..rest() };
        assert_eq!(lease.client_ends(StreamEnd::Broken, &unsent), EndStep::Leaves);
        assert_eq!(lease.client, ClientStream::Leaving);
        assert_eq!(lease.client_step(&unsent), ClientStep::Wait);
        assert_eq!(lease.client_step(&rest()), ClientStep::Gone);
        let mut lease = Lease::default();
        assert_eq!(lease.client_ends(StreamEnd::Closed, &unsent), EndStep::GoesOn);
        assert_eq!(
            asked(ClientStream::Open).client_ends(StreamEnd::Broken, &rest()),
            EndStep::Gone
        );
    }

    #[test]
    fn a_goodbye_waits_for_the_answers_before_it_and_does_not_undo_an_end() {
        let mut lease = asked(ClientStream::Open);
        lease.leaves();
        assert_eq!(lease.client, ClientStream::Leaving);
        assert_eq!(lease.client_step(&waiting(5)), ClientStep::Wait);
        lease.rounds.answered();
        assert_eq!(lease.client_step(&waiting(5)), ClientStep::Gone);
        let mut lease = asked(ClientStream::Ended);
        lease.leaves();
        assert_eq!(lease.client, ClientStream::Ended);
    }

    #[test]
    fn a_server_that_waits_for_more_of_a_client_that_has_ended_is_told() {
        let mut lease = Lease { client: ClientStream::Ended, ..Lease::default() };
        assert!(!lease.ends_amid_round(&rest()));
        assert!(lease.ends_amid_round(&Progress { takes_data: true, ..rest() }));
        lease.incoming = Incoming::of_long(1, true);
        assert!(lease.ends_amid_round(&rest()));
        lease.incoming = Incoming::Messages;
        lease.round();
        assert!(lease.ends_amid_round(&rest()));
        lease.pause = Pause::Message;
        assert!(!lease.ends_amid_round(&waiting(1)), "it waits for an answer");
        lease.client = ClientStream::Open;
        assert!(!lease.ends_amid_round(&rest()) && !lease.is_ending(true));
        lease.client = ClientStream::Ended;
        assert!(lease.is_ending(true) && !lease.is_ending(false));
        let broken = Progress { is_broken: true, ..rest() };
        assert_eq!(lease.client_step(&broken), ClientStep::CloseServer);
        assert_eq!(lease.client_step(&Progress { unsent: 1, ..broken }), ClientStep::Wait);
    }

    #[test]
    fn a_client_is_closed_at_once_or_between_its_transactions() {
        let mut lease = asked(ClientStream::Open);
        assert!(lease.closes(CloseOrder::AtOnce) && !lease.closes(CloseOrder::OnceIdle));
        lease.rounds.answered();
        assert!(lease.closes(CloseOrder::OnceIdle));
        lease.transaction.turn(true, None);
        assert!(lease.closes(CloseOrder::AtOnce) && !lease.closes(CloseOrder::OnceIdle));
    }

    #[test]
    fn what_was_notified_is_told_between_transactions_unless_too_much_waits() {
        let mut lease = asked(ClientStream::Open);
        assert!(!lease.tells_mail(true, true));
        lease.rounds.answered();
        assert!(lease.tells_mail(true, false) && !lease.tells_mail(false, true));
        lease.transaction.turn(true, None);
        assert!(!lease.tells_mail(true, false) && lease.tells_mail(true, true));
        lease.incoming = Incoming::of_long(1, true);
        assert!(!lease.tells_mail(true, true));
    }
}
