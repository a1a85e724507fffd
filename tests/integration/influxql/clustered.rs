//! The same files, and what chance asks, beside clusters of InfluxDB and of Weirs with stores: what
//! a gateway answers over several sets is what one server answers that has everything.
//!
//! The cluster of two sets by host is asked all of it. Of the others each commit tries a fifth,
//! chosen by its id, and a soak the whole. What chance asks is the same for each commit, so that
//! none finds what another one has brought; a soak asks what its seed says. `INFLUXQL_SEED` plays
//! the world of that seed alone.

mod chance;
mod cluster;
mod files;
mod meant;
mod plays;
mod same;

use std::time::Instant;

use rig::chance::{Length, number, seed};

use cluster::{Cluster, Difference, MemberKind};
use plays::Play;

use super::generated::{cause, needed};
pub use same::is_same;

/// Differences shown; the rest is counted.
const SHOWN_MAX: usize = 40;
/// Differences of which is found out which lines are needed for them.
const NEEDED_MAX: usize = 6;
/// Worlds of chance that a whole run plays beside the files, and such of several weeks.
const WORLDS: u64 = 20;
const WEEKS: u64 = 5;
/// A commit tries one of so many parts.
const PARTS: u64 = 5;
/// What chance begins with where this is no soak.
const SEED: u64 = 1;

/// Sets, where points lie, and what has to come of it.
struct Variant {
    name: &'static str,
    sets: &'static [&'static str],
    members: MemberKind,
    /// `{future}` is put behind it.
    placement: &'static str,
    /// Whether each commit plays all of it.
    is_whole: bool,
    /// Whether a member is killed half way.
    has_death: bool,
    /// The ways that its queries go.
    ways: &'static [&'static str],
    /// A time that the points of worlds lie around.
    cut_ns: Option<i64>,
}

impl Variant {
    /// The worlds of this number on.
    fn worlds(&self, first: u64, is_soak: bool) -> Vec<Play> {
        let seed = if is_soak { seed() } else { SEED };
        let world = |n| chance::world(seed.wrapping_add(n), self.cut_ns);
        let mut plays: Vec<Play> = (first..first + WORLDS).map(world).collect();
        let weeks = |n| chance::weeks(seed.wrapping_add(n));
        plays.extend((first..first + WEEKS).map(weeks));
        plays
    }

    /// What one run plays, and whether that is all.
    fn plays(&self, is_soak: bool) -> (Vec<Play>, bool) {
        if let Some(only) = number("INFLUXQL_SEED") {
            return (vec![chance::world(only, self.cut_ns), chance::weeks(only)], false);
        }
        let mut plays = files::all(self.members);
        plays.extend(self.worlds(0, is_soak));
        let is_whole = self.is_whole || is_soak;
        if !is_whole {
            let part = seed() % PARTS;
            let numbered = plays.into_iter().zip((0..PARTS).cycle());
            plays = numbered.filter(|(_, n)| *n == part).map(|(play, _)| play).collect();
        }
        (plays, is_whole)
    }

    #[track_caller]
    fn check(&self) {
        let begun = Instant::now();
        let length = Length::of(0);
        let (plays, is_whole) = self.plays(length.is_timed());
        let mut cluster = Cluster::start(self.sets, self.members, self.placement);
        cluster.create(&plays);
        let mut wrong = match self.has_death {
            true => cluster.play_over_a_death(&plays),
            false => cluster.play(&plays.iter().collect::<Vec<_>>()),
        };
        let mut first = WORLDS;
        while length.is_timed() && length.goes_on(0) && wrong.is_empty() {
            let plays = self.worlds(first, true);
            cluster.create(&plays);
            wrong = cluster.play(&plays.iter().collect::<Vec<_>>());
            first += WORLDS;
        }
        let (asked, failed, meant) = cluster.asked();
        let (ways, seconds) = (cluster.ways(), begun.elapsed().as_secs());
        println!(
            "{}: {asked} queries, {ways:?}, {meant} meant to differ, {failed} failed, {seconds} s",
            self.name
        );
        let shown = shown(&cluster, &wrong);
        assert!(wrong.is_empty(), "{} of {asked} queries differ\n\n{shown}", wrong.len());
        for way in self.ways.iter().filter(|_| is_whole) {
            assert!(ways[way] > 0.0, "none was {way}: {ways:?}");
        }
    }
}

