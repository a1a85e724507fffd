//! What is noted of a message as it goes out: what follows from it once it is answered, and what it
//! may do to the server connection.

use std::rc::Rc;
use std::time::Instant;

use wire::postgres::frame::Frame;
use wire::postgres::frontend::{Bind, Execute, tag};

use super::listening::DivertedChange;
use super::machine::Lease;
use crate::pipeline::effect;
use crate::pipeline::settings::{Change, Reported, SessionSettings};
use crate::plan::{Leaves, Plan, Reason, Unsettles};

/// What a message that goes out does outside of the lease. It is carried out at once, in front of
/// the message's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Departure {
    /// It may leave so much on the connection.
    Leaves(Leaves),
    /// It may use temporary tables.
    UsesLocalBuffers,
    /// It may draw from sequences.
    Draws,
    /// What is prepared from now on may be read in another way than what was prepared before.
    NextEpoch,
    /// Why a statement is not a proven read.
    Unproven(Reason),
    /// It does this to the catalogue, as of now: no proof may rest on what it changes.
    Unsettles(Unsettles),
    /// Facts are not to be loaded again until its transaction has ended.
    HoldsFacts,
    /// The round went out up to its end.
    RoundEnds(Instant),
    /// The server is asked for something by Weir itself: it forgets what others have drawn from
    /// sequences.
    ForgetsDrawn,
    /// It is sent as a point statement.
    RunsPoint,
    /// The client hears this at once.
    Tells(Vec<u8>),
    /// A channel is to be joined for the client, which [`Lease::joined`] answers.
    Joins(Box<str>),
    /// What was to be listened to, or not, is undone.
    UndoesListen(DivertedChange),
    /// The connection is not to be used again.
    GivesUp,
}

/// Carries out what a message that goes out does.
pub type Departures<'a> = dyn FnMut(Departure) + 'a;

/// What is known of a session when its client's message goes out.
#[derive(Debug, Clone, Copy)]
pub struct SessionFacts<'a> {
    /// When the message came.
    pub now: Instant,
    /// The session's settings as they are now.
    pub settings: &'a SessionSettings,
    /// The settings that servers have reported to it at its start.
    pub reported: &'a Reported,
}

/// A statement that a Bind names, as far as it is known.
#[derive(Debug, Clone, Copy)]
pub struct BoundStatement<'a> {
    /// What the statement is.
    pub plan: &'a Rc<Plan>,
    /// The text that was prepared.
    pub sql: &'a [u8],
}

impl Lease {
    /// Takes note of what a Query will change; of several statements these are known that change
    /// settings, or what is listened to.
    pub fn note_query(
        &mut self,
        plan: &Rc<Plan>,
        sql: &[u8],
        parts: Option<Vec<Rc<Plan>>>,
        known: SessionFacts<'_>,
        out: &mut Departures<'_>,
    ) {
        let mut pins = self.note_plan(plan, sql, known, out);
        self.round().drew.push(plan.clone());
        if let Some(parts) = &parts {
            let stays = |part: &Rc<Plan>| effect::pins(part) || self.is_in_doubt(part, known);
            pins = parts.iter().any(stays);
        }
        self.is_pinned |= pins;
        if let Some(parts) = parts {
            parts.iter().for_each(|part| self.note_change(part, known));
            self.round().listens.extend(parts.into_iter().filter(effect::listens));
        }
        self.forgets |= effect::forgets(plan);
        self.end_round(known.now, out);
    }

    /// Takes note of what another message will change; `bound`: what a Bind names.
    pub fn note(
        &mut self,
        message: Frame<'_>,
        bound: Option<BoundStatement<'_>>,
        known: SessionFacts<'_>,
        out: &mut Departures<'_>,
    ) {
        match message.tag {
            tag::FUNCTION_CALL => self.note_unknown(known.now, out),
            tag::SYNC => {
                self.end_round(known.now, out);
                self.portals.end_round();
            }
            tag::EXECUTE => {
                let portal = Execute::read(message.body).ok().map(|run| run.portal);
                let bound = self.portals.execute(portal);
                self.round().drew.extend(bound);
                if self.sway.has_portal(portal) {
                    // What was prepared since it was bound was read before it is run.
                    self.begin_sway(out);
                }
            }
            tag::PARSE | tag::DESCRIBE | tag::CLOSE | tag::FLUSH => {
                self.round();
            }
            tag::BIND => {
                let portal = Bind::read(message.body).ok().map(|bind| bind.portal);
                self.note_bind(portal, bound, known, out);
            }
            _ => {}
        }
    }

