//! What is asked of a server, and what is asked in its place.

use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::memory::MemoryShare;

/// A request that was sent so long after it came has waited.
const WAITED: Duration = Duration::from_millis(1);

/// A request for a server.
#[derive(Debug, Clone)]
pub struct Request {
    /// Whom it is for.
    pub server: usize,
    /// What its server reads of it, but for the rest.
    pub bytes: Rc<[u8]>,
    /// How many bytes of it are not among these: they go to the server as they come.
    pub rest: u64,
    /// How many [`End`](crate::lane::What::End)s answer it, at least 1.
    pub replies: u32,
    /// What it does to what its server has.
    pub effect: Effect,
    /// By which connection it goes.
    pub route: Route,
    /// So many lines at the beginning of its reply reach nobody: they answer what goes out before
    /// it in the same bytes, so that nothing of another client comes between the two.
    pub unheard: u32,
    /// Who looks at its reply before its client hears it.
    pub judge: Judge,
    /// What its gateway knows it by.
    pub tag: u32,
    /// When it came, which its client sets.
    pub came: Option<Instant>,
    /// Where its bytes are counted, which its client sets.
    pub held: Option<Rc<MemoryShare>>,
    /// How often it was asked again.
    pub turns: u8,
    /// How often its connection broke when its server may have run it.
    pub breaks: u8,
}

/// What a request does to what its server has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It may change something: it is not asked again where it may have run.
    Changes,
    /// It changes nothing, and may not be asked again all the same: a pause of writes lets it by.
    Harmless,
    /// It changes nothing: after a broken connection it may be asked again, once.
    Repeats,
    /// It may be asked again, and once for several clients: it may join an equal one that waits on
    /// its lane, or be joined.
    Shares,
}

impl Effect {
    /// Of what may be asked again, and of what may change something.
    pub fn of_read(reads: bool) -> Self {
        if reads { Self::Repeats } else { Self::Changes }
    }

    /// Of what may not be asked again, whether it changes something or not.
    pub fn of_step(changes: bool) -> Self {
        if changes { Self::Changes } else { Self::Harmless }
    }

    /// Whether a pause of writes holds it back.
    pub(super) fn changes(self) -> bool {
        self == Self::Changes
    }

    /// Whether it may be asked again although its server may have run it.
    pub(super) fn repeats(self) -> bool {
        matches!(self, Self::Repeats | Self::Shares)
    }

    /// Of a request that is asked again: it is asked for its own client alone.
    pub(super) fn alone(self) -> Self {
        if self == Self::Shares { Self::Repeats } else { self }
    }
}

/// By which connection a request goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// A lane, unless the client has a connection to the server for itself.
    Lane,
    /// The connection that the client has for itself; without one it is not sent at all.
    Own(Affinity),
    /// As `Own`, and it waits for what others do: its answer is never late.
    OwnWaiting(Affinity),
}

impl Route {
    /// The same, by the connection that the client has for itself.
    pub fn own(self) -> Self {
        if self == Self::Lane { Self::Own(Affinity::Free) } else { self }
    }

    /// Whether the request belongs to what is before it on its connection.
    pub fn is_step(self) -> bool {
        self.affinity() != Affinity::Free
    }

    /// Whether the connection is not to be given back behind the request.
    pub(super) fn taints(self) -> bool {
        self.affinity() == Affinity::Taint
    }

    /// Whether the answer waits for what others do.
    pub(super) fn waits(self) -> bool {
        matches!(self, Self::OwnWaiting(_))
    }

    fn affinity(self) -> Affinity {
        match self {
            Self::Lane => Affinity::Free,
            Self::Own(affinity) | Self::OwnWaiting(affinity) => affinity,
        }
    }
}

/// How a request belongs to what its client has asked before by its own connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Affinity {
    /// Not at all: another may be asked in its place, by another connection.
    Free,
    /// As a step of a transaction does: whatever [`Service::again`](super::Service::again) says,
    /// nothing is asked in its place.
    Step,
    /// As a step does. What it leaves on the connection is not known, so that is closed instead of
    /// being given back.
    Taint,
}

/// Who looks at the first line of a reply before the client hears it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judge {
    /// Nobody, unless it is an error: [`Service::instead`](super::Service::instead).
    Client,
    /// [`Service::again`](super::Service::again): another request may be asked in its place.
    Service {
        /// What it is about: of its client's requests with the same number none has an effect
        /// before another that was asked earlier, whatever is asked again. `None`: that is of no
        /// matter.
        about: Option<u32>,
    },
}

impl Judge {
    /// What the request is about.
    pub fn about(self) -> Option<u32> {
        match self {
            Self::Client => None,
            Self::Service { about } => about,
        }
    }

    /// Of a request that is judged only where it is about something.
    pub fn of(about: Option<u32>) -> Self {
        if about.is_some() { Self::Service { about } } else { Self::Client }
    }

    /// The same by its service, whatever it is about.
    pub fn by_service(self) -> Self {
        Self::Service { about: self.about() }
    }
}

/// A request that is asked in the place of another, which had no effect.
#[derive(Debug, Clone)]
pub struct Again {
    /// What is asked, once all that its client asked before is answered: where it is sent on once
    /// more, nothing has overtaken it. What its client asks later waits behind it.
    pub request: Request,
    /// Only if nothing of its client was sent behind the other one.
    pub alone: bool,
    /// Not before so long; what its client asks later waits, too.
    pub after: Duration,
}

impl Again {
    /// Asks this at once.
    pub fn at_once(request: Request) -> Self {
        Self { request, alone: false, after: Duration::ZERO }
    }
}

impl Request {
    /// A request that is answered once and may change something.
    pub fn new(server: usize, bytes: impl Into<Rc<[u8]>>) -> Self {
        let bytes = bytes.into();
        Self {
            server,
            bytes,
            rest: 0,
            replies: 1,
            effect: Effect::Changes,
            route: Route::Lane,
            unheard: 0,
            judge: Judge::Client,
            tag: 0,
            came: None,
            held: None,
            turns: 0,
            breaks: 0,
        }
    }

    /// What it is about, where that matters for the order in which things take effect.
    pub fn about(&self) -> Option<u32> {
        self.judge.about()
    }

    /// This moment, where it is sent now for the first time and has waited.
    pub(super) fn waited(&self, now: Instant) -> Option<Instant> {
        let waited = |came| now.saturating_duration_since(came) >= WAITED;
        let is_first = self.turns == 0 && self.breaks == 0;
        (is_first && self.came.is_some_and(waited)).then_some(now)
    }
}
