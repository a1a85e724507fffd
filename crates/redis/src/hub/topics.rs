//! Who hears what of one server.

use std::collections::HashMap;
use std::rc::Rc;

use super::{KINDS, Name};
use crate::commands::Kind;

/// Who is subscribed to one channel or pattern.
#[derive(Debug)]
struct Topic<M> {
    members: HashMap<u64, Rc<M>>,
    /// So many are about to be.
    joining: usize,
}

impl<M> Topic<M> {
    fn is_wanted(&self) -> bool {
        self.joining > 0 || !self.members.is_empty()
    }
}

/// What clients, each with its number, are subscribed to at one server.
#[derive(Debug)]
pub(super) struct Topics<M>([HashMap<Name, Topic<M>>; 3]);

impl<M> Default for Topics<M> {
    fn default() -> Self {
        Self(KINDS.map(|_| HashMap::new()))
    }
}

impl<M> Topics<M> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(HashMap::is_empty)
    }

    /// A client is about to be subscribed.
    pub(super) fn begin(&mut self, kind: Kind, name: &Name) {
        let topic = self.0[kind as usize].entry(Rc::clone(name));
        let none = || Topic { members: HashMap::new(), joining: 0 };
        topic.or_insert_with(none).joining += 1;
    }

    /// It is, or with `None` is not after all. Whether the server is to forget this.
    pub(super) fn end(&mut self, kind: Kind, name: &Name, member: Option<(u64, Rc<M>)>) -> bool {
        let Some(topic) = self.0[kind as usize].get_mut(name) else { return false };
        topic.joining = topic.joining.saturating_sub(1);
        if let Some((client, member)) = member {
            topic.members.insert(client, member);
        }
        self.forget(kind, name)
    }

    /// Whether a client is subscribed to this.
    pub(super) fn has(&self, kind: Kind, name: &[u8], client: u64) -> bool {
        let topic = self.0[kind as usize].get(name);
        topic.is_some_and(|topic| topic.members.contains_key(&client))
    }

    /// A client is subscribed to this no more. Whether the server is to forget it.
    pub(super) fn remove(&mut self, kind: Kind, name: &Name, client: u64) -> bool {
        let Some(topic) = self.0[kind as usize].get_mut(name) else { return false };
        topic.members.remove(&client);
        self.forget(kind, name)
    }

    fn forget(&mut self, kind: Kind, name: &Name) -> bool {
        let topics = &mut self.0[kind as usize];
        let is_over = topics.get(name).is_some_and(|topic| !topic.is_wanted());
        if is_over {
            topics.remove(name);
        }
        is_over
    }

    /// Who hears a message.
    pub(super) fn hearers(&self, kind: Kind, name: &[u8]) -> impl Iterator<Item = &Rc<M>> {
        let topic = self.0[kind as usize].get(name);
        topic.into_iter().flat_map(|topic| topic.members.values())
    }

    /// All channels, or patterns, to which somebody is subscribed.
    pub(super) fn names(&self, kind: Kind) -> impl Iterator<Item = &Name> {
        let all = self.0[kind as usize].iter();
        all.filter(|(_, topic)| !topic.members.is_empty()).map(|(name, _)| name)
    }

    /// All whose subscriptions are such.
    pub(super) fn those(&self, is_such: impl Fn(Kind, &[u8]) -> bool) -> Vec<Rc<M>> {
        let mut all = HashMap::new();
        for kind in KINDS {
            let topics = self.0[kind as usize].iter().filter(|(name, _)| is_such(kind, name));
            for (id, member) in topics.flat_map(|(_, topic)| &topic.members) {
                all.insert(*id, Rc::clone(member));
            }
        }
        all.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(topics: &Topics<char>, kind: Kind, name: &[u8]) -> Vec<char> {
        let mut all: Vec<char> = topics.hearers(kind, name).map(|member| **member).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn a_message_is_for_those_whose_subscription_is_confirmed() {
        let (mut topics, name) = (Topics::default(), Name::from(&b"a"[..]));
        topics.begin(Kind::Channel, &name);
        topics.begin(Kind::Channel, &name);
        assert!(heard(&topics, Kind::Channel, b"a").is_empty());
        assert!(!topics.end(Kind::Channel, &name, Some((1, Rc::new('x')))));
        assert_eq!(heard(&topics, Kind::Channel, b"a"), ['x']);
        assert!(heard(&topics, Kind::Pattern, b"a").is_empty());
        assert!(heard(&topics, Kind::Channel, b"b").is_empty());
        assert!(!topics.end(Kind::Channel, &name, Some((2, Rc::new('y')))));
        assert_eq!(heard(&topics, Kind::Channel, b"a"), ['x', 'y']);
    }

    #[test]
    fn a_server_is_to_forget_what_nobody_has_or_is_about_to_have() {
        let (mut topics, name) = (Topics::default(), Name::from(&b"a"[..]));
        topics.begin(Kind::Shard, &name);
        assert!(!topics.end(Kind::Shard, &name, Some((1, Rc::new('x')))));
        topics.begin(Kind::Shard, &name);
        assert!(!topics.remove(Kind::Shard, &name, 1), "another one is about to be subscribed");
        assert!(topics.end(Kind::Shard, &name, None), "which it was not after all");
        assert!(topics.is_empty());
        assert!(!topics.remove(Kind::Shard, &name, 1), "it is forgotten once");
    }

    #[test]
    fn each_of_those_concerned_is_named_once() {
        let mut topics = Topics::default();
        for name in [&b"a"[..], b"b"] {
            topics.begin(Kind::Channel, &Name::from(name));
            topics.end(Kind::Channel, &Name::from(name), Some((1, Rc::new('x'))));
        }
        assert_eq!(topics.those(|_, _| true).len(), 1);
        assert!(topics.those(|kind, name| kind == Kind::Pattern || name == b"c").is_empty());
    }
}