    /// A round that is not looked into: it may do anything.
    pub fn note_unknown(&mut self, now: Instant, out: &mut Departures<'_>) {
        self.is_pinned = true;
        self.begin_sway(out);
        out(Departure::Leaves(Leaves::Lasting));
        out(Departure::UsesLocalBuffers);
        out(Departure::Draws);
        self.drawn.may_draw();
        out(Departure::Unsettles(Unsettles::Code));
        out(Departure::HoldsFacts);
        self.round().unknown = true;
        self.end_round(now, out);
    }

    /// The round is whole: the server has it from now on.
    pub fn end_round(&mut self, now: Instant, out: &mut Departures<'_>) {
        if self.sway.is_swayed() && !self.goes_on() {
            // Its transaction ends here, and what was set for it with that.
            out(Departure::NextEpoch);
        }
        self.round();
        self.rounds.end(now);
        out(Departure::RoundEnds(now));
    }

    /// What is bound counts as run: any portal may be, now or later in the transaction.
    fn note_bind(
        &mut self,
        portal: Option<&[u8]>,
        bound: Option<BoundStatement<'_>>,
        known: SessionFacts<'_>,
        out: &mut Departures<'_>,
    ) {
        self.sway.bind(portal, bound.is_none_or(|bound| bound.plan.effects.alters_session));
        self.portals.bind(bound.map(|bound| bound.plan.clone()), portal);
        match bound {
            Some(BoundStatement { plan, sql }) => {
                self.is_pinned |= self.note_plan(plan, sql, known, out);
            }
            None => {
                self.round().unknown = true;
                self.begin_sway(out);
                out(Departure::Draws);
                self.drawn.may_draw();
                out(Departure::Leaves(Leaves::Some));
                out(Departure::UsesLocalBuffers);
            }
        }
    }

    /// Whether the statement is for the client's own connection alone.
    fn note_plan(
        &mut self,
        plan: &Rc<Plan>,
        sql: &[u8],
        known: SessionFacts<'_>,
        out: &mut Departures<'_>,
    ) -> bool {
        let pins = effect::pins(plan) || self.is_in_doubt(plan, known);
        let effects = &plan.effects;
        if effects.leaves != Leaves::Nothing {
            out(Departure::Leaves(effects.leaves));
        }
        // With `pg_temp` in `search_path` a plain CREATE TABLE makes a temporary one.
        if effects.uses_temporary || (effects.leaves != Leaves::Nothing && known.settings.pins()) {
            out(Departure::UsesLocalBuffers);
        }
        if effects.sequences.may_draw {
            out(Departure::Draws);
            self.drawn.may_draw();
        }
        if self.sway.is_swayed() && sql.contains(&b'\\') {
            // Where its strings end depends on what was set for the transaction.
            out(Departure::Leaves(Leaves::Some));
            out(Departure::UsesLocalBuffers);
            self.begin_sway(out);
        }
        if effects.alters_session || (self.sway.is_swayed() && effect::ends(plan)) {
            self.begin_sway(out);
        }
        out(Departure::Unproven(plan.reason));
        let unsettles = effect::unsettles(plan);
        if unsettles >= Unsettles::Changes {
            // Before the server knows of it and until its transaction has ended, so that no proof
            // rests on what it changes.
            out(Departure::Unsettles(unsettles));
            out(Departure::HoldsFacts);
        }
        self.note_change(plan, known);
        let round = self.round();
        round.plans.push(plan.clone());
        round.listens.extend(Some(plan.clone()).filter(effect::listens));
        pins
    }

    /// What is sent from now on may be read by other settings.
    fn begin_sway(&mut self, out: &mut Departures<'_>) {
        self.sway.begin();
        self.drawn.names_change();
        out(Departure::NextEpoch);
    }

    /// Whether a setting is given a value that only its own server connection is sure to read as
    /// it was meant: one beyond ASCII, not in UTF-8.
    fn is_in_doubt(&self, plan: &Rc<Plan>, known: SessionFacts<'_>) -> bool {
        let value = match effect::change(plan) {
            Some(Change::Set(_, value)) => value,
            _ => return false,
        };
        let is_utf8 = || known.settings.is_utf8(known.reported);
        !value.is_ascii() && (self.sway.is_swayed() || !is_utf8())
    }

    /// Takes note of what a statement changes in the settings.
    fn note_change(&mut self, plan: &Rc<Plan>, known: SessionFacts<'_>) {
        let Some(change) = effect::change(plan) else { return };
        let reset = known.settings.begun_with(&change);
        if !reset.is_empty() {
            self.restore.await_round();
            self.round().resets.push(reset);
        }
        self.round().changes.push(change);
    }
}

