use proptest::prelude::*;
use wire::postgres::backend::{self, Status};

use super::*;
use wire::postgres::Refusal;

/// Answers to `expected`, with `rows` of each Execute, the `failing`th question refused; what the
/// client is to hear of them, and what the server says.
fn conversation(expected: &[Expect], failing: Option<usize>) -> (Vec<u8>, Vec<u8>) {
    let (mut heard, mut said) = (Vec::new(), Vec::new());
    let mut skipping = false;
    for (n, answer) in expected.iter().enumerate() {
        let end = matches!(answer, Expect::Sync | Expect::Query(_));
        if skipping && !end {
            continue;
        }
        let mut part = Vec::new();
        let mut invented = false;
        let fails = failing == Some(n) && !matches!(answer, Expect::Sync) && !skipping;
        let fails = fails
            && !matches!(answer, Expect::Parse(ResponseAction::Invent, _))
            && !matches!(answer, Expect::Close(_) | Expect::Forget(_) | Expect::Say(_));
        if fails {
            Refusal::error("42601", "no").encode(&mut part);
        }
        match answer {
            _ if fails && !end => skipping = true,
            Expect::Parse(action, _) => {
                backend::put_parse_complete(&mut part);
                invented = *action == ResponseAction::Invent;
            }
            Expect::Bind(_) => backend::put_bind_complete(&mut part),
            Expect::DescribeStatement | Expect::Shape(_) => {
                backend::put_parameter_description(&mut part, &[23]);
                backend::put_no_data(&mut part);
            }
            Expect::DescribePortal => backend::put_no_data(&mut part),
            Expect::Execute(_) => {
                part.extend_from_slice(b"D\0\0\0\x0c\0\x01\0\0\0\x02ok");
                backend::put_command_complete(&mut part, "SELECT 1");
            }
            Expect::Close(action) => {
                backend::put_close_complete(&mut part);
                invented = *action == ResponseAction::Invent;
            }
            Expect::Forget(_) => backend::put_close_complete(&mut part),
            Expect::Say(message) | Expect::Deallocate(message) => {
                part.extend_from_slice(message);
                invented = true;
            }
            Expect::Refuse(_) => unreachable!("see `compose_tests`"),
            Expect::CopyEnd | Expect::Settlement => unreachable!("see `copy_tests`"),
            Expect::Sync | Expect::Query(_) => {
                if matches!(answer, Expect::Query(_)) && !skipping && !fails {
                    backend::put_command_complete(&mut part, "SELECT 0");
                }
                skipping = false;
                backend::put_ready_for_query(&mut part, Status::Idle);
            }
        }
        let swallowed = is_swallowed(answer);
        if !swallowed
            || (fails
                && matches!(
                    answer,
                    Expect::Parse(..) | Expect::Bind(_) | Expect::Execute(_) | Expect::Shape(_)
                ))
        {
            heard.extend_from_slice(&part);
        }
        if !invented {
            said.extend_from_slice(&part);
        }
    }
    (heard, said)
}

/// Whether the client hears nothing of what the server says.
fn is_swallowed(answer: &Expect) -> bool {
    matches!(
        answer,
        Expect::Parse(ResponseAction::Swallow, _)
            | Expect::Bind(ResponseAction::Swallow)
            | Expect::Execute(ResponseAction::Swallow)
            | Expect::Close(ResponseAction::Swallow)
            | Expect::Query(ResponseAction::Swallow)
            | Expect::Forget(_)
            | Expect::Shape(_)
    )
}

fn action() -> impl Strategy<Value = ResponseAction> {
    prop_oneof![
        Just(ResponseAction::Pass),
        Just(ResponseAction::Swallow),
        Just(ResponseAction::Invent)
    ]
}

fn extended() -> impl Strategy<Value = Vec<Expect>> {
    let one = prop_oneof![
        (action(), 1..5_u64).prop_map(|(action, n)| Expect::Parse(action, n)),
        Just(Expect::Bind(ResponseAction::Pass)),
        Just(Expect::Bind(ResponseAction::Swallow)),
        (1..5_u64).prop_map(Expect::Forget),
        Just(Expect::DescribeStatement),
        Just(Expect::DescribePortal),
        Just(Expect::Execute(ResponseAction::Pass)),
        Just(Expect::Execute(ResponseAction::Swallow)),
        Just(Expect::Shape(1)),
        Just(Expect::Say(b"C\0\0\0\x0bLISTEN\0")),
        action().prop_map(Expect::Close),
    ];
    proptest::collection::vec(one, 0..8).prop_map(|mut round| {
        round.push(Expect::Sync);
        round
    })
}

fn rounds() -> impl Strategy<Value = Vec<Expect>> {
    let query = prop_oneof![Just(ResponseAction::Pass), Just(ResponseAction::Swallow)]
        .prop_map(|f| vec![Expect::Query(f)]);
    proptest::collection::vec(prop_oneof![3 => extended(), 1 => query], 1..5)
        .prop_map(|rounds| rounds.concat())
}

