//! Subscriptions of a client, which share connections with those of others.

use std::rc::Rc;

use wire::resp::{Command, Version};

use super::all::sub_command;
use super::{Asking, Session, Taken, join};
use crate::commands::{Kind, Spec};
use crate::front::Home;
use crate::hub::{Hub, Member, Name, Places};

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
}

impl Session {
    /// Whether it is in the mode of RESP2 in which little else than messages can be understood.
    pub(super) fn is_in_subscribed_mode(&self) -> bool {
        let has_some = |of: &Subscribed| of.member.count() > 0;
        self.version == Version::Two && self.subscribed.as_ref().is_some_and(has_some)
    }

    /// Refuses what cannot be said in that mode.
    pub(super) fn check_mode(&self, spec: &Spec) -> Taken {
        let is_allowed =
            matches!(spec.name, "PING" | "QUIT" | "RESET") || spec.name.ends_with("SUBSCRIBE");
        if is_allowed || !self.is_in_subscribed_mode() {
            return Ok(());
        }
        let name = spec.name.to_ascii_lowercase();
        Err(format!(
            "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / \
             RESET are allowed in this context"
        ))
    }

    fn member(&mut self, client: &Asking) -> Rc<Member> {
        let (hub, version) = (&self.front.hub, self.version);
        let subscribed = self.subscribed.get_or_insert_with(|| Subscribed {
            hub: Rc::clone(hub),
            member: Rc::new(Member::new(client, version)),
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

    pub(super) fn subscribe(&mut self, kind: Kind, command: Command<'_>, client: &Asking) -> Taken {
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
        let hub = Rc::clone(&self.front.hub);
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
    ) -> Taken {
        let member = self.member(client);
        let named: Vec<Name> = command.iter().skip(1).map(Name::from).collect();
        let names = if named.is_empty() { member.names(kind) } else { named };
        let hub = Rc::clone(&self.front.hub);
        client.apart(move |apart| hub.leave(kind, names, &member, apart));
        self.front.metrics.answered.inc();
        Ok(())
    }

    pub(super) fn pubsub(&self, command: Command<'_>, client: &Asking) -> Taken {
        match &*sub_command(&command) {
            "CHANNELS" | "SHARDCHANNELS" => self.each(true, command, join::concatenated, client),
            "HELP" => {
                let any = Home::at(self.front.any_server());
                self.ask_one(any, true, command, client);
            }
            other => {
                let other = super::shortened(other);
                return Err(format!(
                    "ERR weir: PUBSUB {other} is refused: servers count Weir's connections, not \
                     its clients"
                ));
            }
        }
        Ok(())
    }
}
