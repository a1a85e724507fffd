//! Backends as real servers are: a promotion is followed, a hung server is left alone, a replica
//! that lags takes no reads, two primaries take nothing.

use std::sync::Arc;
use std::time::Duration;

use ::units::{Duration as Span, Size};
use ::watch::metrics::Registry;
use postgres::backends::{Ask, BackendState, Backends, LastWrite, NoPrimary};
use postgres::settings::{BackendSettings, Consistency, Route, Settings, TwoPrimaries};
use rig::postgres::{Auth, Cluster, PASSWORD, Setup};
use rig::wait;
use tokio::runtime::Runtime;

struct Watched {
    backends: Arc<Backends>,
    runtime: Runtime,
    registry: Registry,
    settings: Settings,
}

/// Backends named "a", "b", "c" at these clusters, as `change` has it.
fn watched(clusters: &[&Cluster], change: impl FnOnce(&mut Settings)) -> Watched {
    let mut settings = Settings {
        backend: clusters
            .iter()
            .zip(["a", "b", "c"])
            .map(|(cluster, name)| BackendSettings::new(name, &cluster.url()))
            .collect(),
        poll_interval: Span::from_millis(100),
        // Of no concern where no server hangs.
        poll_timeout: Span::from_secs(20),
        ..Settings::default()
    };
    change(&mut settings);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let registry = Registry::new();
    let backends = Backends::start(&settings, &registry, runtime.handle()).expect("it starts");
    Watched { backends, runtime, registry, settings }
}

impl Watched {
    fn standings(&self) -> Vec<BackendState> {
        self.backends.status().iter().map(|status| status.standing).collect()
    }

    #[track_caller]
    fn until(&self, wanted: &[BackendState]) {
        let what = format!("{wanted:?}");
        let seen = || self.standings() == wanted;
        wait::until(&what, wait::LONG, seen);
    }

    fn primary(&self) -> Result<String, NoPrimary> {
        self.backends.primary().map(|backend| backend.name().to_owned())
    }

    /// Who takes reads, as found by many.
    fn readers(&self, consistency: Consistency, after: LastWrite) -> Vec<String> {
        let ask = Ask { after, consistency, route: Route::Auto };
        let name = |_| self.backends.reader(ask, |_| 0).map(|backend| backend.name().to_owned());
        let mut names: Vec<_> = (0..20).filter_map(name).collect();
        names.sort();
        names.dedup();
        names
    }

    fn eventual(&self) -> Vec<String> {
        self.readers(Consistency::Eventual, LastWrite::NEVER)
    }

    fn trouble(&self, place: usize) -> String {
        self.backends.status()[place].trouble.clone().unwrap_or_default()
    }
}

#[test]
fn a_promotion_is_followed_and_a_former_primary_that_returns_stops_all_writes() {
    use BackendState::{Down, Misplaced, Primary, Replica, Rival};
    let mut first = Cluster::start();
    let (second, third) = (first.replica(), first.replica());
    let watched = watched(&[&first, &second, &third], |_| {});
    watched.until(&[Primary, Replica, Replica]);
    assert_eq!(watched.eventual(), ["b", "c"]);
    assert_eq!(watched.primary().unwrap(), "a");
    let epoch = watched.backends.primary().unwrap().epoch();

    first.kill();
    watched.until(&[Down, Replica, Replica]);
    assert_eq!(watched.primary(), Err(NoPrimary::None));
    assert_eq!(watched.eventual(), ["b", "c"], "reads go on");
    assert_ne!(watched.backends.get(0).unwrap().epoch(), epoch);
    let trouble = watched.trouble(0);
    assert!(trouble.contains("can't connect") || trouble.contains("broke"), "{trouble}");

    // Whoever waits for a primary gets the new one.
    let backends = Arc::clone(&watched.backends);
    let waiting = watched.runtime.spawn(async move { backends.primary_within(wait::LONG).await });
    second.promote();
    let found = watched.runtime.block_on(waiting).unwrap().unwrap();
    assert_eq!(found.name(), "b");

    // The other replica counts again once it follows.
    third.follow(&second);
    wait::until("it follows", wait::LONG, || watched.eventual() == ["c"]);
    let written = LastWrite::now();
    second.sql("CREATE TABLE t ()");
    let written = written.max(LastWrite::now());
    let reads = || watched.readers(Consistency::Session, written) == ["c"];
    wait::until("it has the write", wait::LONG, reads);

    first.start_again();
    watched.until(&[Rival, Rival, Replica]);
    let why = watched.primary().unwrap_err();
    assert_eq!(why.to_string(), "a, b all say that they are the primary; stop all but one");
    assert!(watched.registry.render().contains("weir_postgres_backend_primary{backend=\"b\"} 0"));

    let mut settings = watched.settings.clone();
    settings.two_primaries = TwoPrimaries::HigherTimeline;
    watched.backends.prepare(&settings).unwrap().put_in_force();
    watched.until(&[Misplaced, Primary, Replica]);
    assert!(watched.trouble(0).contains("pg_rewind"), "{}", watched.trouble(0));
    watched.backends.prepare(&watched.settings).unwrap().put_in_force();
    watched.until(&[Rival, Rival, Replica]);
    first.stop();
    watched.until(&[Down, Primary, Replica]);
}

