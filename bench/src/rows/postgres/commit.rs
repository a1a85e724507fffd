//! Commits on a disk that is slow to sync: shared ones through Weir beside the server's own through
//! Weir, by a direct connection and through PgBouncer.

mod slow_sync;

use std::time::Duration;

use rig::postgres::{Bouncer, Cluster, Peer, Pooling};
use rig::weir::Weir;

use self::slow_sync::{SlowSync, lone_commit};
use super::{POOL, of, pgbench, server, setup_with, through};
use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::FigureTarget;
use crate::report::{Row, unit};
use crate::rows::turns::{ClientRoute, RouteSamples, series, take_turns};

/// What stands beside Weir with shared commits.
#[derive(Debug, Clone, Copy)]
enum Rival {
    /// A server connection for each client.
    Direct,
    /// Weir with the server's own commits.
    OwnCommits,
    PgBouncer,
}

/// So many clients, and what the rate with shared commits has to be over those of others.
struct Case {
    clients: usize,
    over: &'static [(Rival, FigureTarget)],
}

/// A disk, and what is measured on it.
struct Disk {
    what: &'static str,
    /// How much longer its syncs take than those of the disk below.
    more: Duration,
    cases: &'static [Case],
}

/// So few clients lose nothing.
const FEW: &[(Rival, FigureTarget)] = &[(Rival::OwnCommits, FigureTarget::no_less(0.95))];

const DISKS: [Disk; 3] = [
    Disk {
        what: "the disk's own syncs",
        more: Duration::ZERO,
        cases: &[
            Case {
                clients: 64,
                over: &[
                    (Rival::Direct, FigureTarget::at_least(1.0, 1.1)),
                    (Rival::OwnCommits, FigureTarget::no_less(1.25)),
                ],
            },
            Case { clients: 1, over: FEW },
            Case { clients: 4, over: FEW },
        ],
    },
    Disk {
        what: "syncs of 1 ms more",
        more: Duration::from_millis(1),
        cases: &[Case {
            clients: 64,
            over: &[
                (Rival::Direct, FigureTarget::at_least(1.05, 1.2)),
                (Rival::OwnCommits, FigureTarget::no_less(1.4)),
            ],
        }],
    },
    Disk {
        what: "syncs of 5 ms more",
        more: Duration::from_millis(5),
        cases: &[
            Case {
                clients: 64,
                over: &[
                    (Rival::Direct, FigureTarget::at_least(1.25, 1.4)),
                    (Rival::OwnCommits, FigureTarget::no_less(3.5)),
                ],
            },
            Case { clients: 200, over: &[(Rival::PgBouncer, FigureTarget::at_least(2.5, 3.3))] },
            Case { clients: 1, over: FEW },
            Case { clients: 4, over: FEW },
        ],
    },
];

/// The rows.
///
/// # Errors
/// When anything can't be started, or a transaction fails.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let Some(slow_sync) = SlowSync::build()? else {
        let why = "no slow disk: a C compiler (`cc`) is missing";
        return Ok(vec![Row::no_peer("pgbench -N with shared commits", why)]);
    };
    let mut rows = Vec::new();
    for disk in &DISKS {
        rows.extend(disk.rows(&slow_sync, scale)?);
    }
    Ok(rows)
}

impl Disk {
    fn rows(&self, slow_sync: &SlowSync, scale: &Scale) -> Outcome<Vec<Row>> {
        // A checkpoint would have whoever comes next write whole pages into the WAL.
        let server = server().setting("checkpoint_timeout", "1d").setting("max_wal_size", "16GB");
        let cluster = slow_sync.slow(server, self.more).start();
        pgbench::fill(&cluster, 2 * pgbench::scale(scale));
        cluster.sql("VACUUM ANALYZE");
        let lone = lone_commit(&cluster, self.more)?;
        let lone = format!("a commit alone takes {:.2} ms", lone.as_secs_f64() * 1e3);
        let mut setup = CommitSetup::start(cluster);
        let mut rows = Vec::new();
        for case in self.cases {
            rows.extend(case.rows(self.what, &lone, &mut setup, scale)?);
        }
        Ok(rows)
    }
}

impl Case {
    fn rows(
        &self,
        disk: &str,
        lone: &str,
        setup: &mut CommitSetup,
        scale: &Scale,
    ) -> Outcome<Vec<Row>> {
        let clients = self.clients;
        let mut ways = vec![setup.shared()];
        ways.extend(self.over.iter().map(|(rival, _)| setup.rival(*rival)));
        let before = Confirmations::of(&setup.shared);
        let run = |way| pgbench::simple_update(way, clients, scale.duration);
        let seen = take_turns(&ways, scale, run)?;
        let confirmations = before.until(&Confirmations::of(&setup.shared));
        let mut notes: Vec<_> = seen.iter().map(RouteSamples::line).collect();
        notes.extend([confirmations.line(), lone.to_owned()]);
        let repeat = format!("pgbench -N -n -M simple -c {clients} -j {}", clients.min(2));
        let row = |(rival, (_, wanted)): (&RouteSamples, &(Rival, FigureTarget))| {
            let many = if clients == 1 { "client" } else { "clients" };
            let figure = format!(
                "pgbench -N, {clients} {many}, {disk}: shared commits / {}",
                rival.way.name
            );
            let mut row = Row::judged(figure, seen[0].rate() / rival.rate(), unit::RATIO, *wanted);
            row.clients = Some(clients);
            row.of(series(&seen)).repeat(repeat.clone())
        };
        let mut rows: Vec<Row> = seen[1..].iter().zip(self.over).map(row).collect();
        if let Some(first) = rows.first_mut() {
            first.notes = notes;
        }
        Ok(rows)
    }
}

/// One server, and all that stands in front of it.
struct CommitSetup {
    cluster: Cluster,
    bouncer: Peer,
    own: Weir,
    shared: Weir,
}

impl CommitSetup {
    fn start(cluster: Cluster) -> Self {
        let bouncer = Peer::pgbouncer(
            "PgBouncer",
            &Bouncer::usual(),
            cluster.address,
            Pooling::Transaction,
            POOL,
        );
        let weir = |commit: &str| {
            let lines = format!("[[postgres.database]]\nname = \"*\"\ncommit = \"{commit}\"\n");
            setup_with(&[&cluster], 1, &lines).start()
        };
        let (own, shared) = (weir("own"), weir("shared"));
        Self { cluster, bouncer, own, shared }
    }

    fn shared(&mut self) -> ClientRoute {
        of(&mut self.shared, "shared commits")
    }

    fn rival(&mut self, rival: Rival) -> ClientRoute {
        match rival {
            Rival::Direct => super::direct(&self.cluster),
            Rival::OwnCommits => of(&mut self.own, "own commits"),
            Rival::PgBouncer => through(&self.bouncer),
        }
    }
}

/// Commits that Weir confirmed together, and the marks that it took.
struct Confirmations {
    commits: f64,
    marks: f64,
}

impl Confirmations {
    fn of(weir: &Weir) -> Self {
        let metrics = weir.metrics();
        let sum = |name| metrics.sum(name, &[]);
        Self {
            commits: sum("weir_postgres_commits_confirmed_total"),
            marks: sum("weir_postgres_marks_total"),
        }
    }

    /// Those between two moments.
    fn until(&self, later: &Self) -> Self {
        Self { commits: later.commits - self.commits, marks: later.marks - self.marks }
    }

    fn line(&self) -> String {
        let Self { commits, marks } = self;
        match *marks > 0.0 {
            true => format!("{:.1} commits were confirmed by a mark", commits / marks),
            false => "no commit was shared".to_owned(),
        }
    }
}