#[cfg(test)]
mod tests {
    use wire::postgres::message;

    use super::*;
    use crate::plan::tests::plan;

    /// What goes out for a session with these settings, and servers that report those.
    struct Noting {
        settings: SessionSettings,
        reported: Reported,
        told: Vec<Departure>,
    }

    impl Noting {
        fn new(settings: &[(&str, &str)], reported: &[(&str, &str)]) -> Self {
            let settings = SessionSettings::new(settings.iter().copied());
            let reported = reported.iter().map(|(name, value)| ((*name).into(), (*value).into()));
            Self { settings, reported: reported.collect(), told: Vec::new() }
        }

        fn does(&mut self, note: impl FnOnce(SessionFacts<'_>, &mut Departures<'_>)) {
            let Self { settings, reported, told } = self;
            note(SessionFacts { now: Instant::now(), settings, reported }, &mut |departure| {
                if !matches!(departure, Departure::Unproven(_) | Departure::RoundEnds(_)) {
                    told.push(departure);
                }
            });
        }
    }

    /// What is done for a session without settings.
    fn noted(note: impl FnOnce(SessionFacts<'_>, &mut Departures<'_>)) -> Vec<Departure> {
        let mut session = Noting::new(&[], &[]);
        session.does(note);
        session.told
    }

    /// A lease in whose open transaction these were sent and answered.
    fn within(texts: &[&str]) -> Lease {
        let mut lease = Lease::default();
        for sql in texts {
            query(&mut lease, sql);
            let mut round = lease.rounds.answered().unwrap();
            lease.transaction.turn(true, round.asked);
            lease.transaction.add(&mut round);
        }
        lease
    }

    /// What a Query does before it goes out.
    fn query(lease: &mut Lease, sql: &str) -> Vec<Departure> {
        noted(|known, out| lease.note_query(&plan(sql), sql.as_bytes(), None, known, out))
    }

    /// What another message does before it goes out; `sql` is what a Bind names, where known.
    fn note(lease: &mut Lease, tag: u8, body: &[u8], sql: Option<&str>) -> Vec<Departure> {
        let mut bytes = Vec::new();
        message(&mut bytes, tag, |out| out.extend_from_slice(body));
        let plan = sql.map(plan);
        let bound = plan.as_ref().zip(sql);
        let bound = bound.map(|(plan, sql)| BoundStatement { plan, sql: sql.as_bytes() });
        let frame = Frame { tag, body: &bytes[5..], whole: &bytes };
        noted(|known, out| lease.note(frame, bound, known, out))
    }

    /// The body of a Bind of the statement `s` to this portal.
    fn bind(portal: &str) -> Vec<u8> {
        [portal.as_bytes(), b"\0s\0", &[0; 6]].concat()
    }

    fn execute(portal: &str) -> Vec<u8> {
        [portal.as_bytes(), &[0; 5]].concat()
    }

    #[test]
    fn a_plain_query_does_nothing_before_it_goes_out_and_is_a_round() {
        let mut lease = Lease::default();
        assert_eq!(query(&mut lease, "SELECT 1"), []);
        let round = lease.rounds.front().unwrap();
        assert!(round.asked.is_some() && round.plans.len() == 1 && round.drew.len() == 1);
        assert!(!lease.rounds.is_within() && lease.begun);
    }

    #[test]
    fn facts_are_given_up_in_front_of_what_changes_them() {
        let told = query(&mut Lease::default(), "DROP TABLE t");
        let at = |wanted: &Departure| told.iter().position(|departure| departure == wanted);
        let unsettles = effect::unsettles(&plan("DROP TABLE t"));
        assert!(unsettles >= Unsettles::Changes);
        assert!(at(&Departure::Unsettles(unsettles)) < at(&Departure::HoldsFacts), "{told:?}");
        assert!(at(&Departure::HoldsFacts).is_some());
    }

    #[test]
    fn what_is_not_looked_into_may_do_anything() {
        let mut lease = Lease::default();
        let told = note(&mut lease, tag::FUNCTION_CALL, b"", None);
        for wanted in [
            Departure::NextEpoch,
            Departure::Leaves(Leaves::Lasting),
            Departure::UsesLocalBuffers,
            Departure::Draws,
            Departure::Unsettles(Unsettles::Code),
            Departure::HoldsFacts,
        ] {
            assert!(told.contains(&wanted), "{wanted:?}");
        }
        assert!(lease.rounds.front().is_some_and(|round| round.unknown) && lease.sway.is_swayed());
        assert!(lease.is_pinned);
        let mut lease = Lease::default();
        let told = note(&mut lease, tag::BIND, &bind(""), None);
        let wanted = [
            Departure::NextEpoch,
            Departure::Draws,
            Departure::Leaves(Leaves::Some),
            Departure::UsesLocalBuffers,
        ];
        assert_eq!(told, wanted);
        assert!(lease.rounds.open().is_some_and(|round| round.unknown));
    }

