//! Statements run at their place; what is missing is created.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::fake::{Act, Fake, RecordedRequest, ok, refuse};
use super::rig::{LONG, Rig, Store, backend, lines};
use crate::backends::{Phase, Ran};
use crate::catalogue::Lookup;
use crate::settings::{BackendKind, BackendTable};
use wire::influxql::Change;

fn results(text: &str) -> Act {
    Act::Answer(200, format!("{{\"results\":[{text}]}}\n"))
}

/// What happened, in order: `12` for a write that ends with point 12, else the statement.
fn journal_of(fake: &Fake) -> Vec<String> {
    let seen = fake.seen.lock().unwrap();
    let told = seen.iter().filter_map(|seen| match seen.path.as_str() {
        "/write" => Some(seen.lines().last()?.rsplit(' ').next()?.to_owned()),
        "/query" => Some(seen.parameter("q").to_owned()).filter(|q| !q.starts_with("SHOW")),
        _ => None,
    });
    told.collect()
}

#[tokio::test]
async fn a_statement_runs_at_its_place_and_its_result_is_told() {
    let fake = Fake::start(|seen| match seen.parameter("q") {
        "" => ok(),
        q if q.starts_with("DELETE") => results("{\"statement_id\":0}"),
        _ => results("{\"statement_id\":0,\"error\":\"measurement not found\"}"),
    })
    .await;
    let store = Store::default();
    let other = Fake::start(store.all()).await;
    let skips = BackendTable { kind: BackendKind::VictoriaMetrics, ..backend("metrics", &other) };
    let rig = Rig::start(&[backend("a", &fake), skips]).await;
    let (first, second) = (rig.backends.statement(), rig.backends.statement());
    rig.write("d", "r", &lines(0, 10)).await;
    rig.run(first.id(), "d", "DELETE FROM m").await;
    rig.write("d", "r", &lines(10, 20)).await;
    rig.run(second.id(), "d", "DROP MEASUREMENT x").await;
    let report = first.wait(LONG).await;
    assert!(report.following.is_empty());
    assert!(report.ran.contains(&("metrics".to_owned(), Ran::Skipped)));
    let document = report.document().unwrap();
    assert_eq!(&document[..], b"{\"results\":[{\"statement_id\":0}]}\n");
    let document = second.wait(LONG).await.document().unwrap();
    assert!(String::from_utf8_lossy(&document).contains("measurement not found"));
    rig.settled("a").await;
    assert_eq!(journal_of(&fake), ["9", "DELETE FROM m", "19", "DROP MEASUREMENT x"]);
}

#[tokio::test]
async fn a_statement_waits_for_a_backend_that_is_away_and_the_client_hears_who_follows() {
    let fake = Fake::start(|_| Act::Reset).await;
    let store = Store::default();
    let well = Fake::start(store.all()).await;
    let rig = Rig::start(&[backend("away", &fake), backend("well", &well)]).await;
    let ticket = rig.backends.statement();
    rig.run(ticket.id(), "", "CREATE DATABASE x").await;
    let report = ticket.wait(Duration::from_millis(20)).await;
    assert!(report.following.contains(&"away".to_owned()));
    fake.behave(|_| results("{}"));
    rig.settled("away").await;
    assert!(journal_of(&fake).contains(&"CREATE DATABASE x".to_owned()));
}

#[tokio::test]
async fn a_statement_that_always_makes_the_server_fail_is_given_up() {
    let fake = Fake::start(|seen| match seen.parameter("q") {
        "" => ok(),
        _ => refuse(500, "panic"),
    })
    .await;
    let rig = Rig::start(&[backend("a", &fake)]).await;
    let ticket = rig.backends.statement();
    rig.run(ticket.id(), "d", "DROP SHARD 1").await;
    rig.write("d", "r", &lines(0, 1)).await;
    let report = ticket.wait(LONG).await;
    assert_eq!(report.ran, [("a".to_owned(), Ran::Failed("panic".to_owned()))]);
    rig.settled("a").await;
    assert_eq!(rig.status("a").state, Phase::Delivering);
    let ticket = rig.backends.statement();
    rig.run(ticket.id(), "d", "DROP SHARD 2").await;
    rig.settled("a").await;
    assert_eq!(rig.status("a").state, Phase::Delivering, "with nothing behind it, too");
}