#[test]
fn a_hung_server_is_down_until_it_answers() {
    let primary = Cluster::start();
    let replica = primary.replica();
    let watched = watched(&[&primary, &replica], |settings| {
        settings.poll_timeout = Span::from_millis(500);
    });
    watched.until(&[BackendState::Primary, BackendState::Replica]);
    replica.hang();
    watched.until(&[BackendState::Primary, BackendState::Down]);
    assert!(watched.trouble(1).contains("hang"), "{}", watched.trouble(1));
    // The other one may seem to hang for a moment where it is slow.
    wait::until("reads go on", wait::LONG, || watched.eventual() == ["a"]);
    replica.wake();
    watched.until(&[BackendState::Primary, BackendState::Replica]);

    primary.hang();
    watched.until(&[BackendState::Down, BackendState::Replica]);
    let limit = Duration::from_millis(50);
    let none = watched.runtime.block_on(watched.backends.primary_within(limit));
    assert_eq!(none.unwrap_err(), NoPrimary::None);
    primary.wake();
    watched.until(&[BackendState::Primary, BackendState::Replica]);
}

#[test]
fn a_replica_that_lags_takes_no_reads_and_nobody_misses_an_own_write() {
    let primary = Cluster::start();
    primary.sql("CREATE TABLE t (a text)");
    let replica = primary.replica();
    let watched = watched(&[&primary, &replica], |settings| {
        settings.max_lag_bytes = Size::from_kib(64);
        settings.max_lag = Span::from_secs(0);
    });
    watched.until(&[BackendState::Primary, BackendState::Replica]);
    // What a client has written it reads from the replica soon, since somebody waits for that.
    let written = watched.backends.note_write();
    wait::until("it is there", wait::LONG, || {
        watched.readers(Consistency::Session, written) == ["b"]
    });

    replica.pause_replay();
    primary.sql("INSERT INTO t VALUES ('mine')");
    let written = LastWrite::now();
    // Some polls later it is still known that the replica does not have it.
    let polls = watched.backends.status()[1].polls;
    let later = || watched.backends.status()[1].polls > polls + 5;
    wait::until("more polls", wait::LONG, later);
    assert_eq!(watched.readers(Consistency::Session, written), ["a"]);
    assert_eq!(watched.eventual(), ["b"]);
    let lag = watched.backends.status()[1].lag_bytes;
    assert!(lag.is_some_and(|bytes| bytes > 0), "{lag:?}");

    primary.sql("INSERT INTO t SELECT repeat('x', 500) FROM generate_series(1, 1000)");
    wait::until("it is out", wait::LONG, || watched.eventual() == ["a"]);
    assert!(watched.trouble(1).contains("max-lag"), "{}", watched.trouble(1));
    assert!(watched.registry.render().contains("weir_postgres_backend_reads{backend=\"b\"} 0"));
    replica.resume_replay();
    wait::until("it is back", wait::LONG, || watched.eventual() == ["b"]);
    let caught_up = || watched.readers(Consistency::Session, written) == ["b"];
    wait::until("it has the write", wait::LONG, caught_up);
    assert_eq!(replica.value("SELECT count(*) FROM t"), "1001");
}

