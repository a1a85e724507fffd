use proptest::prelude::*;

use super::roles::{BackendState, Decision, ObservedBackend, Sight, decide};
use super::{Facts, Position};
use crate::settings::{Role, TwoPrimaries};

fn up(system: u64, in_recovery: bool, timeline: u32) -> ObservedBackend {
    let sight = Sight::Up(Facts {
        system: Some(system),
        in_recovery,
        timeline: Some(timeline),
        position: Position(1),
        replayed_age: None,
    });
    ObservedBackend { role: Role::Auto, sight }
}

const DOWN: ObservedBackend = ObservedBackend { role: Role::Auto, sight: Sight::Down };
const UNASKED: ObservedBackend = ObservedBackend { role: Role::Auto, sight: Sight::Unasked };

fn refuse(seen: &[ObservedBackend]) -> Decision {
    decide(seen, TwoPrimaries::Refuse, None)
}

#[test]
fn a_promotion_is_followed() {
    let before = refuse(&[up(1, false, 1), up(1, true, 1)]);
    assert_eq!(before.primary(), Some(0));
    let between = refuse(&[DOWN, up(1, true, 1)]);
    assert_eq!(between.primary(), None);
    assert_eq!(between.standings, [BackendState::Down, BackendState::Replica]);
    assert_eq!(refuse(&[DOWN, up(1, false, 2)]).primary(), Some(1));
}

#[test]
fn two_primaries_are_none() {
    let both = [up(1, false, 1), up(1, false, 2), up(1, true, 1)];
    let refused = refuse(&both);
    assert_eq!(refused.primary(), None);
    assert_eq!(refused.primaries, [0, 1]);
    assert_eq!(
        refused.standings,
        [BackendState::Rival, BackendState::Rival, BackendState::Replica]
    );

    let chosen = decide(&both, TwoPrimaries::HigherTimeline, None);
    assert_eq!(chosen.primary(), Some(1));
    assert_eq!(chosen.standings[0], BackendState::Misplaced);
    let same = [up(1, false, 2), up(1, false, 2)];
    assert_eq!(decide(&same, TwoPrimaries::HigherTimeline, None).primary(), None);
}

#[test]
fn nothing_is_written_before_every_server_was_asked() {
    let early = refuse(&[up(1, false, 1), UNASKED]);
    assert!(early.is_starting);
    assert_eq!(early.primary(), None);
    assert_eq!(refuse(&[up(1, false, 1), DOWN]).primary(), Some(0));
}

#[test]
fn a_server_of_another_cluster_gets_nothing() {
    let seen = [up(2, false, 1), up(1, false, 1), up(1, true, 1)];
    let decision = refuse(&seen);
    assert_eq!(decision.standings[0], BackendState::Foreign);
    assert_eq!(decision.primary(), Some(1));

    // Nor while the right ones are down, once it is known which those are.
    let alone = [up(2, false, 1), DOWN, DOWN];
    assert_eq!(decide(&alone, TwoPrimaries::Refuse, decision.system).primary(), None);
    // When all have been set up anew they are taken as they are.
    let anew = [up(3, false, 1), up(3, true, 1), up(3, true, 1)];
    assert_eq!(decide(&anew, TwoPrimaries::Refuse, decision.system).primary(), Some(0));
}

#[test]
fn what_the_file_says_of_a_role_holds() {
    let mut seen = [up(1, false, 1), up(1, false, 2)];
    seen[1].role = Role::Replica;
    let decision = refuse(&seen);
    assert_eq!(decision.primary(), Some(0));
    assert_eq!(decision.standings[1], BackendState::Misplaced);
    let mut demoted = [up(1, true, 1)];
    demoted[0].role = Role::Primary;
    assert_eq!(refuse(&demoted).standings, [BackendState::Replica]);
    // It breaks the tie between two clusters.
    let mut seen = [up(2, false, 1), up(1, false, 1)];
    seen[1].role = Role::Primary;
    assert_eq!(refuse(&seen).primary(), Some(1));
}

fn any_seen() -> impl Strategy<Value = ObservedBackend> {
    let role = prop_oneof![Just(Role::Auto), Just(Role::Primary), Just(Role::Replica)];
    let facts = (prop::option::of(1u64..3), any::<bool>(), prop::option::of(1u32..4));
    let up = facts.prop_map(|(system, in_recovery, timeline)| {
        let (position, replayed_age) = (Position(0), None);
        Sight::Up(Facts { system, in_recovery, timeline, position, replayed_age })
    });
    let sight = prop_oneof![Just(Sight::Unasked), Just(Sight::Down), up];
    (role, sight).prop_map(|(role, sight)| ObservedBackend { role, sight })
}

proptest! {
    #[test]
    fn a_primary_is_the_only_one_and_says_so_itself(
        seen in prop::collection::vec(any_seen(), 0..5),
        higher: bool,
        system in prop::option::of(1u64..3),
    ) {
        let rule = if higher { TwoPrimaries::HigherTimeline } else { TwoPrimaries::Refuse };
        let decision = decide(&seen, rule, system);
        prop_assert_eq!(decision.standings.len(), seen.len());
        let says = |place: usize| match seen[place].sight {
            Sight::Up(facts) => {
                let ours = facts.system.zip(decision.system).is_none_or(|(its, ours)| its == ours);
                ours && !facts.in_recovery && seen[place].role != Role::Replica
            }
            _ => false,
        };
        let all = (0..seen.len()).filter(|place| says(*place)).count();
        if let Some(primary) = decision.primary() {
            prop_assert!(says(primary));
            prop_assert!(all == 1 || rule == TwoPrimaries::HigherTimeline);
            let others = decision.standings.iter().filter(|s| **s == BackendState::Primary).count();
            prop_assert_eq!(others, 1);
        } else if all > 0 && !decision.is_starting {
            prop_assert!(all > 1);
            prop_assert!(decision.standings.iter().all(|s| *s != BackendState::Primary));
        }
        for (standing, one) in decision.standings.iter().zip(&seen) {
            if *standing == BackendState::Replica {
                prop_assert!(matches!(one.sight, Sight::Up(facts) if facts.in_recovery));
            }
        }
    }
}
