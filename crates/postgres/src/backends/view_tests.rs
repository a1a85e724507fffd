use std::sync::Arc;

use ::watch::metrics::Registry;
use tokio::runtime::Handle;

use super::{Ask, Backend, BackendState, Backends, LastWrite, Moment, NoPrimary, View};
use crate::settings::{BackendSettings, Consistency, Route, Settings, Spread};

fn backend(number: usize, name: &str) -> Arc<Backend> {
    let settings = BackendSettings::new(name, "postgresql://127.0.0.1:1");
    Arc::new(Backend::new(number, &settings).unwrap())
}

fn view() -> View {
    let backends = vec![backend(0, "p"), backend(1, "a"), backend(2, "b")];
    View {
        primary: Ok(Arc::clone(&backends[0])),
        readers: backends[1..].to_vec(),
        backends,
        reads_on_primary: false,
        spread: Spread::InFlight,
    }
}

fn ask(consistency: Consistency, route: Route, after: LastWrite) -> Ask {
    Ask { after, consistency, route }
}

/// Who takes ten reads in a row.
fn taken(view: &View, ask: Ask, in_flight: impl Fn(&Backend) -> usize) -> Vec<String> {
    let name = |_| view.reader(ask, &in_flight).map_or("none", |backend| backend.name());
    let mut names: Vec<_> = (0..10).map(name).map(str::to_owned).collect();
    names.sort();
    names.dedup();
    names
}

const WRITTEN: LastWrite = LastWrite(Moment::from_nanos(100));

#[test]
fn a_session_reads_where_its_own_write_is() {
    let view = view();
    let session = ask(Consistency::Session, Route::Auto, WRITTEN);
    assert_eq!(taken(&view, session, |_| 0), ["p"]);
    view.readers[0].set_caught_up(Moment::from_nanos(100));
    assert_eq!(taken(&view, session, |_| 0), ["p"]);
    view.readers[0].set_caught_up(Moment::from_nanos(101));
    assert_eq!(taken(&view, session, |_| 0), ["a"]);
    let fresh = ask(Consistency::Session, Route::Auto, LastWrite::NEVER);
    assert_eq!(taken(&view, fresh, |_| 0), ["a", "b"]);
    let eventual = ask(Consistency::Eventual, Route::Auto, WRITTEN);
    assert_eq!(taken(&view, eventual, |_| 0), ["a", "b"]);
    assert_eq!(taken(&view, ask(Consistency::Primary, Route::Auto, WRITTEN), |_| 0), ["p"]);
    assert_eq!(taken(&view, ask(Consistency::Eventual, Route::Primary, WRITTEN), |_| 0), ["p"]);
}

#[test]
fn the_primary_takes_reads_where_it_is_told_to_or_nobody_else_can() {
    let mut view = view();
    let eventual = ask(Consistency::Eventual, Route::Auto, LastWrite::NEVER);
    let replica = ask(Consistency::Session, Route::Replica, WRITTEN);
    assert_eq!(taken(&view, replica, |_| 0), ["a", "b"], "stale is better than none");
    view.reads_on_primary = true;
    assert_eq!(taken(&view, eventual, |_| 0), ["a", "b", "p"]);
    assert_eq!(taken(&view, eventual, |b| usize::from(b.number() != 0)), ["p"]);
    assert_eq!(taken(&view, replica, |_| 0), ["a", "b"]);
    view.reads_on_primary = false;
    view.readers.clear();
    assert_eq!(taken(&view, eventual, |_| 0), ["p"]);
    assert_eq!(taken(&view, replica, |_| 0), ["none"]);
    view.primary = Err(NoPrimary::None);
    assert_eq!(taken(&view, eventual, |_| 0), ["none"]);
}

#[test]
fn a_replica_that_takes_no_connections_is_left_out() {
    let view = view();
    let eventual = ask(Consistency::Eventual, Route::Auto, LastWrite::NEVER);
    (0..3).for_each(|_| view.readers[0].connect_failed("refused"));
    if !view.readers[0].takes_connections() {
        assert_eq!(taken(&view, eventual, |_| 0), ["b"]);
    }
    view.readers[0].connected();
    assert_eq!(taken(&view, eventual, |_| 0), ["a", "b"]);
}

#[test]
fn connections_are_to_be_closed_when_the_primary_is_none_any_more() {
    let backend = backend(0, "a");
    let epochs: Vec<_> = [
        BackendState::Primary,
        BackendState::Primary,
        BackendState::Replica,
        BackendState::Primary,
        BackendState::Rival,
        BackendState::Down,
        BackendState::Replica,
        BackendState::Down,
    ]
    .into_iter()
    .map(|standing| {
        backend.set_standing(standing);
        backend.epoch()
    })
    .collect();
    assert_eq!(epochs, [0, 0, 1, 1, 2, 2, 2, 3]);
}

#[tokio::test]
async fn other_settings_are_in_force_once_they_are_taken() {
    let of = |names: &[&str]| {
        let backend = names.iter().map(|name| BackendSettings::new(name, "postgresql://[::1]:1"));
        Settings { backend: backend.collect(), ..Settings::default() }
    };
    let backends = Backends::start(&of(&["a"]), &Registry::new(), &Handle::current()).unwrap();
    let names =
        || -> Vec<String> { backends.status().into_iter().map(|backend| backend.name).collect() };
    let first = backends.get(0).unwrap();
    // Nothing else has run in between.
    backends.prepare(&of(&["a", "b"])).unwrap().put_in_force();
    assert_eq!(names(), ["a", "b"]);
    assert!(Arc::ptr_eq(&first, &backends.get(0).unwrap()));
    backends.prepare(&of(&["b"])).unwrap().put_in_force();
    assert_eq!(names(), ["b"]);
    assert_eq!(first.standing(), BackendState::Down);
}
