use super::*;
use crate::pipeline::lease::machine::LeaseOptions;
use crate::pipeline::script::Why;
use crate::pipeline::settings::SessionSettings;
use crate::plan::tests::plan;

/// What follows from something that is heard.
#[derive(Debug, Default)]
struct Following {
    /// What the session is told to do.
    told: Vec<String>,
    ended: Option<TransactionEnd>,
    leaves: Leaves,
}

/// What follows where so much was left on the connection.
fn follow(lease: &mut Lease, heard: ServerEvent<'_>, leaves: Leaves) -> Following {
    let mut follows = Following { leaves, ..Following::default() };
    let known = Hearing {
        now: Instant::now(),
        strings: Strings::Standard,
        leaves,
        is_restoring: false,
        refusal: b"refusal",
    };
    follows.ended = lease.hear(heard, known, &mut |arrival| {
        let text = match arrival {
            Arrival::Tell { early, bytes } => {
                String::from_utf8_lossy(&[early, bytes].concat()).into_owned()
            }
            Arrival::Answered(answered) => format!("answered {}", answered.round.plans.len()),
            Arrival::Diverted([], _) | Arrival::Unsettles(Unsettles::Nothing) => return,
            Arrival::HandOver(request) => String::from_utf8_lossy(request.bytes()).into_owned(),
            Arrival::Leaves(leaves) => {
                follows.leaves = leaves;
                format!("leaves {leaves:?}")
            }
            other => format!("{other:?}"),
        };
        follows.told.push(text);
    });
    follows
}

/// What the session is told to do by what its server says.
fn hear(lease: &mut Lease, heard: ServerEvent<'_>) -> Vec<String> {
    follow(lease, heard, Leaves::Nothing).told
}

/// What follows from a round's end.
fn ready(lease: &mut Lease, status: Status) -> Following {
    follow(lease, ServerEvent::Ready { status, swallowed: false }, Leaves::Nothing)
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
        if let Some(change) = effect::change(&plan) {
            let settings = SessionSettings::new([("timezone", "UTC")].into_iter());
            lease.round().resets.push(settings.begun_with(&change));
            lease.round().changes.push(change);
        }
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
    let mut lease = sent(&["INSERT INTO t VALUES (1)"]);
    assert_eq!(hear(&mut lease, ServerEvent::Bytes(b"row")), ["row"]);
    assert!(lease.reply == super::super::reply::Reply::Told);
    let follows = ready(&mut lease, Status::Idle);
    assert_eq!(follows.told, ["SettleNames", "answered 1", "ReleasesFacts"]);
    assert!(follows.ended.is_some_and(|end| end.wrote && end.holds));
    assert!(lease.is_quiet() && !lease.is_open());
}

#[test]
fn an_open_transaction_ends_with_the_round_that_closes_it() {
    let mut lease = sent(&["BEGIN", "COMMIT"]);
    let follows = ready(&mut lease, Status::InTransaction);
    assert_eq!(follows.told, ["SettleNames", "answered 1"]);
    assert!(lease.is_open() && follows.ended.is_none());
    assert!(hear(&mut lease, ServerEvent::Completed(b"COMMIT")).is_empty());
    let ended = ready(&mut lease, Status::Idle).ended;
    assert!(ended.is_some_and(|end| end.holds && !end.wrote));
}

#[test]
fn more_answers_than_questions_end_the_client_and_the_connection() {
    assert_eq!(ready(&mut Lease::default(), Status::Idle).told, ["GivesUp", "OutOfStep"]);
}

#[test]
fn a_read_that_another_server_could_answer_is_handed_over_untold_and_no_read_any_more() {
    let read = plan("SELECT 1");
    let mut lease = Lease::new(Some(Round::query(b"round".as_slice().into(), Instant::now())));
    lease.round().plans.push(read.clone());
    lease.rounds.end(Instant::now());
    assert!(hear(&mut lease, ServerEvent::Bytes(b"row")).is_empty());
    assert_eq!(hear(&mut lease, ServerEvent::Name(Outcome::Done)), ["Name(Done)"]);
    let body = error("ERROR", "25006");
    let failed = ServerEvent::Failed { body: &body, swallowed: false };
    assert!(hear(&mut lease, failed).is_empty() && read.is_refuted());
    assert!(hear(&mut lease, ServerEvent::Bytes(b"error")).is_empty());
    assert_eq!(ready(&mut lease, Status::Idle).told, ["UndoNames", "round"]);
    assert!(hear(&mut lease, ServerEvent::Bytes(b"ready")).is_empty());
    assert!(lease.is_quiet());
}

