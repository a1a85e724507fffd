//! What the planner calls a read is run on a real PostgreSQL and must leave nothing behind: no
//! write, no transaction id, no lock, no setting, nothing of the session.

mod corpus;
mod generated;
mod mutated;
mod probe;
mod regress;
mod steady;

use std::sync::Arc;

use postgres::plan::{Facts, Kind, Pin, Planner, Scope};
use rig::postgres::Cluster;

use probe::{Probe, Trace};

/// Plans that a planner of a test keeps.
const PLANS_MAX: usize = 1000;

/// A role that is held by row security, which a superuser is not.
const ROLE: &str = "set session authorization someone";

/// A server with the catalogue of `setup.sql`.
struct Scene {
    cluster: Cluster,
}

impl Scene {
    fn start() -> Self {
        let cluster = Cluster::start();
        cluster.sql("create role someone");
        cluster.sql(include_str!("reads/setup.sql"));
        Self { cluster }
    }

    fn facts(&self) -> Arc<Facts> {
        let mut client = self.cluster.connect().unwrap();
        probe::facts(&mut client)
    }

    fn probe(&self) -> Probe {
        let mut client = self.cluster.connect().unwrap();
        client.batch_execute(ROLE).unwrap();
        Probe::new(client)
    }
}

fn planner(facts: Arc<Facts>) -> Planner {
    Planner::new(facts, PLANS_MAX)
}

#[test]
fn no_proven_read_writes() {
    let scene = Scene::start();
    let mut planner = planner(scene.facts());
    let mut probe = scene.probe();
    let mut wrong = Vec::new();
    for sql in corpus::reads().chain(corpus::traps()) {
        let plan = planner.plan(sql.as_bytes(), Scope::default());
        if plan.kind == Kind::Read
            && let Trace::Left(what) = probe.run(&sql)
        {
            wrong.push(format!("{sql}: {what}"));
            probe = scene.probe();
        }
    }
    assert!(wrong.is_empty(), "called a read:\n  {}", wrong.join("\n  "));
}

#[test]
fn no_trap_is_called_a_read_and_what_applications_send_is() {
    let scene = Scene::start();
    let mut planner = planner(scene.facts());
    let mut wrong = Vec::new();
    for sql in corpus::traps() {
        let plan = planner.plan(sql.as_bytes(), Scope::default());
        if plan.kind == Kind::Read {
            wrong.push(format!("a read: {sql}"));
        }
    }
    for sql in corpus::reads() {
        let plan = planner.plan(sql.as_bytes(), Scope::default());
        if plan.kind != Kind::Read {
            wrong.push(format!("{}: {sql}", plan.reason.as_str()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Without this the other tests would prove nothing: the traps do spring, and the probe sees it.
#[test]
fn the_probe_sees_what_traps_leave() {
    let scene = Scene::start();
    let sprung = corpus::traps()
        .filter(|sql| sql.contains("vol_set") || sql.contains("attr"))
        .filter(|sql| matches!(scene.probe().run(sql), Trace::Left(_)))
        .count();
    assert!(sprung > 100, "only {sprung} did");
}

#[test]
fn no_generated_query_that_is_called_a_read_writes() {
    let scene = Scene::start();
    let mut planner = planner(scene.facts());
    let mut probe = scene.probe();
    let (mut reads, mut ran, mut wrong) = (0, 0, Vec::new());
    for sql in generated::queries(4000) {
        if planner.plan(sql.as_bytes(), Scope::default()).kind != Kind::Read {
            continue;
        }
        reads += 1;
        match probe.run(&sql) {
            Trace::None => ran += 1,
            Trace::Failed => {}
            Trace::Left(what) => {
                wrong.push(format!("{sql}: {what}"));
                probe = scene.probe();
            }
        }
    }
    assert!(wrong.is_empty(), "called a read:\n  {}", wrong.join("\n  "));
    assert!(ran > 500, "{ran} of {reads} reads ran: too few to say anything");
}

/// A cached plan is given to every text of its normal form.
#[test]
fn a_plan_does_not_depend_on_a_constant() {
    let scene = Scene::start();
    let facts = scene.facts();
    for sql in corpus::reads().chain(corpus::traps()).chain(generated::queries(2000)) {
        let changed = corpus::with_other_constants(&sql);
        let plan = planner(Arc::clone(&facts)).plan(sql.as_bytes(), Scope::default());
        let other = planner(Arc::clone(&facts)).plan(changed.as_bytes(), Scope::default());
        // The code of a block is a constant, whose plan is not kept.
        if !matches!(plan.kind, Kind::Set(_)) && !sql.to_ascii_lowercase().starts_with("do ") {
            let both = [&plan, &other].map(|plan| (&plan.kind, plan.reason, plan.steady));
            assert_eq!(both[0], both[1], "{sql}\n{changed}");
        }
    }
}

#[test]
fn a_function_whose_text_locks_or_sets_pins_its_caller() {
    let scene = Scene::start();
    let rows = scene.cluster.sql(&format!("set search_path = pg_catalog; {}", Facts::query()));
    let mut planner = planner(Arc::new(Facts::of_rows(&rows).unwrap()));
    let mut kind = |sql: &str| planner.plan(sql.as_bytes(), Scope::default()).kind.clone();
    assert_eq!(kind("select vol_set()"), Kind::Pins(Pin::Function));
    assert_eq!(kind("insert into t (id) select vol_lock()"), Kind::Pins(Pin::Function));
    assert_eq!(kind("select vol_write(1)"), Kind::Other);
}

#[test]
fn the_state_of_the_catalogue_changes_with_it_and_with_nothing_else() {
    let scene = Scene::start();
    let state = || scene.cluster.value(Facts::state_query());
    let mut before = state();
    scene.cluster.sql("insert into trace default values");
    scene.cluster.sql("vacuum analyze t");
    assert_eq!(before, state());
    for change in [
        "create or replace view v_good as select id, upper(b) as b from t",
        "alter function honest(int) volatile",
        "alter table t enable row level security",
        "create policy p on t using (vol_set() = 1)",
        "alter domain dom_good add check (dom_check(value))",
        "alter table u rename column note to said",
        "alter table u alter column said type varchar",
        "create table another (d dom)",
        "drop table another",
    ] {
        scene.cluster.sql(change);
        let after = state();
        assert_ne!(before, after, "{change}");
        before = after;
    }
}

#[test]
fn no_mutated_query_that_is_called_a_read_writes() {
    let scene = Scene::start();
    let mut planner = planner(scene.facts());
    let mut probe = scene.probe();
    let number = |name: &str, default| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let (seed, count) = (number("WEIR_SEED", 1), number("WEIR_STATEMENTS", 10_000));
    let (mut reads, mut wrong) = (0, Vec::new());
    for sql in mutated::statements(seed).take(usize::try_from(count).unwrap()) {
        if planner.plan(sql.as_bytes(), Scope::default()).kind != Kind::Read {
            continue;
        }
        reads += 1;
        if let Trace::Left(what) = probe.run(&sql) {
            wrong.push(format!("{sql}: {what}"));
            probe = scene.probe();
        }
    }
    assert!(wrong.is_empty(), "called a read:\n  {}", wrong.join("\n  "));
    eprintln!("{reads} of {count} statements were called reads");
}