#[test]
fn a_server_of_another_cluster_gets_nothing() {
    let primary = Cluster::start();
    let replica = primary.replica();
    let strange = Setup::new().own_identity().start();
    let watched = watched(&[&strange, &primary, &replica], |_| {});
    watched.until(&[BackendState::Foreign, BackendState::Primary, BackendState::Replica]);
    assert_eq!(watched.primary().unwrap(), "b");
    assert!(watched.trouble(0).contains("another cluster"), "{}", watched.trouble(0));
}

#[test]
fn its_own_user_needs_few_rights_and_asks_with_a_safe_search_path() {
    let primary = Setup::new().auth(Auth::Scram).start();
    primary.create_user("weir", "secret");
    primary.sql("ALTER ROLE weir SET search_path = evil, pg_catalog");
    let replica = primary.replica();
    let watched = watched(&[&primary, &replica], |settings| {
        for backend in &mut settings.backend {
            backend.user = "weir".to_owned();
            backend.password = ::units::secret::Secret::new("secret");
        }
    });
    watched.until(&[BackendState::Primary, BackendState::Replica]);
    let status = watched.backends.status();
    assert!(status[0].system.is_some() && status[0].system == status[1].system);
    assert_eq!((status[0].timeline, status[1].timeline), (Some(1), Some(1)));
    assert!(status.iter().all(|one| one.round_trip_us > 0 && one.version.is_some()));
    let rows = watched.backends.rows("postgres", None, "SHOW search_path");
    assert_eq!(watched.runtime.block_on(rows).unwrap()[0][0].as_deref(), Some("pg_catalog"));

    let mut settings = watched.settings.clone();
    settings.backend[0].password = ::units::secret::Secret::new("wrong");
    watched.backends.prepare(&settings).unwrap().put_in_force();
    assert_eq!(watched.backends.get(0).unwrap().number(), 0, "its connections stay");
    primary.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'weir'");
    watched.until(&[BackendState::Down, BackendState::Replica]);
    assert!(watched.trouble(0).contains("28P01"), "{}", watched.trouble(0));
    settings.backend[0].password = ::units::secret::Secret::new(PASSWORD);
    settings.backend[0].user = "postgres".to_owned();
    watched.backends.prepare(&settings).unwrap().put_in_force();
    watched.until(&[BackendState::Primary, BackendState::Replica]);
}

#[test]
fn backends_come_and_go_by_a_reload() {
    let primary = Cluster::start();
    let replica = primary.replica();
    let watched = watched(&[&primary], |_| {});
    watched.until(&[BackendState::Primary]);
    let mut settings = watched.settings.clone();
    settings.backend.push(BackendSettings::new("b", &replica.url()));
    watched.backends.prepare(&settings).unwrap().put_in_force();
    watched.until(&[BackendState::Primary, BackendState::Replica]);
    let former = watched.backends.get(1).unwrap();
    settings.backend[1].url =
        format!("{}:{}", replica.socket_dir().display(), replica.address.port());
    watched.backends.prepare(&settings).unwrap().put_in_force();
    let moved = || watched.backends.get(2).is_some_and(|b| b.standing() == BackendState::Replica);
    wait::until("another one", wait::LONG, moved);
    assert!(watched.backends.get(1).is_none());
    assert_eq!((former.standing(), former.epoch()), (BackendState::Down, 1));
    watched.backends.prepare(&watched.settings).unwrap().put_in_force();
    watched.until(&[BackendState::Primary]);
    assert_eq!(watched.eventual(), ["a"]);
}
