//! What is noted of a message as it goes out: what follows from it once it is answered, and what it
//! may do to the server connection.

use std::rc::Rc;
use std::time::Instant;

use wire::postgres::frontend::{Bind, Execute};

use super::Relay;
use crate::connection::Connection;
use crate::pipeline::lease::effect;
use crate::pipeline::settings::Change;
use crate::pipeline::statements::Statement;
use crate::plan::{Leaves, Plan, Unsettles};
use crate::session::Session;
use crate::session::parts::spans;
use crate::session::study::Known;

impl Session {
    /// Takes note of what a Query will change.
    pub(super) fn note_query(
        &mut self,
        relay: &mut Relay,
        server: &mut Connection,
        plan: &Rc<Plan>,
        sql: &[u8],
        known: Option<&Known>,
    ) {
        let was_pinned = self.pinned;
        self.note_plan(relay, server, plan, sql);
        relay.lease.round().drew.push(plan.clone());
        let spans = || match known {
            Some(known) => known.spans.clone(),
            None => spans(sql, self.scope.strings),
        };
        if let Some(parts) = self.parts(plan, sql, spans) {
            let stays = |part: &Rc<Plan>| effect::pins(part) || self.is_in_doubt(relay, part);
            self.pinned = was_pinned || parts.iter().any(stays);
            parts.iter().for_each(|part| self.note_change(relay, part));
            relay.lease.round().listens.extend(parts.into_iter().filter(effect::listens));
        }
        relay.lease.forgets |= effect::forgets(plan);
        self.asked(relay, server);
    }

    /// Takes note of what another message will change.
    pub(super) fn note(
        &mut self,
        relay: &mut Relay,
        server: &mut Connection,
        tag: u8,
        body: &[u8],
    ) {
        match tag {
            b'F' => self.note_unknown(relay, server),
            b'S' => {
                self.asked(relay, server);
                relay.lease.portals.end_round();
            }
            b'E' => {
                let portal = Execute::read(body).ok().map(|run| run.portal);
                let bound = relay.lease.portals.execute(portal);
                relay.lease.round().drew.extend(bound);
                if relay.lease.sway.has_portal(portal) {
                    // What was prepared since it was bound was read before it is run.
                    self.sway(relay, server);
                }
            }
            b'P' | b'D' | b'C' | b'H' => {
                relay.lease.round();
            }
            b'B' => {
                // What is bound counts as run: any portal may be, now or later in the transaction.
                let bound = self.bound(body);
                let sways = bound.as_ref().is_none_or(|(plan, _)| plan.effects.sways);
                let portal = Bind::read(body).ok().map(|bind| bind.portal);
                relay.lease.sway.bind(portal, sways);
                relay.lease.portals.bind(bound.as_ref().map(|(plan, _)| plan.clone()), portal);
                match bound {
                    Some((plan, statement)) => {
                        self.note_plan(relay, server, &plan, &statement.sql);
                    }
                    None => {
                        relay.lease.round().unknown = true;
                        self.sway(relay, server);
                        server.drew = true;
                        relay.lease.drawn.may_draw();
                        server.leaves = server.leaves.max(Leaves::Some);
                        server.has_local_buffers = true;
                    }
                }
            }
            _ => {}
        }
    }

    /// A round that is not looked into: it may have done anything.
    pub(super) fn note_unknown(&mut self, relay: &mut Relay, server: &mut Connection) {
        self.pinned = true;
        self.sway(relay, server);
        server.leaves = Leaves::Lasting;
        server.has_local_buffers = true;
        server.drew = true;
        relay.lease.drawn.may_draw();
        self.database.catalogue_changed(Unsettles::Code);
        relay.unsettled.get_or_insert_with(|| self.database.unsettle());
        relay.lease.round().unknown = true;
        self.asked(relay, server);
    }

    /// What is sent from now on may be read by other settings.
    fn sway(&self, relay: &mut Relay, server: &mut Connection) {
        relay.lease.sway.begin();
        relay.lease.drawn.names_change();
        server.prepared.next_epoch();
    }

    /// The round is whole: the server has it from now on.
    pub(super) fn asked(&self, relay: &mut Relay, server: &mut Connection) {
        if relay.lease.sway.is_swayed() && !relay.lease.goes_on() {
            // Its transaction ends here, and what was set for it with that.
            server.prepared.next_epoch();
        }
        let now = Instant::now();
        relay.lease.round();
        relay.lease.rounds.end(now);
        server.record.asked(now);
        let seen = self.client.seen();
        seen.asked.set(Some(now));
        seen.in_transaction.set(None);
    }

    fn note_plan(
        &mut self,
        relay: &mut Relay,
        server: &mut Connection,
        plan: &Rc<Plan>,
        sql: &[u8],
    ) {
        self.pinned |= effect::pins(plan) || self.is_in_doubt(relay, plan);
        server.leaves = server.leaves.max(plan.effects.leaves);
        // With `pg_temp` in `search_path` a plain CREATE TABLE makes a temporary one.
        server.has_local_buffers |= plan.effects.uses_temporary
            || (plan.effects.leaves != Leaves::Nothing && self.settings.pins());
        relay.lease.transaction.note(plan);
        if plan.effects.sequences.may_draw {
            server.drew = true;
            relay.lease.drawn.may_draw();
        }
        if relay.lease.sway.is_swayed() && sql.contains(&b'\\') {
            // Where its strings end depends on what was set for the transaction.
            server.leaves = server.leaves.max(Leaves::Some);
            server.has_local_buffers = true;
            self.sway(relay, server);
        }
        if plan.effects.sways || (relay.lease.sway.is_swayed() && effect::ends(plan)) {
            self.sway(relay, server);
        }
        self.front.shared.metrics.unproven(plan.reason);
        let unsettles = effect::unsettles(plan);
        if unsettles >= Unsettles::Changes {
            // Before the server knows of it and until its transaction has ended, so that no proof
            // rests on what it changes.
            self.database.catalogue_changed(unsettles);
            relay.unsettled.get_or_insert_with(|| self.database.unsettle());
        }
        self.note_change(relay, plan);
        let round = relay.lease.round();
        round.plans.push(plan.clone());
        round.listens.extend(Some(plan.clone()).filter(effect::listens));
    }

    /// Whether a setting is given a value that only its own server connection is sure to read as
    /// it was meant: one beyond ASCII, not in UTF-8.
    fn is_in_doubt(&self, relay: &Relay, plan: &Rc<Plan>) -> bool {
        let value = match effect::change(plan) {
            Some(Change::Set(_, value)) => value,
            _ => return false,
        };
        !value.is_ascii()
            && (relay.lease.sway.is_swayed() || !self.settings.is_utf8(&self.told.begun))
    }

    /// Takes note of what a statement changes in the settings.
    fn note_change(&self, relay: &mut Relay, plan: &Rc<Plan>) {
        let Some(change) = effect::change(plan) else { return };
        if !self.settings.begun_with(&change).is_empty() {
            relay.lease.restore.await_round();
        }
        relay.lease.round().changes.push(change);
    }

    /// The statement that a Bind names, and its plan.
    pub(in crate::session) fn bound(&self, body: &[u8]) -> Option<(Rc<Plan>, Rc<Statement>)> {
        let bind = Bind::read(body).ok()?;
        let names = self.client.names();
        let named = names.get(bind.statement)?;
        Some((self.database.plan_of(&named.statement, self.scope), named.statement.clone()))
    }
}