/// The differences; of those that chance has found, one of each cause with the lines it needs.
fn shown(cluster: &Cluster, wrong: &[Difference]) -> String {
    let mut causes = Vec::new();
    let texts = wrong.iter().enumerate().filter_map(|(at, difference)| {
        let text = difference.text();
        let cause = cause(&text);
        if difference.lines.is_empty() {
            return Some(text);
        }
        if causes.contains(&cause) || causes.len() == NEEDED_MAX {
            return None;
        }
        causes.push(cause);
        let (lines, fewer) = needed(difference.lines.clone(), |lines, number| {
            let db = format!("fewer{at}_{number}");
            cluster.compare_over(&db, lines, &difference.step).map(|found| found.text())
        });
        let (count, lines) = (lines.len(), lines[..lines.len().min(12)].concat());
        Some(format!("{}\n  over {count} lines:\n{lines}", fewer.unwrap_or(text)))
    });
    texts.take(SHOWN_MAX).collect::<Vec<_>>().join("\n\n")
}

#[test]
fn two_sets_of_two_by_host_answer_as_one_server() {
    Variant {
        name: "two sets of two by host",
        sets: &["s1: a1 a2", "s2: b1 b2"],
        members: MemberKind::Influxd,
        placement: "[[influx.placement]]\nsets = [\"s1\", \"s2\"]\nsplit-by = [\"host\"]\n\
                    future-max = \"106000d\"\n",
        is_whole: true,
        has_death: true,
        ways: &["passed", "joined", "merged", "fetched"],
        cut_ns: None,
    }
    .check();
}

#[test]
fn four_sets_by_point_answer_as_one_server() {
    Variant {
        name: "four sets by point",
        sets: &["s1: a", "s2: b", "s3: c", "s4: d"],
        members: MemberKind::Influxd,
        placement: "[[influx.placement]]\nsets = [\"s1\", \"s2\", \"s3\", \"s4\"]\n\
                    split-by = \"point\"\nfuture-max = \"106000d\"\n",
        is_whole: false,
        has_death: false,
        // Nothing tells which set has a point, and no group lies in one.
        ways: &["merged", "fetched"],
        cut_ns: None,
    }
    .check();
}

#[test]
fn three_sets_by_time_answer_as_one_server() {
    Variant {
        name: "three sets by time",
        sets: &["s1: a", "s2: b", "s3: c"],
        members: MemberKind::Influxd,
        placement: "[[influx.placement]]\nsets = [\"s1\", \"s2\", \"s3\"]\nsplit = 1\n\
                    span = \"1h\"\nfuture-max = \"106000d\"\n",
        is_whole: false,
        has_death: false,
        // By time a group lies in one set, or in several: there is nothing to join.
        ways: &["passed", "merged", "fetched"],
        cut_ns: None,
    }
    .check();
}

#[test]
fn two_periods_answer_as_one_server() {
    Variant {
        name: "two periods by series",
        sets: &["s1: a", "s2: b", "s3: c"],
        members: MemberKind::Influxd,
        placement: "[[influx.placement]]\nsets = [\"s1\", \"s2\"]\nfuture-max = \"106000d\"\n\
                    [[influx.placement]]\nfrom = \"2020-01-01T00:05:00Z\"\n\
                    sets = [\"s2\", \"s3\"]\nfuture-max = \"106000d\"\n",
        is_whole: false,
        has_death: false,
        ways: &["joined", "merged", "fetched"],
        cut_ns: Some(1_577_837_100_000_000_000),
    }
    .check();
}

#[test]
fn two_sets_of_two_weirs_by_host_answer_as_one_server() {
    Variant {
        name: "two sets of two Weirs by host",
        sets: &["s1: a1 a2", "s2: b1 b2"],
        members: MemberKind::Store,
        placement: "[[influx.placement]]\nsets = [\"s1\", \"s2\"]\nsplit-by = [\"host\"]\n\
                    future-max = \"106000d\"\n",
        is_whole: false,
        has_death: true,
        ways: &["passed", "joined", "merged", "fetched"],
        cut_ns: None,
    }
    .check();
}