    #[test]
    fn what_is_prepared_behind_a_setting_is_so_in_another_epoch_until_the_transaction_ends() {
        let mut lease = within(&["BEGIN"]);
        assert_eq!(query(&mut lease, "SELECT 1"), []);
        assert_eq!(query(&mut lease, "SET LOCAL search_path = a"), [Departure::NextEpoch]);
        assert_eq!(query(&mut lease, "SELECT 1"), []);
        assert!(lease.sway.is_swayed());
        // Once as it is sent, and once as what follows it is outside.
        assert_eq!(query(&mut lease, "COMMIT"), [Departure::NextEpoch, Departure::NextEpoch]);
        // It went out before the end of the transaction was known.
        assert_eq!(query(&mut lease, "SELECT 1"), [Departure::NextEpoch]);
        assert!(lease.sway.is_swayed());
    }

    #[test]
    fn a_setting_that_was_bound_counts_where_its_portal_is_executed() {
        let mut lease = within(&["BEGIN"]);
        let set = Some("SET LOCAL search_path = a");
        assert_eq!(note(&mut lease, tag::BIND, &bind("p"), set), [Departure::NextEpoch]);
        assert_eq!(note(&mut lease, tag::BIND, &bind(""), Some("SELECT 1")), []);
        assert_eq!(note(&mut lease, tag::EXECUTE, &execute(""), None), []);
        assert_eq!(note(&mut lease, tag::EXECUTE, &execute("p"), None), [Departure::NextEpoch]);
        let round = lease.rounds.open().unwrap();
        assert_eq!((round.plans.len(), round.drew.len()), (2, 1));
        assert_eq!(note(&mut lease, tag::SYNC, b"", None), []);
        assert!(!lease.rounds.is_within());
    }

    #[test]
    fn where_a_string_ends_is_not_known_behind_a_setting_of_the_transaction() {
        let mut lease = within(&["BEGIN", "SET LOCAL standard_conforming_strings = off"]);
        let told = query(&mut lease, r"SELECT 'a\'");
        assert!(told.contains(&Departure::Leaves(Leaves::Some)), "{told:?}");
        assert!(told.contains(&Departure::UsesLocalBuffers));
        assert_eq!(query(&mut within(&["BEGIN"]), r"SELECT 'a\'"), []);
    }

    #[test]
    fn of_several_statements_those_about_the_session_say_whether_it_keeps_its_server() {
        let sql = "SET a.b = 1; SELECT 1";
        let told = |parts: Option<Vec<Rc<Plan>>>| {
            let mut lease = Lease::default();
            noted(|known, out| lease.note_query(&plan(sql), sql.as_bytes(), parts, known, out));
            let changes = lease.rounds.front().map_or(0, |round| round.changes.len());
            (lease.is_pinned, changes)
        };
        assert_eq!(told(None), (true, 0));
        assert_eq!(told(Some(vec![plan("SET a.b = 1")])), (false, 1));
        assert_eq!(told(Some(vec![plan("SET a.b = 1"), plan("LISTEN a")])), (true, 1));
    }

    #[test]
    fn a_setting_beyond_ascii_is_followed_where_the_client_s_encoding_is_known() {
        let sql = "SET a.b = '\u{e9}'";
        let pins = |encoding: &str, swayed: bool| {
            let mut session = Noting::new(&[], &[("client_encoding", encoding)]);
            let mut lease = Lease::default();
            if swayed {
                lease.sway.begin();
            }
            session.does(|known, out| {
                lease.note_query(&plan(sql), sql.as_bytes(), None, known, out);
            });
            lease.is_pinned
        };
        assert!(!pins("UTF8", false) && pins("UTF8", true) && pins("LATIN1", false));
    }

    #[test]
    fn behind_a_reset_of_what_the_session_began_with_the_next_round_waits() {
        let mut session = Noting::new(&[("timezone", "UTC")], &[]);
        let mut awaits = |sql: &str| {
            let mut lease = within(&["BEGIN"]);
            lease.is_pinned = true;
            session.does(|known, out| {
                lease.note_query(&plan(sql), sql.as_bytes(), None, known, out);
            });
            !lease.takes_more(false)
        };
        assert!(awaits("RESET timezone") && awaits("RESET ALL"));
        assert!(!awaits("RESET search_path") && !awaits("SET timezone = 'CET'"));
    }
}