proptest! {
    #[test]
    fn a_client_hears_its_own_answers_however_they_are_cut(
        expected in rounds(),
        failing in proptest::option::of(0..20_usize),
        cuts in proptest::collection::vec(1..40_usize, 1..60),
    ) {
        let (wanted, said) = conversation(&expected, failing);
        let mut script = Script::default();
        expected.iter().for_each(|answer| script.expect(*answer));
        let (mut heard, mut rest, mut at) = (Vec::new(), Vec::new(), 0);
        for cut in cuts.iter().cycle() {
            let to = (at + cut).min(said.len());
            rest.extend_from_slice(&said[at..to]);
            at = to;
            let bytes = std::mem::take(&mut rest);
            let taken = script.hear(&bytes, &mut |piece| {
                if let ServerEvent::Bytes(bytes) = piece {
                    heard.extend_from_slice(bytes);
                }
            });
            rest = bytes[taken.expect("the server says what it was asked")..].to_vec();
            if at == said.len() {
                break;
            }
        }
        prop_assert!(script.is_idle() && rest.is_empty());
        prop_assert_eq!(heard, wanted);
    }

    #[test]
    fn no_bytes_of_a_server_make_it_panic(
        expected in rounds(),
        said in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut script = Script::default();
        expected.iter().for_each(|answer| script.expect(*answer));
        let _ = script.hear(&said, &mut |_| {});
    }
}

#[test]
fn what_nobody_asked_for_is_a_fault() {
    let mut script = Script::default();
    script.expect(Expect::Sync);
    let mut said = Vec::new();
    backend::put_bind_complete(&mut said);
    assert_eq!(script.hear(&said, &mut |_| {}), Err(Unasked('2')));
}

#[test]
fn rows_are_passed_on_in_one_piece() {
    let mut script = Script::default();
    script.expect(Expect::Query(ResponseAction::Pass));
    let mut said = Vec::new();
    wire::postgres::message(&mut said, b'T', |out| out.extend_from_slice(&[0, 0]));
    for _ in 0..100 {
        wire::postgres::message(&mut said, b'D', |out| out.extend_from_slice(&[0, 0]));
    }
    let rows = said.len();
    backend::put_command_complete(&mut said, "SELECT 100");
    backend::put_ready_for_query(&mut said, Status::Idle);
    let mut pieces = Vec::new();
    let taken = script.hear(&said, &mut |heard| {
        if let ServerEvent::Bytes(piece) = heard {
            pieces.push(piece);
        }
    });
    assert_eq!(taken, Ok(said.len()));
    assert_eq!(pieces[0].len(), rows);
    assert_eq!(pieces.len(), 3);
}

/// A message that the server says of its own accord.
fn unasked(tag: u8, body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(body.len() + 4).unwrap();
    [&[tag][..], &len.to_be_bytes(), body].concat()
}

#[test]
fn what_answers_nothing_is_no_answer_wherever_it_is_cut() {
    let stops = unasked(b'E', b"SFATAL\0VFATAL\0C57P01\0Mterminating connection\0\0");
    let crash = unasked(b'N', b"SWARNING\0VWARNING\0C57P02\0Mcrash of another process\0\0");
    let notified = unasked(b'A', b"\0\0\0\x07channel\0payload\0");
    let changed = unasked(b'S', b"TimeZone\0UTC\0");
    let mut answer = Vec::new();
    backend::put_command_complete(&mut answer, "INSERT 0 1");
    backend::put_ready_for_query(&mut answer, Status::Idle);
    for aside in [&stops, &crash, &notified, &changed] {
        let said = [&answer[..], aside].concat();
        for cut in 0..said.len() {
            let mut script = Script::of_query();
            let (mut heard, mut beside) = (Vec::new(), Vec::new());
            let mut note = |heard_now: ServerEvent<'_>| match heard_now {
                ServerEvent::Bytes(bytes) => heard.extend_from_slice(bytes),
                ServerEvent::Aside(bytes) => beside.extend_from_slice(bytes),
                _ => {}
            };
            let taken = script.hear(&said[..cut], &mut note).unwrap();
            assert_eq!(script.hear(&said[taken..], &mut note), Ok(said.len() - taken));
            assert!(heard == answer && beside == **aside, "cut at {cut}");
            assert!(script.is_idle());
        }
    }
    // Within an answer a notification is none of it either, and a notice is.
    let said = [&notified[..], &crash, &answer].concat();
    let (mut heard, mut beside) = (Vec::new(), Vec::new());
    let taken = Script::of_query().hear(&said, &mut |heard_now| match heard_now {
        ServerEvent::Bytes(bytes) => heard.extend_from_slice(bytes),
        ServerEvent::Aside(bytes) => beside.extend_from_slice(bytes),
        _ => {}
    });
    assert_eq!(taken, Ok(said.len()));
    assert!(heard == [&crash[..], &answer].concat() && beside == notified);
}
