//! What chance writes and asks, as of the store beside InfluxDB.

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::plays::Play;
use crate::influxql::generated::data::World;
use crate::influxql::generated::{grammar, weeks};
use crate::influxql::script::{Action, Step};

/// Queries of each world.
const QUERIES: usize = 60;

/// A world and queries over it. Where `cut_ns` is said, it has points before and behind that time.
pub fn world(seed: u64, cut_ns: Option<i64>) -> Play {
    let mut chance = StdRng::seed_from_u64(seed);
    let is_cut = |world: &World| {
        let end_ns = world.start_ns + world.steps * world.step_ns;
        cut_ns.is_none_or(|cut_ns| world.start_ns < cut_ns && cut_ns < end_ns)
    };
    let mut world = World::made(&mut chance);
    while !is_cut(&world) {
        world = World::made(&mut chance);
    }
    let db = format!("world{seed}");
    let of_db = |step: Step| Step { db: db.clone(), ..step };
    let writes = world.requests(&mut chance).into_iter().map(|lines| Step {
        action: Action::Write { lines: lines.concat(), parameters: String::new() },
        ..Step::query("")
    });
    let mut steps: Vec<Step> = writes.map(of_db).collect();
    let count = steps.len() + QUERIES;
    while steps.len() < count {
        let step = grammar::query(&mut chance, &world);
        // A cluster of several sets refuses `INTO`.
        if !matches!(&step.action, Action::Query(text) if text.contains(" INTO ")) {
            steps.push(of_db(step));
        }
    }
    let play = Play::of(&format!("seed {seed}"), &db, steps);
    Play { lines: world.lines, is_by_chance: true, ..play }
}

/// Weeks with tags and fields of their own, in two policies.
pub fn weeks(seed: u64) -> Play {
    let mut chance = StdRng::seed_from_u64(seed);
    let db = format!("weeks{seed}");
    let mut steps = Vec::new();
    for policy in ["autogen", "days"] {
        let lines = (0..chance.random_range(5..80)).map(|_| weeks::line(&mut chance)).collect();
        let parameters = format!("precision=s&rp={policy}");
        let action = Action::Write { lines, parameters };
        steps.push(Step { db: db.clone(), action, ..Step::query("") });
    }
    let queries = (0..QUERIES).map(|_| Step::query(&weeks::query(&mut chance)));
    steps.extend(queries.map(|step| Step { db: db.clone(), ..step }));
    let mut play = Play::of(&format!("weeks of seed {seed}"), &db, steps);
    play.is_by_chance = true;
    play.creates.push(format!(
        "CREATE RETENTION POLICY days ON {db} DURATION INF REPLICATION 1 SHARD DURATION 1d"
    ));
    play
}
