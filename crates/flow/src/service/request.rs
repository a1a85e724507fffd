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
    /// Its bytes.
    pub bytes: Rc<[u8]>,
    /// How many bytes of it are not among these: they go to the server as they come.
    pub rest: u64,
    /// How many [`End`](crate::lane::What::End)s answer it, at least 1.
    pub replies: u32,
    /// It changes nothing: after a broken connection it may be asked again, once.
    pub repeats: bool,
    /// It changes nothing, and may not be asked again all the same: a pause of writes lets it by.
    pub harmless: bool,
    /// It goes by the connection that the client has for itself, or is not sent at all.
    pub own: bool,
    /// It belongs to what is before it on its connection, as in a transaction: whatever
    /// [`Service::again`](super::Service::again) says, nothing is asked in its place.
    pub stays: bool,
    /// What it leaves on its connection is not known: it goes by the connection that the client has
    /// for itself, as [`own`](Self::own) does, and that is closed instead of being given back.
    pub taints: bool,
    /// It waits for what others do: its answer is never late.
    pub waits: bool,
    /// So many lines at the beginning of its reply reach nobody: they answer what goes out before
    /// it in the same bytes, so that nothing of another client comes between the two.
    pub unheard: u32,
    /// It is a read that may be asked once for several clients: it may join an equal one that waits
    /// on its lane, or be joined. Only of what [`repeats`](Self::repeats), and never of what is
    /// asked again.
    pub shares: bool,
    /// [`Service::again`](super::Service::again) is asked by the first line of its reply.
    pub judged: bool,
    /// What it is about: of its client's requests with the same number none has an effect before
    /// another that was asked earlier, whatever is asked again. `None`: that is of no matter.
    pub about: Option<u32>,
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
            repeats: false,
            harmless: false,
            own: false,
            stays: false,
            taints: false,
            waits: false,
            unheard: 0,
            shares: false,
            judged: false,
            about: None,
            tag: 0,
            came: None,
            held: None,
            turns: 0,
            breaks: 0,
        }
    }

    /// This moment, where it is sent now for the first time and has waited.
    pub(super) fn waited(&self, now: Instant) -> Option<Instant> {
        let waited = |came| now.saturating_duration_since(came) >= WAITED;
        let is_first = self.turns == 0 && self.breaks == 0;
        (is_first && self.came.is_some_and(waited)).then_some(now)
    }
}