#[test]
fn an_error_is_counted_where_the_client_hears_it() {
    let mut lease = sent(&["SELECT 1"]);
    let body = error("ERROR", "26000");
    let swallowed = ServerEvent::Failed { body: &body, swallowed: true };
    assert_eq!(hear(&mut lease, swallowed), ["NextEpoch"]);
    let failed = ServerEvent::Failed { body: &body, swallowed: false };
    assert_eq!(hear(&mut lease, failed), ["NextEpoch", "Error"]);
    assert!(lease.rounds.front().is_some_and(|round| round.failed));
    assert_eq!(hear(&mut lease, ServerEvent::Refused(Why::NotDrawn)), ["Error", "refusal"]);
}

#[test]
fn what_answers_nothing_is_for_the_client_whose_the_connection_is() {
    let mut lease = Lease::default();
    assert_eq!(hear(&mut lease, ServerEvent::Aside(b"notice")), ["GivesUp"]);
    assert!(hear(&mut lease, ServerEvent::Parameter(b"p")).is_empty());
    lease.is_pinned = true;
    assert_eq!(hear(&mut lease, ServerEvent::Aside(b"notice")), ["notice"]);
    assert_eq!(hear(&mut lease, ServerEvent::Parameter(b"p")), ["NoteParameter([112])"]);
    lease.is_pinned = false;
    lease.round();
    assert_eq!(hear(&mut lease, ServerEvent::Aside(b"notice")), ["notice"]);
}

#[test]
fn what_discard_all_leaves_depends_on_what_was_sent_behind_it() {
    let after = |mut lease: Lease, leaves: Leaves| {
        lease.is_pinned = true;
        let done = ServerEvent::Ready { status: Status::Idle, swallowed: false };
        let follows = follow(&mut lease, done, leaves);
        (lease.is_pinned, follows.leaves)
    };
    assert_eq!(after(sent(&["DISCARD ALL"]), Leaves::Some), (false, Leaves::Nothing));
    assert!(after(sent(&["DISCARD ALL", "LISTEN a"]), Leaves::Nothing).0);
    assert_eq!(after(sent(&["DISCARD ALL"]), Leaves::Lasting), (true, Leaves::Lasting));
    let mut failed = sent(&["DISCARD ALL"]);
    failed.rounds.fail();
    assert!(after(failed, Leaves::Nothing).0, "it has failed");
    let options = LeaseOptions { is_pinned_by_mode: true, ..LeaseOptions::default() };
    let by_mode = Lease { options, ..sent(&["DISCARD ALL"]) };
    assert_eq!(after(by_mode, Leaves::Some), (true, Leaves::Nothing));
}

#[test]
fn what_is_read_by_a_transaction_s_settings_outlives_it_while_rounds_are_under_way() {
    let mut lease = sent(&["BEGIN", "SET LOCAL search_path = a", "COMMIT", "SELECT 1"]);
    lease.sway.begin();
    let mut next_epoch = |status| ready(&mut lease, status).told.contains(&"NextEpoch".to_owned());
    assert!(!next_epoch(Status::InTransaction) && !next_epoch(Status::InTransaction));
    assert!(next_epoch(Status::Idle), "the transaction has ended");
    assert!(next_epoch(Status::Idle), "the last one went out before that was known");
    assert!(!lease.sway.is_swayed());
}

#[test]
fn facts_are_held_back_while_a_change_of_the_catalogue_is_under_way() {
    let mut lease = sent(&["DROP TABLE t", "DROP TABLE u"]);
    let mut releases =
        || ready(&mut lease, Status::Idle).told.contains(&"ReleasesFacts".to_owned());
    assert!(!releases() && releases());
}

#[test]
fn the_end_of_a_round_that_resets_is_told_behind_what_is_brought_back() {
    let mut lease = sent(&["RESET ALL"]);
    lease.restore.await_round();
    hear(&mut lease, ServerEvent::Bytes(b"completed"));
    ready(&mut lease, Status::Idle);
    assert!(hear(&mut lease, ServerEvent::Bytes(b"ready")).is_empty());
    assert!(lease.restore.next().is_some() && lease.restore.is_under_way());
    assert_eq!(hear(&mut lease, ServerEvent::Parameter(b"p")), ["TellParameter([112])"]);
    let restored = ServerEvent::Ready { status: Status::Idle, swallowed: true };
    assert!(hear(&mut lease, restored).is_empty());
    assert_eq!(lease.restore.take_held(), b"ready");
}

#[test]
fn a_copy_whose_answers_are_not_known_keeps_the_connection_from_others() {
    let mut lease = sent(&["SELECT 1"]);
    let follows = follow(&mut lease, ServerEvent::Unsettled { for_good: false }, Leaves::Nothing);
    assert!(lease.is_pinned && follows.leaves == Leaves::Lasting);
    let told = hear(&mut lease, ServerEvent::Unsettled { for_good: true });
    assert_eq!(told, ["leaves Lasting", "GivesUp", "AmidCopy"]);
}
