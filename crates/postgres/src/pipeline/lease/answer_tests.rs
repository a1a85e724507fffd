use super::*;
use crate::plan::tests::plan;

/// A session with what it was told to do.
#[derive(Default)]
struct Session {
    settings: SessionSettings,
    is_pinned: bool,
    leaves: Leaves,
    told: Vec<String>,
    ended: Option<TransactionEnd>,
}

impl Arriving for Session {
    fn settings(&self) -> &SessionSettings {
        &self.settings
    }

    fn strings(&self) -> Strings {
        Strings::Standard
    }

    fn is_pinned(&self) -> bool {
        self.is_pinned
    }

    fn is_pinned_by_mode(&self) -> bool {
        false
    }

    fn keeps_last_values(&self) -> bool {
        false
    }

    fn leaves(&self) -> Leaves {
        self.leaves
    }

    fn is_restoring(&self) -> bool {
        false
    }

    fn is_for_another(&self, code: &[u8]) -> bool {
        code == b"25006"
    }

    fn refusal(&self, _: Why) -> Vec<u8> {
        b"refusal".to_vec()
    }

    fn carry_out(&mut self, arrival: Arrival<'_>) {
        let text = match arrival {
            Arrival::Tell { early, bytes } => {
                String::from_utf8_lossy(&[early, bytes].concat()).into_owned()
            }
            Arrival::Answered(answered) => format!("answered {}", answered.round.plans.len()),
            Arrival::Diverted([], _) | Arrival::Unsettles(Unsettles::Nothing) => return,
            Arrival::HandOver(request) => String::from_utf8_lossy(request.bytes()).into_owned(),
            Arrival::Ended(end) => {
                self.ended = Some(end);
                "ended".to_owned()
            }
            Arrival::Pins(pins) => {
                self.is_pinned = pins;
                format!("pins {pins}")
            }
            Arrival::Leaves(leaves) => {
                self.leaves = leaves;
                format!("leaves {leaves:?}")
            }
            other => format!("{other:?}"),
        };
        self.told.push(text);
    }
}

impl Session {
    /// What it is told to do by what its server says.
    fn hear(&mut self, lease: &mut Lease, heard: Heard<'_>) -> Vec<String> {
        lease.hear(heard, Instant::now, self);
        std::mem::take(&mut self.told)
    }

    fn ready(&mut self, lease: &mut Lease, status: Status) -> Vec<String> {
        self.hear(lease, Heard::Ready { status, swallowed: false })
    }
}

/// A lease that has sent these, each a round.
fn sent(rounds: &[&str]) -> Lease {
    send(Lease::default(), rounds)
}

fn send(mut lease: Lease, rounds: &[&str]) -> Lease {
    for sql in rounds {
        let plan = plan(sql);
        if effect::listens(&plan) {
            lease.round().listens.push(plan.clone());
        }
        let changes = effect::change(&plan);
        lease.round().changes.extend(changes);
        lease.round().plans.push(plan);
        lease.rounds.end(Instant::now());
    }
    lease
}

/// The body of an ErrorResponse.
fn error(severity: &str, code: &str) -> Vec<u8> {
    format!("S{severity}\0V{severity}\0C{code}\0Mno\0\0").into_bytes()
}

#[test]
fn an_answer_is_told_and_counted_and_its_transaction_ends_with_it() {
    let (mut lease, mut session) = (sent(&["INSERT INTO t VALUES (1)"]), Session::default());
    assert_eq!(session.hear(&mut lease, Heard::Bytes(b"row")), ["row"]);
    assert!(lease.reply == super::super::reply::Reply::Told);
    let told = session.ready(&mut lease, Status::Idle);
    assert_eq!(told, ["SettleNames", "answered 1", "ReleasesFacts", "ended"]);
    assert!(session.ended.is_some_and(|end| end.wrote && end.holds));
    assert!(lease.is_quiet() && !lease.is_open());
}

#[test]
fn an_open_transaction_ends_with_the_round_that_closes_it() {
    let (mut lease, mut session) = (sent(&["BEGIN", "COMMIT"]), Session::default());
    assert_eq!(session.ready(&mut lease, Status::InTransaction), ["SettleNames", "answered 1"]);
    assert!(lease.is_open() && session.hear(&mut lease, Heard::Completed(b"COMMIT")).is_empty());
    session.ready(&mut lease, Status::Idle);
    assert!(session.ended.is_some_and(|end| end.holds && !end.wrote));
}

#[test]
fn more_answers_than_questions_end_the_client_and_the_connection() {
    let mut session = Session::default();
    let told = session.ready(&mut Lease::default(), Status::Idle);
    assert_eq!(told, ["GivesUp", "OutOfStep"]);
}

#[test]
fn a_read_that_another_server_could_answer_is_handed_over_untold_and_no_read_any_more() {
    let read = plan("SELECT 1");
    let mut lease = Lease::new(Some(Round::query(b"round".as_slice().into(), Instant::now())));
    lease.round().plans.push(read.clone());
    lease.rounds.end(Instant::now());
    let mut session = Session::default();
    assert!(session.hear(&mut lease, Heard::Bytes(b"row")).is_empty());
    assert_eq!(session.hear(&mut lease, Heard::Name(Outcome::Done)), ["Name(Done)"]);
    let body = error("ERROR", "25006");
    let failed = Heard::Failed { body: &body, swallowed: false };
    assert!(session.hear(&mut lease, failed).is_empty() && read.is_refuted());
    assert!(session.hear(&mut lease, Heard::Bytes(b"error")).is_empty());
    assert_eq!(session.ready(&mut lease, Status::Idle), ["UndoNames", "round"]);
    assert!(session.hear(&mut lease, Heard::Bytes(b"ready")).is_empty());
    assert!(lease.is_quiet());
}