/// An InfluxDB that knows only what was created on it.
fn creating(store: &Store) -> impl FnMut(&RecordedRequest) -> Act + Send + 'static {
    let (store, known) = (store.clone(), Arc::new(Mutex::new(HashSet::<String>::new())));
    move |seen| {
        let mut known = known.lock().unwrap();
        let q = seen.parameter("q");
        if q.starts_with("CREATE") {
            known.insert(q.split('"').nth(1).unwrap().to_owned());
            return results("{\"statement_id\":0}");
        }
        if !seen.is_write() {
            return results("{\"statement_id\":0}");
        }
        let (db, rp) = (seen.parameter("db"), seen.parameter("rp"));
        if !known.contains(db) {
            return refuse(404, &format!("database not found: \"{db}\""));
        }
        if !rp.is_empty() && !known.contains(rp) {
            return refuse(500, &format!("retention policy not found: {rp}"));
        }
        store.put(seen.lines());
        ok()
    }
}

#[tokio::test]
async fn a_missing_database_and_policy_are_created() {
    let store = Store::default();
    let fake = Fake::start(creating(&store)).await;
    let rig = Rig::start(&[backend("a", &fake)]).await;
    rig.write("d", "", &lines(0, 10)).await;
    rig.write("d", "week", &lines(10, 20)).await;
    rig.settled("a").await;
    assert_eq!(store.last_arrivals(), (0..20).collect::<Vec<_>>());
    assert!(rig.letters("a").is_empty());
}

#[tokio::test]
async fn where_nothing_may_be_created_the_backend_stops_and_says_what_is_missing() {
    let store = Store::default();
    let fake = Fake::start(creating(&store)).await;
    let keeps = BackendTable { create_missing: false, ..backend("a", &fake) };
    let rig = Rig::start(&[keeps]).await;
    rig.write("d", "", &lines(0, 10)).await;
    rig.until("a", "stopped", |status| {
        let named =
            status.reason.as_deref().is_some_and(|reason| reason.contains("create-missing"));
        status.state == Phase::Stopped && named
    })
    .await;
    fake.behave(store.all());
    rig.settled("a").await;
    assert_eq!(store.last_arrivals().len(), 10);
}

#[tokio::test]
async fn users_are_changed_on_all_backends_or_on_none() {
    let well = Fake::start(|_| results("{\"statement_id\":0}")).await;
    let away = BackendTable::new("away", "http://127.0.0.1:1");
    let rig = Rig::start(&[backend("well", &well), away]).await;
    let error = rig.backends.run_everywhere("CREATE USER u", "").await.unwrap_err();
    assert!(error.to_string().contains("not reachable: away"), "{error}");
    assert!(journal_of(&well).is_empty());
    drop(rig);
    let rig = Rig::start(&[backend("well", &well)]).await;
    rig.backends.run_everywhere("CREATE USER u", "").await.unwrap();
    assert_eq!(journal_of(&well), ["CREATE USER u"]);
}

#[tokio::test]
async fn the_catalogue_follows_what_runs_and_what_is_listed() {
    let fake = Fake::start(|seen| match seen.parameter("q") {
        "SHOW DATABASES" => results(
            "{\"series\":[{\"name\":\"databases\",\"columns\":[\"name\"],\"values\":[[\"d\"]]}]}",
        ),
        q if q.starts_with("SHOW") => results(
            "{\"series\":[{\"columns\":[\"name\",\"default\"],\"values\":[[\"week\",true]]}]}",
        ),
        _ => results("{}"),
    })
    .await;
    let rig = Rig::start(&[backend("a", &fake)]).await;
    while !rig.catalogue.snapshot().known() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(rig.catalogue.resolve("d", "").await, Lookup::Policy("week".into()));
    assert_eq!(rig.catalogue.resolve("x", "").await, Lookup::NoDatabase);
    let dropping = Change::DropDatabase { name: "d".into() };
    fake.behave(|_| Act::Reset);
    let position = rig.run(1, "", "DROP DATABASE d").await;
    rig.catalogue.apply(position, &dropping);
    assert_eq!(rig.catalogue.lookup("d", ""), Lookup::NoDatabase);
    fake.behave(|_| results("{}"));
    rig.settled("a").await;
    assert_eq!(rig.catalogue.lookup("d", ""), Lookup::NoDatabase);
}
