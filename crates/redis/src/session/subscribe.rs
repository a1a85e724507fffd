//! Subscriptions of a client, which share connections with those of others.

use std::collections::HashSet;
use std::rc::Rc;

use flow::service::Apart;
use wire::resp::{Command, Version, put_array, put_bulk, put_integer};

use super::dispatch::{PubsubCommand, Subscription};
use super::{Asking, CommandResult, Session, join};
use crate::commands::Kind;
use crate::front::Home;
use crate::hub::{Hub, Member, Name, Places};
use crate::servers::Servers;

/// Bytes of the names of all that a client is subscribed to.
const NAME_BYTES_MAX: usize = 1 << 20;

/// What a client is subscribed to. Dropped, it is subscribed to nothing.
#[derive(Debug)]
pub(super) struct Subscribed {
    hub: Rc<Hub>,
    member: Rc<Member>,
}

impl Drop for Subscribed {
    fn drop(&mut self) {
        self.hub.remove(&self.member);
    }
}

impl Subscribed {
    /// In what it is told from now on.
    pub(super) fn speaks(&self, version: Version) {
        self.member.speaks(version);
    }

    /// Ends it with this answer, behind what was published before.
    pub(super) fn end(self, answer: Vec<u8>, apart: Apart<Servers>) {
        let (hub, member) = (Rc::clone(&self.hub), Rc::clone(&self.member));
        hub.settle(&member, move || {
            drop(self);
            apart.answer(&answer);
        });
    }
}

impl Session {
    /// Whether it is subscribed to anything, and what that means for what it may say.
    pub(super) fn subscription(&self) -> Subscription {
        let is_subscribed = self.subscribed.as_ref().is_some_and(|of| of.member.count() > 0);
        match self.version {
            _ if !is_subscribed => Subscription::None,
            Version::Two => Subscription::Mode,
            Version::Three => Subscription::Pushed,
        }
    }

    /// Where it hears: with others of the same account.
    fn hub(&self) -> Rc<Hub> {
        self.front.hubs.of(&self.account)
    }

    fn member(&mut self, client: &Asking) -> Rc<Member> {
        let (hub, metrics) = (self.hub(), &self.front.metrics);
        let (version, card) = (self.version, &self.card);
        let subscribed = self.subscribed.get_or_insert_with(|| Subscribed {
            hub,
            member: Rc::new(Member::new(client, version, metrics, card)),
        });
        Rc::clone(&subscribed.member)
    }

    fn places(&self, kind: Kind, names: Vec<Name>) -> Places {
        let place = |name: Name| {
            let servers = self.front.servers_of(kind, &name);
            (name, servers)
        };
        names.into_iter().map(place).collect()
    }

    pub(super) fn subscribe(
        &mut self,
        kind: Kind,
        command: Command<'_>,
        client: &Asking,
    ) -> CommandResult {
        let most = self.front.in_force.load().subscriptions;
        let too_many = || Err("ERR weir: more subscriptions than max-subscriptions".to_owned());
        // The same name again and again is no more subscriptions, and costs as much.
        if command.iter().skip(1).count() > most {
            return too_many();
        }
        let names: Vec<Name> = command.iter().skip(1).map(Name::from).collect();
        let member = self.member(client);
        if member.count() + member.new_among(kind, &names) > most {
            return too_many();
        }
        let bytes: usize = names.iter().map(|name| name.len()).sum();
        if member.bytes() + bytes > NAME_BYTES_MAX {
            return Err("ERR weir: the names of channels are too long, all together".to_owned());
        }
        let hub = self.hub();
        let places = (self.places(kind, names), hub.moves());
        client.apart(move |apart| hub.join(kind, places, &member, apart));
        self.front.metrics.answered.inc();
        Ok(())
    }

    pub(super) fn unsubscribe(
        &mut self,
        kind: Kind,
        command: Command<'_>,
        client: &Asking,
    ) -> CommandResult {
        let member = self.member(client);
        let named: Vec<Name> = command.iter().skip(1).map(Name::from).collect();
        let names = if named.is_empty() { member.names(kind) } else { named };
        let hub = self.hub();
        client.apart(move |apart| hub.leave(kind, names, &member, apart));
        self.front.metrics.answered.inc();
        Ok(())
    }

    pub(super) fn pubsub(&mut self, what: PubsubCommand, command: Command<'_>, client: &Asking) {
        match what {
            PubsubCommand::Channels => self.each(true, command, join::distinct, client),
            PubsubCommand::Help => {
                let any = Home::at(self.front.any_server());
                self.ask_one(any, true, command, client);
            }
            PubsubCommand::NumSub => self.count(Kind::Channel, &command, client),
            PubsubCommand::ShardNumSub => self.count(Kind::Shard, &command, client),
            PubsubCommand::NumPat => self.count_patterns(client),
        }
    }

    /// Counts those who are subscribed to channels. Servers would count Weir's connections.
    fn count(&self, kind: Kind, command: &Command<'_>, client: &Asking) {
        let names: Vec<Vec<u8>> = command.iter().skip(2).map(<[u8]>::to_vec).collect();
        self.ask_workers(client, move |front| async move {
            let asked = names.clone();
            let counts = front.shared.asked(move |front| {
                let count = |name: &Vec<u8>| front.hubs.count(kind, name);
                asked.iter().map(count).collect::<Vec<usize>>()
            });
            let counts = counts.await;
            let mut out = Vec::new();
            put_array(&mut out, names.len() * 2);
            for (at, name) in names.iter().enumerate() {
                put_bulk(&mut out, name);
                let count: usize = counts.iter().filter_map(|of| of.get(at)).sum();
                put_integer(&mut out, i64::try_from(count).unwrap_or(i64::MAX));
            }
            out
        });
    }

    /// Counts the patterns to which anybody is subscribed.
    fn count_patterns(&self, client: &Asking) {
        self.ask_workers(client, |front| async move {
            let patterns = front.shared.asked(|front| {
                let all = front.hubs.patterns();
                all.iter().map(|name| name.to_vec()).collect::<Vec<_>>()
            });
            let all: HashSet<Vec<u8>> = patterns.await.into_iter().flatten().collect();
            let mut out = Vec::new();
            put_integer(&mut out, i64::try_from(all.len()).unwrap_or(i64::MAX));
            out
        });
    }
}