#[test]
fn an_error_is_counted_where_the_client_hears_it() {
    let (mut lease, mut session) = (sent(&["SELECT 1"]), Session::default());
    let body = error("ERROR", "26000");
    let swallowed = Heard::Failed { body: &body, swallowed: true };
    assert_eq!(session.hear(&mut lease, swallowed), ["NextEpoch"]);
    let failed = Heard::Failed { body: &body, swallowed: false };
    assert_eq!(session.hear(&mut lease, failed), ["NextEpoch", "Error"]);
    assert!(lease.rounds.front().is_some_and(|round| round.failed));
    let told = session.hear(&mut lease, Heard::Refused(Why::NotDrawn));
    assert_eq!(told, ["Error", "refusal"]);
}

#[test]
fn what_answers_nothing_is_for_the_client_whose_the_connection_is() {
    let (mut lease, mut session) = (Lease::default(), Session::default());
    assert_eq!(session.hear(&mut lease, Heard::Aside(b"notice")), ["GivesUp"]);
    assert!(session.hear(&mut lease, Heard::Parameter(b"p")).is_empty());
    session.is_pinned = true;
    assert_eq!(session.hear(&mut lease, Heard::Aside(b"notice")), ["notice"]);
    assert_eq!(session.hear(&mut lease, Heard::Parameter(b"p")), ["NoteParameter([112])"]);
    session.is_pinned = false;
    lease.round();
    assert_eq!(session.hear(&mut lease, Heard::Aside(b"notice")), ["notice"]);
}

#[test]
fn what_discard_all_leaves_depends_on_what_was_sent_behind_it() {
    let after = |rounds: &[&str], leaves: Leaves| {
        let mut session = Session { is_pinned: true, leaves, ..Session::default() };
        session.ready(&mut sent(rounds), Status::Idle);
        (session.is_pinned, session.leaves)
    };
    assert_eq!(after(&["DISCARD ALL"], Leaves::Some), (false, Leaves::Nothing));
    assert!(after(&["DISCARD ALL", "LISTEN a"], Leaves::Nothing).0);
    assert_eq!(after(&["DISCARD ALL"], Leaves::Lasting), (true, Leaves::Lasting));
    let mut failed = sent(&["DISCARD ALL"]);
    failed.rounds.fail();
    let mut session = Session { is_pinned: true, ..Session::default() };
    session.ready(&mut failed, Status::Idle);
    assert!(session.is_pinned, "it has failed");
}

#[test]
fn what_is_read_by_a_transaction_s_settings_outlives_it_while_rounds_are_under_way() {
    let mut lease = sent(&["BEGIN", "SET LOCAL search_path = a", "COMMIT", "SELECT 1"]);
    lease.sway.begin();
    let mut session = Session::default();
    let mut next_epoch =
        |status| session.ready(&mut lease, status).contains(&"NextEpoch".to_owned());
    assert!(!next_epoch(Status::InTransaction) && !next_epoch(Status::InTransaction));
    assert!(next_epoch(Status::Idle), "the transaction has ended");
    assert!(next_epoch(Status::Idle), "the last one went out before that was known");
    assert!(!lease.sway.is_swayed());
}

#[test]
fn facts_are_held_back_while_a_change_of_the_catalogue_is_under_way() {
    let (mut lease, mut session) = (sent(&["DROP TABLE t", "DROP TABLE u"]), Session::default());
    let mut releases =
        || session.ready(&mut lease, Status::Idle).contains(&"ReleasesFacts".to_owned());
    assert!(!releases() && releases());
}

#[test]
fn the_end_of_a_round_that_resets_is_told_behind_what_is_brought_back() {
    let settings = SessionSettings::new([("timezone", "UTC")].into_iter());
    let mut session = Session { settings, ..Session::default() };
    let mut lease = sent(&["RESET ALL"]);
    lease.restore.await_round();
    session.hear(&mut lease, Heard::Bytes(b"completed"));
    session.ready(&mut lease, Status::Idle);
    assert!(session.hear(&mut lease, Heard::Bytes(b"ready")).is_empty());
    assert!(lease.restore.next().is_some() && lease.restore.is_under_way());
    assert_eq!(session.hear(&mut lease, Heard::Parameter(b"p")), ["TellParameter([112])"]);
    let restored = Heard::Ready { status: Status::Idle, swallowed: true };
    assert!(session.hear(&mut lease, restored).is_empty());
    assert_eq!(lease.restore.take_held(), b"ready");
}

#[test]
fn a_copy_whose_answers_are_not_known_keeps_the_connection_from_others() {
    let (mut lease, mut session) = (sent(&["SELECT 1"]), Session::default());
    session.hear(&mut lease, Heard::Unsettled { for_good: false });
    assert!(session.is_pinned && session.leaves == Leaves::Lasting);
    let told = session.hear(&mut lease, Heard::Unsettled { for_good: true });
    assert_eq!(told, ["pins true", "leaves Lasting", "GivesUp", "AmidCopy"]);
}
