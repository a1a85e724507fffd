//! Keys that a client is told of when others change them. A server tells that to the connection
//! that has read them, so the client has one to each server for as long as it tracks.
//!
//! All servers are told the same, so what may be said is decided here. `CLIENT CACHING` is told to
//! a server just before the command that it is for.

use wire::resp::{Version, put_command};

use super::super::dispatch::StepEffect;
use super::action::{OwnQuestion, OwnRequest, RequestWords};
use super::options::Options;

/// What a client has said of tracking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::session) struct Tracking {
    /// The places of its connections, one at each server.
    places: Vec<usize>,
    agreement: Agreement,
    options: Options,
    /// The marks of each `CLIENT TRACKING ON` that is not answered yet.
    awaited: Vec<u64>,
    caching: Caching,
}

/// What the servers have said to `CLIENT TRACKING ON`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Agreement {
    /// Not all of them have answered yet.
    #[default]
    Awaited,
    /// They tell the client of keys.
    On,
    /// One refuses, or could not be asked.
    Refused,
    /// Some servers go by what was said before, and others do not.
    Torn,
}

impl Agreement {
    /// All servers agree to what was said once more, or not.
    fn and(self, agree: bool) -> Self {
        match (self, agree) {
            (Self::Awaited | Self::On, true) => Self::On,
            (Self::Awaited | Self::Refused, false) => Self::Refused,
            (Self::On, false) | (Self::Refused, true) | (Self::Torn, _) => Self::Torn,
        }
    }
}

/// What was said with `CLIENT CACHING`, which the client has its answer to already.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Caching {
    /// It was said for the next command.
    is_for_next: bool,
    /// It was said for the command, or the transaction, that is under way.
    is_for_this: bool,
    /// The places that were told so.
    told: Vec<usize>,
    /// The marks of each that is not answered yet.
    awaited: Vec<u64>,
}

/// What an answer means for a client that tracks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TrackingAnswer {
    /// It goes on, or the answer is not about that.
    GoesOn,
    /// No server tells it of keys.
    Refused,
    /// Some servers would tell it of keys, and others not.
    Torn,
    /// A server has refused what the client was told `OK` to.
    CachingRefused(Vec<u8>),
}

/// Takes a mark out of those that are awaited; whether it was one.
fn is_awaited(awaited: &mut Vec<u64>, mark: u64) -> bool {
    let at = awaited.iter().position(|of| *of == mark);
    at.map(|at| awaited.swap_remove(at)).is_some()
}

impl Tracking {
    /// By connections to these places, where nothing was asked yet.
    pub(super) fn new(places: Vec<usize>) -> Self {
        Self {
            places,
            agreement: Agreement::default(),
            options: Options::default(),
            awaited: Vec::new(),
            caching: Caching::default(),
        }
    }

    /// The places of its connections.
    pub(super) fn places(&self) -> &[usize] {
        &self.places
    }

    pub(super) fn options(&self) -> &Options {
        &self.options
    }

    /// `CLIENT TRACKING ON` was said: what all servers are asked, which is known by `mark`.
    pub(super) fn ask_on(&mut self, options: Options, words: Vec<u8>, mark: u64) -> OwnQuestion {
        self.options = options;
        self.awaited.push(mark);
        OwnQuestion { mark: Some(mark), ..self.question(RequestWords::Whole(words)) }
    }

    /// What ends tracking at all servers.
    pub(super) fn ask_off(&self) -> OwnQuestion {
        let mut words = Vec::new();
        put_command(&mut words, ["CLIENT", "TRACKING", "OFF"].iter());
        self.question(RequestWords::Whole(words))
    }

    /// What is asked of all servers.
    pub(super) fn question(&self, words: RequestWords) -> OwnQuestion {
        OwnQuestion { places: self.places.clone(), words, mark: None, is_heard: true }
    }

    /// A command begins that is no step of a transaction; one of `CLIENT` is not what `CLIENT
    /// CACHING` was said for.
    pub(super) fn begin_command(&mut self, is_client: bool) {
        let caching = &mut self.caching;
        caching.is_for_this = !is_client && std::mem::take(&mut caching.is_for_next);
        caching.told.clear();
    }

    /// `CLIENT CACHING`, with this word behind it.
    pub(super) fn cache(&mut self, word: &[u8]) -> Result<(), String> {
        self.options.check_caching(word)?;
        self.caching.is_for_next = true;
        Ok(())
    }

    /// Whether `CLIENT CACHING` is for the command that is under way.
    pub(super) fn caches(&self) -> bool {
        self.caching.is_for_this
    }

    /// What is asked at a place before what the command under way asks there: once.
    pub(super) fn tell_caching(&mut self, place: usize, mark: u64) -> Option<OwnRequest> {
        let caching = &mut self.caching;
        if !caching.is_for_this || caching.told.contains(&place) {
            return None;
        }
        caching.told.push(place);
        caching.awaited.push(mark);
        let words = RequestWords::Whole(self.options.caching());
        let caching = OwnRequest::step(place, words, StepEffect::Reads);
        Some(OwnRequest { mark: Some(mark), is_heard: false, ..caching })
    }

    /// What was asked with a mark has come to its end, with an answer that begins so or with none.
    pub(super) fn hear(&mut self, mark: u64, begins: Option<&[u8]>) -> TrackingAnswer {
        let is_ok = |begins: &&[u8]| begins.first() == Some(&b'+');
        if is_awaited(&mut self.awaited, mark) {
            self.agreement = self.agreement.and(begins.as_ref().is_some_and(is_ok));
            return match self.agreement {
                Agreement::Refused => TrackingAnswer::Refused,
                Agreement::Torn => TrackingAnswer::Torn,
                Agreement::Awaited | Agreement::On => TrackingAnswer::GoesOn,
            };
        }
        let is_caching = is_awaited(&mut self.caching.awaited, mark);
        match begins.filter(|begins| is_caching && !is_ok(begins)) {
            Some(words) => TrackingAnswer::CachingRefused(words.to_vec()),
            None => TrackingAnswer::GoesOn,
        }
    }

    /// The answer to `CLIENT TRACKINGINFO`.
    pub(in crate::session) fn put_info(&self, version: Version, out: &mut Vec<u8>) {
        self.options.put_info(self.caching.is_for_next, version, out);
    }
}

#[cfg(test)]
mod tests {
    use super::Agreement::{Awaited, On, Refused, Torn};

    #[test]
    fn what_some_servers_go_by_and_others_do_not_is_no_state_to_go_on_with() {
        assert_eq!([Awaited.and(true), Awaited.and(false)], [On, Refused]);
        assert_eq!([On.and(true), On.and(false)], [On, Torn]);
        assert_eq!([Refused.and(true), Refused.and(false)], [Torn, Refused]);
        assert_eq!([Torn.and(true), Torn.and(false)], [Torn, Torn]);
    }
}
