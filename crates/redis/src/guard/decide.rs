//! What is to be done on a host next: a pure function of what was seen of its servers.
//!
//! It fails closed: what could be wrong where a server is not seen is not done. Only turning an
//! append-only file on does not wait for the other servers, since a master is without any copy
//! meanwhile.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::seen::ServerReport;

/// After `appendonly` was changed, or a server refused to have it changed, it is not turned off for
/// so long: turning it on again is a fork.
const LEFT_ON_FOR: Duration = Duration::from_secs(600);
/// A file that has grown by less than this of 100 since its last rewrite is left as it is.
const GROWN_PERCENT: u64 = 10;

/// What the guard goes by.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Whether `appendonly` of followed masters is turned off and on.
    pub appendonly: bool,
    /// For how long a followed master may be without a durable copy.
    pub behind_max: Duration,
    /// When the window that is open now was opened, if one is.
    pub opened: Option<SystemTime>,
    /// What time it is.
    pub now: SystemTime,
}

/// What Weir has of a followed master.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyState {
    /// All that it had sent at the last look is on Weir's disk.
    Durable,
    /// Weir takes its data set, or reads for the first time what it has of it.
    Taking,
    /// It is not, and has not been for so long.
    Behind(Duration),
}

/// A server of a host.
#[derive(Debug, Clone, Copy)]
pub struct GuardedServer<'a> {
    /// What it said when it was asked now; `None` where it did not answer.
    pub seen: Option<&'a ServerReport>,
    /// What Weir has of it, if it follows it.
    pub copied: Option<CopyState>,
    /// What it was told before, and when, whether or not it did it.
    pub told: &'a [(Act, SystemTime)],
}

/// What a server is told to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Rewrite its append-only file.
    Rewrite,
    /// Save an RDB file.
    Save,
    /// Keep no append-only file any more.
    FileOff,
    /// Keep an append-only file again, which has the server fork.
    FileOn,
}

impl Act {
    pub const ALL: [Self; 4] = [Self::Rewrite, Self::Save, Self::FileOff, Self::FileOn];

    /// What metrics and the log call the act.
    pub fn word(self) -> &'static str {
        match self {
            Self::Rewrite => "rewrite",
            Self::Save => "save",
            Self::FileOff => "appendonly-off",
            Self::FileOn => "appendonly-on",
        }
    }
}

