//! Single steps, and what comes out of each.

use super::super::*;

#[test]
fn what_waits_for_others_has_a_connection_for_that_alone_unless_the_client_has_one() {
    let (mut machine, mut out) = (Dedicated::default(), Vec::new());
    let at_hand = |bond| Action::Ask(OwnRequest::at_hand(3, bond));
    machine.wait(3, &mut out);
    assert_eq!(out, [Action::Take(3), at_hand(Bond::Waits), Action::Release(3)]);
    out.clear();
    machine.ask_alone(3, &mut out);
    assert_eq!(out, [Action::Take(3), at_hand(Bond::None), Action::Release(3)]);
    machine.watch(3, 0, &mut out).unwrap();
    out.clear();
    machine.wait(3, &mut out);
    assert_eq!(out, [at_hand(Bond::WaitsAmidWatch)]);
    out.clear();
    machine.lose_connection(3, &mut out);
    machine.wait(3, &mut out);
    assert_eq!(out, [Action::Take(3), at_hand(Bond::WaitsAmidWatch), Action::Release(3)]);
    let mut machine = Dedicated::default();
    machine.track(&TrackingRequest::default(), (vec![3], false), 0, &mut out).unwrap();
    out.clear();
    machine.wait(3, &mut out);
    assert_eq!(out, [at_hand(Bond::Waits)]);
}

#[test]
fn a_client_that_tracks_is_closed_with_the_end_of_any_connection() {
    let (mut machine, mut out) = (Dedicated::default(), Vec::new());
    machine.lose_connection(1, &mut out);
    assert!(out.is_empty(), "{out:?}");
    machine.track(&TrackingRequest::default(), (vec![1, 2], false), 0, &mut out).unwrap();
    out.clear();
    machine.lose_connection(1, &mut out);
    assert_eq!(out, [Action::Close(Closing::TrackingLost)]);
}

#[test]
fn reset_hears_nothing_of_what_it_undoes() {
    let (mut machine, mut out) = (Dedicated::default(), Vec::new());
    machine.track(&TrackingRequest::default(), (vec![1, 2], false), 0, &mut out).unwrap();
    machine.watch(1, 1, &mut out).unwrap();
    out.clear();
    machine.reset(&mut out);
    let is_heard = |of: &Action| match of {
        Action::Ask(of) => of.is_heard,
        Action::AskAll(of) => of.is_heard,
        of => matches!(of, Action::Say(_)),
    };
    assert!(!out.iter().any(is_heard), "{out:?}");
    assert_eq!(out[2..], [Action::Release(1), Action::Release(2)]);
    assert_eq!(machine, Dedicated::default());
}

#[test]
fn what_is_queued_before_the_first_key_has_a_limit_and_goes_out_with_it() {
    let (mut machine, mut out) = (Dedicated::default(), Vec::new());
    machine.begin(&mut out);
    let long = vec![b'x'; 40 << 10];
    let step = |place, effect| TransactionStep { place, effect, bytes: &long };
    assert_eq!(machine.step(step(None, StepEffect::Reads), &mut out), Ok(()));
    let refused = machine.step(step(None, StepEffect::Writes), &mut out);
    assert_eq!(refused, Err("ERR weir: too much is queued before the first key"));
    assert_eq!(machine.step(step(Some(1), StepEffect::Unknown), &mut out), Ok(()));
    let Some(Action::Ask(asked)) = out.pop() else { panic!("nothing is asked: {out:?}") };
    assert_eq!(asked.words, RequestWords::FromMulti(vec![long.clone(), long.clone()]));
    assert_eq!((asked.place, asked.bond), (1, Bond::Step(StepEffect::Unknown)));
    let said = [Reply::Ok, Reply::Queued].map(Action::Say);
    assert_eq!(out, [&said[..], &[Action::Take(1)]].concat());
    let elsewhere = machine.step(step(Some(2), StepEffect::Reads), &mut out);
    assert_eq!(elsewhere, Err("CROSSSLOT weir: the keys of a transaction are on several servers"));
}
