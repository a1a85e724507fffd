//! What a client listens to, as far as Weir listens for it.

/// A change of what a client listens to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenChange {
    /// To this channel too.
    To(Box<str>),
    /// To this one no longer; `None`: to nothing.
    NotTo(Option<Box<str>>),
    /// The session is to be as it was at its start, which it is but for this.
    Discard,
}

/// What a LISTEN or UNLISTEN changes that the server does not get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DivertedChange {
    /// What the statement changes.
    pub what: ListenChange,
    /// Weir listens already, and the client did not before.
    pub joined: bool,
}

/// The LISTEN of a client that has a server connection, which the server does not get.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum ChannelRequest {
    /// No channel is joined.
    #[default]
    Nothing,
    /// A channel is joined, and it is not confirmed that a server listens there.
    Asked,
    /// It was confirmed, or no server does so for Weir in time.
    Answered {
        /// A server listens there.
        confirmed: bool,
        /// The client did not listen to it before.
        joined: bool,
    },
}

const LISTEN: &[u8] = b"C\0\0\0\x0bLISTEN\0";
const UNLISTEN: &[u8] = b"C\0\0\0\x0dUNLISTEN\0";
const DISCARD: &[u8] = b"C\0\0\0\x10DISCARD ALL\0";

impl ListenChange {
    /// The CommandComplete that the client hears of it.
    pub fn completed(&self) -> &'static [u8] {
        match self {
            Self::To(_) => LISTEN,
            Self::NotTo(_) => UNLISTEN,
            Self::Discard => DISCARD,
        }
    }
}

/// Whether a client that has joined a channel leaves it once all of these hold, or were undone. It
/// joined at the LISTEN's Bind, so that a NotTo in front of that takes nothing away.
pub fn leaves(changes: &[DivertedChange], channel: &str, holds: bool) -> bool {
    let named = changes.iter().rev().find_map(|change| match &change.what {
        ListenChange::To(of) => (**of == *channel).then_some(false),
        ListenChange::NotTo(of) => {
            let is_named = of.as_deref().is_none_or(|of| of == channel);
            is_named.then_some(true)
        }
        ListenChange::Discard => None,
    });
    let joins = |change: &DivertedChange| {
        change.joined && matches!(&change.what, ListenChange::To(of) if **of == *channel)
    };
    if holds { named == Some(true) } else { changes.iter().any(joins) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(channel: &str, joined: bool) -> DivertedChange {
        DivertedChange { what: ListenChange::To(channel.into()), joined }
    }

    fn not_to(channel: Option<&str>) -> DivertedChange {
        DivertedChange { what: ListenChange::NotTo(channel.map(Into::into)), joined: false }
    }

    #[test]
    fn a_change_is_completed_by_a_whole_message() {
        for (change, tag) in [
            (ListenChange::To("a".into()), "LISTEN"),
            (ListenChange::NotTo(None), "UNLISTEN"),
            (ListenChange::Discard, "DISCARD ALL"),
        ] {
            let mut said = Vec::new();
            wire::postgres::backend::put_command_complete(&mut said, tag);
            assert_eq!(change.completed(), said, "{tag}");
        }
    }

    #[test]
    fn a_listen_behind_an_unlisten_of_the_same_round_holds() {
        for unlisten in [not_to(Some("a")), not_to(None)] {
            let round = [unlisten.clone(), to("a", false)];
            assert!(!leaves(&round, "a", true) && !leaves(&round, "a", false));
            let round = [to("a", true), unlisten.clone()];
            assert!(leaves(&round, "a", true) && leaves(&round, "a", false));
            let round = [to("a", false), unlisten.clone()];
            assert!(leaves(&round, "a", true) && !leaves(&round, "a", false));
            assert_eq!(
                leaves(std::slice::from_ref(&unlisten), "b", true),
                unlisten == not_to(None)
            );
        }
    }
}