/// What is to be done next, and by which server. They are in the order of their names.
pub fn decide(servers: &[GuardedServer<'_>], rule: &Rule) -> Option<(usize, Act)> {
    let first = |wanted: &dyn Fn(&GuardedServer<'_>) -> Option<Act>| {
        servers.iter().enumerate().find_map(|(number, of)| Some((number, wanted(of)?)))
    };
    if let Some(found) = first(&|of| file_on(of, rule)) {
        return Some(found);
    }
    if let Some(found) = first(&|of| file_off(of, rule)) {
        return Some(found);
    }
    let is_quiet =
        |of: &GuardedServer<'_>| of.seen.is_some_and(|seen| !seen.is_busy() && !seen.is_loading);
    let opened = rule.opened.filter(|_| servers.iter().all(is_quiet))?;
    first(&|of| {
        let is_new = |act: &Act| !of.told.iter().any(|(told, at)| told == act && *at >= opened);
        chores(of.seen?, opened).into_iter().flatten().find(is_new)
    })
}

fn file_on(of: &GuardedServer<'_>, rule: &Rule) -> Option<Act> {
    let (seen, copied) = (of.seen?, of.copied?);
    let is_behind = matches!(copied, CopyState::Behind(since) if since > rule.behind_max);
    let can = seen.is_master && seen.aof.is_none() && !seen.is_loading;
    (rule.appendonly && is_behind && can).then_some(Act::FileOn)
}

fn file_off(of: &GuardedServer<'_>, rule: &Rule) -> Option<Act> {
    let (seen, copied) = (of.seen?, of.copied?);
    // A rewrite that is under way would go on for nothing, and end behind the change.
    let can = seen.is_master && seen.aof.is_some() && !seen.is_loading && !seen.is_busy();
    let is_recent = |(act, at): &(Act, SystemTime)| {
        let since = rule.now.duration_since(*at).unwrap_or_default();
        matches!(act, Act::FileOff | Act::FileOn) && since < LEFT_ON_FOR
    };
    let can = can && !of.told.iter().any(is_recent);
    (rule.appendonly && copied == CopyState::Durable && can).then_some(Act::FileOff)
}

/// A rewrite where its file has grown; a save where it has points to save at and has not saved
/// since the window was opened.
fn chores(seen: &ServerReport, opened: SystemTime) -> [Option<Act>; 2] {
    let has_grown = seen.aof.is_some_and(|aof| {
        u128::from(aof.bytes) * 100 > u128::from(aof.base_bytes) * u128::from(100 + GROWN_PERCENT)
    });
    let has_points = seen.settings.as_ref().is_some_and(|settings| !settings.save.is_empty());
    let opened = opened.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let is_due = has_points && seen.changes > 0 && seen.saved_at < opened;
    [has_grown.then_some(Act::Rewrite), is_due.then_some(Act::Save)]
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use proptest::prelude::*;

    use super::super::seen::{Aof, Chore, ServerReport, Settings};
    use super::{Act, CopyState, GuardedServer, Rule, decide};

    const OPENED: u64 = 1000;

    fn rule() -> Rule {
        Rule {
            appendonly: true,
            behind_max: Duration::from_secs(60),
            opened: Some(at(OPENED)),
            now: at(OPENED + 100),
        }
    }

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn of(seen: &ServerReport) -> GuardedServer<'_> {
        GuardedServer { seen: Some(seen), copied: None, told: &[] }
    }

    fn with_file(bytes: u64, base_bytes: u64) -> ServerReport {
        let aof = Some(Aof { bytes, base_bytes, ..Aof::default() });
        ServerReport { aof, is_master: true, ..ServerReport::default() }
    }

    fn with_points(saved_at: u64, changes: u64) -> ServerReport {
        let settings = Some(Settings { save: "3600 1".into(), ..Settings::default() });
        ServerReport { settings, saved_at, changes, is_master: true, ..ServerReport::default() }
    }

    #[test]
    fn servers_rewrite_and_save_in_turns_within_the_window_and_once() {
        let [large, small] = [with_file(200, 100), with_file(105, 100)];
        let (due, done) = (with_points(OPENED - 1, 5), with_points(OPENED, 5));
        assert_eq!(decide(&[of(&small), of(&large)], &rule()), Some((1, Act::Rewrite)));
        assert_eq!(decide(&[of(&small), of(&due)], &rule()), Some((1, Act::Save)));
        assert_eq!(decide(&[of(&small), of(&done)], &rule()), None);
        assert_eq!(decide(&[of(&with_points(0, 0))], &rule()), None, "nothing has changed");
        let closed = Rule { opened: None, ..rule() };
        assert_eq!(decide(&[of(&large), of(&due)], &closed), None);
    }

    #[test]
    fn what_a_server_did_not_do_is_not_asked_again_in_the_same_window() {
        let both = ServerReport { aof: with_file(200, 100).aof, ..with_points(0, 5) };
        let told = [(Act::Rewrite, at(OPENED + 5)), (Act::Save, at(OPENED - 5))];
        let guarded = GuardedServer { told: &told[..], ..of(&both) };
        assert_eq!(decide(&[guarded], &rule()), Some((0, Act::Save)));
        let told = [(Act::Rewrite, at(OPENED + 5)), (Act::Save, at(OPENED + 5))];
        assert_eq!(decide(&[GuardedServer { told: &told[..], ..guarded }], &rule()), None);
        let told = [(Act::FileOn, at(OPENED))];
        let durable =
            GuardedServer { copied: Some(CopyState::Durable), told: &told[..], ..of(&both) };
        assert_eq!(decide(&[durable], &rule()), Some((0, Act::Rewrite)), "it stays on");
        let later = Rule { now: at(OPENED + 600), ..rule() };
        assert_eq!(decide(&[durable], &later), Some((0, Act::FileOff)));
    }

    #[test]
    fn while_one_is_busy_or_not_seen_the_others_wait() {
        let large = with_file(200, 100);
        let busy =
            ServerReport { save: Chore { running: Some(1), ..Chore::default() }, ..large.clone() };
        let loading = ServerReport { is_loading: true, ..large.clone() };
        let unseen = GuardedServer { seen: None, copied: None, told: &[] };
        for other in [of(&busy), of(&loading), unseen] {
            assert_eq!(decide(&[of(&large), other], &rule()), None, "{other:?}");
        }
    }

    #[test]
    fn a_masters_file_is_off_only_while_what_weir_has_is_durable() {
        let (on, off) =
            (with_file(100, 100), ServerReport { is_master: true, ..ServerReport::default() });
        let of =
            |seen, copied| [GuardedServer { seen: Some(seen), copied: Some(copied), told: &[] }];
        let behind = |seconds| CopyState::Behind(Duration::from_secs(seconds));
        assert_eq!(decide(&of(&on, CopyState::Durable), &rule()), Some((0, Act::FileOff)));
        assert_eq!(decide(&of(&off, CopyState::Durable), &rule()), None);
        for copied in [CopyState::Taking, behind(60)] {
            assert_eq!(decide(&of(&on, copied), &rule()), None);
            assert_eq!(decide(&of(&off, copied), &rule()), None);
        }
        assert_eq!(decide(&of(&off, behind(61)), &rule()), Some((0, Act::FileOn)));
        let left = Rule { appendonly: false, ..rule() };
        assert_eq!(decide(&of(&off, behind(61)), &left), None);
        assert_eq!(decide(&of(&on, CopyState::Durable), &left), None);
        let replica = ServerReport { is_master: false, ..on.clone() };
        assert_eq!(decide(&of(&replica, CopyState::Durable), &rule()), None);
    }

    fn servers() -> impl Strategy<Value = Vec<(Option<ServerReport>, Option<CopyState>)>> {
        let seen =
            (any::<[bool; 7]>(), 0..300_u64, 0..2000_u64).prop_map(|(is, bytes, saved_at)| {
                let busy = |is: bool| Chore { running: is.then_some(1), ..Chore::default() };
                let save = if is[5] { "1 1".to_owned() } else { String::new() };
                ServerReport {
                    aof: is[0].then(|| Aof { bytes, base_bytes: 100, ..Aof::default() }),
                    save: busy(is[1] && is[2]),
                    rewrite: busy(is[1] && !is[2]),
                    is_loading: is[2] && is[3],
                    is_master: is[4],
                    settings: Some(Settings { save, ..Settings::default() }),
                    changes: u64::from(is[6]),
                    saved_at,
                    ..ServerReport::default()
                }
            });
        let copied = prop_oneof![
            Just(CopyState::Durable),
            Just(CopyState::Taking),
            (0..120_u64).prop_map(|seconds| CopyState::Behind(Duration::from_secs(seconds))),
        ];
        let of = (proptest::option::weighted(0.9, seen), proptest::option::of(copied));
        proptest::collection::vec(of, 0..5)
    }

    proptest! {
        #[test]
        fn nothing_is_done_that_could_hurt(all in servers(), is_open: bool) {
            let guarded: Vec<_> = all.iter().map(|(seen, copied)| GuardedServer {
                seen: seen.as_ref(),
                copied: *copied,
                told: &[],
            }).collect();
            let rule = Rule { opened: rule().opened.filter(|_| is_open), ..rule() };
            let Some((number, act)) = decide(&guarded, &rule) else { return Ok(()) };
            let of = guarded[number];
            let seen = of.seen.unwrap();
            prop_assert!(!seen.is_loading);
            match act {
                Act::FileOff => {
                    prop_assert_eq!(of.copied, Some(CopyState::Durable));
                    prop_assert!(seen.is_master && seen.aof.is_some());
                }
                Act::FileOn => {
                    prop_assert!(matches!(of.copied, Some(CopyState::Behind(_))));
                    prop_assert!(seen.is_master && seen.aof.is_none());
                }
                Act::Rewrite | Act::Save => {
                    prop_assert!(is_open);
                    let is_quiet =
                        |of: &GuardedServer<'_>| of.seen.is_some_and(|seen| !seen.is_busy());
                    prop_assert!(guarded.iter().all(is_quiet), "one of a host at a time");
                }
            }
        }
    }
}
