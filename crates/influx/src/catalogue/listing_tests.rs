use serde_json::json;

use super::*;

fn created(name: &str) -> Change {
    Change::CreateDatabase { name: name.into(), policy: None }
}

/// Answers as InfluxDB 1.6.7 gives them.
#[test]
fn reads_what_influxdb_shows() {
    let shown = json!({"results":[{"statement_id":0,"series":[
        {"name":"databases","columns":["name"],"values":[["_internal"],["d"]]}]}]});
    let names = database_names(&shown).unwrap();
    assert_eq!(names, ["_internal", "d"]);
    let columns = json!(["name", "duration", "shardGroupDuration", "replicaN", "default"]);
    let shown = json!({"results":[
        {"statement_id":0,"series":[{"columns":columns,
            "values":[["monitor","168h0m0s","24h0m0s",1,true]]}]},
        {"statement_id":1,"series":[{"columns":columns,
            "values":[["autogen","0s","168h0m0s",1,false],["w","168h0m0s","24h0m0s",1,true]]}]}]});
    let read = policies(&names, &shown).unwrap();
    assert_eq!(read[1].1.default, "w");
    let listing = Listing { databases: read.into_iter().collect() };
    assert_eq!(
        listing.creation("d", "w"),
        [
            "CREATE DATABASE \"d\"",
            "ALTER RETENTION POLICY \"autogen\" ON \"d\" DURATION INF REPLICATION 1 \
             SHARD DURATION 168h0m0s",
            "CREATE RETENTION POLICY \"w\" ON \"d\" DURATION 168h0m0s REPLICATION 1 \
             SHARD DURATION 24h0m0s DEFAULT",
        ]
    );
}

#[test]
fn an_error_in_the_answer_is_told() {
    let failed = json!({"results":[{"statement_id":0,"error":"not authorized"}]});
    assert_eq!(database_names(&failed), Err("not authorized".into()));
    assert_eq!(database_names(&json!({"error":"no"})), Err("no".into()));
    assert!(database_names(&json!([])).is_err());
    assert!(policies(&["a".into()], &json!({"results":[]})).is_err());
    assert_eq!(database_names(&json!({"results":[{}]})), Ok(vec![]));
}

#[test]
fn what_nobody_knows_is_created_with_what_the_name_tells() {
    let listing = Listing::default();
    assert_eq!(listing.creation("d", ""), ["CREATE DATABASE \"d\""]);
    assert_eq!(listing.creation("d", "autogen"), ["CREATE DATABASE \"d\""]);
    let policy = "CREATE RETENTION POLICY \"x\" ON \"d\" DURATION INF REPLICATION 1";
    assert_eq!(listing.creation("d", "x"), ["CREATE DATABASE \"d\"", policy]);
}

#[test]
fn changes_do_what_the_statements_do() {
    let mut listing = Listing::default();
    listing.apply(&created("d"));
    listing.apply(&Change::CreateRetentionPolicy {
        db: "d".into(),
        name: "w".into(),
        default: true,
    });
    listing.apply(&created("d"));
    assert_eq!(listing.databases["d"].default, "w");
    listing.apply(&Change::DropRetentionPolicy { db: "d".into(), name: "w".into() });
    assert_eq!(listing.databases["d"].default, "");
    assert!(listing.databases["d"].policies.contains_key("autogen"));
    listing.apply(&Change::DropDatabase { name: "d".into() });
    assert_eq!(listing, Listing::default());
}

#[test]
fn the_union_has_everything_and_prefers_the_first() {
    let (mut a, mut b) = (Listing::default(), Listing::default());
    a.apply(&created("x"));
    b.apply(&Change::CreateDatabase { name: "x".into(), policy: Some("w".into()) });
    b.apply(&created("y"));
    a.unite(&b);
    assert_eq!(a.databases["x"].default, "autogen");
    assert_eq!(a.databases["x"].policies.len(), 2);
    assert!(a.databases.contains_key("y"));
}

#[test]
fn a_server_is_given_what_it_lacks_of_others_and_keeps_what_they_lack() {
    let policy = |duration: &str| Policy {
        duration: duration.to_owned(),
        shard_duration: "24h0m0s".to_owned(),
        replicas: 1,
    };
    let listing = |default: &str, of: &[(&str, &str)]| {
        let policies = of.iter().map(|(name, duration)| ((*name).to_owned(), policy(duration)));
        let policies = Policies { default: default.to_owned(), policies: policies.collect() };
        Listing { databases: [("d".to_owned(), policies)].into() }
    };
    let wanted = listing("p", &[("autogen", "0s"), ("p", "48h0m0s")]);
    let clauses = "REPLICATION 1 SHARD DURATION 24h0m0s";
    assert_eq!(
        Listing::default().changes_to(&wanted),
        [
            "CREATE DATABASE \"d\"".to_owned(),
            format!("ALTER RETENTION POLICY \"autogen\" ON \"d\" DURATION INF {clauses}"),
            format!("CREATE RETENTION POLICY \"p\" ON \"d\" DURATION 48h0m0s {clauses} DEFAULT"),
        ]
    );
    assert!(wanted.changes_to(&wanted).is_empty());
    let more = listing("own", &[("autogen", "1h0m0s"), ("own", "0s"), ("p", "48h0m0s")]);
    assert_eq!(
        more.changes_to(&wanted),
        [
            format!("ALTER RETENTION POLICY \"autogen\" ON \"d\" DURATION INF {clauses}"),
            format!("ALTER RETENTION POLICY \"p\" ON \"d\" DURATION 48h0m0s {clauses} DEFAULT"),
        ]
    );
    assert_eq!(
        wanted.changes_to(&wanted.kept_for_ever()),
        [format!("ALTER RETENTION POLICY \"p\" ON \"d\" DURATION INF {clauses} DEFAULT")]
    );
    assert_eq!(policy("48h0m0s").duration_ns(), Some(172_800_000_000_000));
    assert_eq!((policy("0s").duration_ns(), policy("").duration_ns()), (None, None));
}
