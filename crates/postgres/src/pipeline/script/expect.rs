//! Answers that are under way, and whose they are.

use super::ServerEvent;

/// What became of a message that changes what a name of the client stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The client hears that it was done.
    Done,
    /// The server has refused it.
    Failed,
    /// It was not looked at, since one in front of it was refused.
    LeftOut,
}

/// Why a message is refused, whatever the server has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The client has a statement of that name.
    Taken,
    /// It has as many as it may have.
    TooMany,
    /// Their text is as long as it may be.
    TooLarge,
    /// A statement is run that asks for a value that the client has not drawn for certain.
    NotDrawn,
    /// It is not what its first byte says.
    Malformed,
    /// A portal is run whose statement has run, and can do so once only.
    HasRun,
    /// A statement's result is not what it was when the client prepared it.
    Changed,
}

/// What is done with an answer: who asked for it, and who hears it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseAction {
    /// The client asked, the server answers.
    Pass,
    /// Weir asked; the client hears nothing of it.
    Swallow,
    /// The client asked and the server was not: Weir answers.
    Invent,
    /// The client asked, the server answers of a text that is Weir's: an error is to be told as of
    /// the client's.
    Restore,
}

/// An answer that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// ParseComplete, of the statement with this number (see `prepared`).
    Parse(ResponseAction, u64),
    /// BindComplete, as a Bind is answered.
    Bind(ResponseAction),
    /// ParameterDescription, then RowDescription or NoData.
    DescribeStatement,
    /// What Weir asks of the statement with this number: as `DescribeStatement`. The client hears
    /// nothing of it.
    Shape(u64),
    /// RowDescription or NoData, as a portal's Describe is answered.
    DescribePortal,
    /// Rows, then CommandComplete, EmptyQueryResponse or PortalSuspended.
    Execute(ResponseAction),
    /// CloseComplete, as a Close is answered.
    Close(ResponseAction),
    /// The same of the statement with this number, which is to be gone: see `prepared`.
    Forget(u64),
    /// A message that Weir says in the server's stead.
    Say(&'static [u8]),
    /// The same, of a DEALLOCATE; nothing for a Query amid a round, which closes the unnamed
    /// statement unless it is left out.
    Deallocate(&'static [u8]),
    /// A Parse that the server is sure to refuse, as of a statement that is there already: the
    /// client hears why Weir has it refused.
    Refuse(Why),
    /// ReadyForQuery after a Sync.
    Sync,
    /// Nothing: where CopyDone or CopyFail was sent.
    CopyEnd,
    /// What tells how many Syncs amid the data of a failed COPY are answered: EmptyQueryResponse
    /// and ReadyForQuery, of Weir's own question.
    Settlement,
    /// Anything up to ReadyForQuery, as a Query or a FunctionCall is answered. What Weir asked for
    /// itself is swallowed, its errors kept.
    Query(ResponseAction),
}

impl Expect {
    /// Tells what follows from its not being answered.
    pub(super) fn left_out<'a>(&self, outcome: Outcome, on: &mut impl FnMut(ServerEvent<'a>)) {
        match *self {
            Self::Parse(ResponseAction::Pass | ResponseAction::Swallow, number) => {
                on(ServerEvent::NotPrepared(number))
            }
            Self::Query(ResponseAction::Pass) => on(ServerEvent::LeftOut),
            Self::Forget(number) => on(ServerEvent::Forgotten { number, left_out: true }),
            _ => {}
        }
        if self.is_of_name() {
            on(ServerEvent::Name(outcome));
        }
    }

    /// Whether no server answers it.
    pub(super) fn is_invented(&self) -> bool {
        matches!(
            self,
            Self::Parse(ResponseAction::Invent, _)
                | Self::Close(ResponseAction::Invent)
                | Self::Say(_)
                | Self::Deallocate(_)
                | Self::CopyEnd
        )
    }

    /// Whether it says what became of a client's name for a statement.
    pub(super) fn is_of_name(&self) -> bool {
        match self {
            Self::Parse(action, _) => *action != ResponseAction::Swallow,
            Self::Close(action) => *action == ResponseAction::Invent,
            Self::Refuse(why) => {
                !matches!(why, Why::NotDrawn | Why::Changed | Why::HasRun | Why::Malformed)
            }
            Self::Deallocate(_) => true,
            _ => false,
        }
    }
}
