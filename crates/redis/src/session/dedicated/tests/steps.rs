//! Single steps, and what comes out of each.

use super::super::*;

#[test]
fn what_waits_for_others_has_a_connection_for_that_alone_unless_the_client_has_one() {
    let mut machine = Dedicated::default();
    let wait = |machine: &Dedicated, is_amid| machine.wait(3, is_amid);
    assert_eq!(wait(&machine, false), [Some(Action::Take(3)), Some(Action::Release(3))]);
    assert_eq!(wait(&machine, true), [None, None]);
    machine.set_keeps(true);
    assert_eq!(wait(&machine, false), [Some(Action::Take(3)), None]);
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
    assert_eq!((asked.place, asked.effect), (1, StepEffect::Unknown));
    let said = [Reply::Ok, Reply::Queued].map(Action::Say);
    assert_eq!(out, [&said[..], &[Action::Take(1)]].concat());
    let elsewhere = machine.step(step(Some(2), StepEffect::Reads), &mut out);
    assert_eq!(elsewhere, Err("CROSSSLOT weir: the keys of a transaction are on several servers"));
}
