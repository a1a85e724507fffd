use proptest::prelude::{prop_assert, proptest};
use serde_json::{Value, json};

use super::*;

/// A Weir whose backend b has been away for three hours.
fn document() -> Value {
    let backend = |name: &str, state: &str, items: u64, age: Value| {
        json!({
            "name": name, "url": format!("http://{name}:8086"), "state": state,
            "reason": (state != "delivering").then_some("Connection refused"),
            "last_error": "cannot connect", "last_refusal": "late",
            "cursor": {
                "delivered": 1, "dead_lettered": 0, "dropped": 0, "dropped_oldest": 0,
                "dropped_damaged": 0,
                "waiting": { "items": items, "bytes": items * 60, "oldest_age_seconds": age },
            },
        })
    };
    json!({
        "process": { "version": "1", "pid": 1, "uptime_seconds": 1.0, "workers": 1 },
        "ready": { "yes": true, "reason": null },
        "journal": {
            "ack": "durable", "when_full": "reject", "poisoned": null, "full": false,
            "disk_full": false, "bytes_used": 1, "bytes_max": 100, "until_full_seconds": 18_000.0,
        },
        "influx": {
            "connections": 1, "points_accepted": 1, "collisions": null, "backends": [
                backend("a", "delivering", 0, Value::Null),
                backend("b", "retrying", 2_100_000, json!(10_800.0)),
            ],
        },
    })
}

fn of(document: &Value) -> Vec<Finding> {
    let status = serde_json::from_value(document.clone()).unwrap();
    let mut seen = Observation { at: 1e9, status, ..Observation::default() };
    seen.follow(&Observation::default());
    findings(&seen)
}

#[test]
fn a_backend_that_is_away_is_said_with_what_waits_and_how_long_the_journal_lasts() {
    let found = of(&document());
    assert_eq!(
        found[0].text,
        "b has been away for 3h: 2.1 M points wait; the journal lasts 5h more (Connection refused)"
    );
    assert_eq!((found[0].level, &*found[0].remedy), (Level::Bad, "curl -i http://b:8086/ping"));
    assert_eq!(found.len(), 1);
}

#[test]
fn the_worst_comes_first() {
    let mut worse = document();
    worse["journal"]["poisoned"] = json!("fdatasync failed");
    worse["ready"] = json!({ "yes": false, "reason": "the journal failed" });
    worse["influx"]["backends"][0]["cursor"]["dead_lettered"] = json!(12);
    worse["process"]["reload"] = json!({ "at": 1.0, "refused": "line 1", "needs_restart": [] });
    let found = of(&worse);
    let words = [
        "a sync of the journal failed",
        "no writes are taken",
        "b has been away",
        "reload was refused",
        "a has refused 12 points for good: late",
    ];
    assert_eq!(found.len(), words.len(), "{found:#?}");
    for (finding, words) in found.iter().zip(words) {
        assert!(finding.text.contains(words), "{words}: {found:#?}");
    }
}

#[test]
fn of_two_that_are_away_the_one_with_more_comes_first() {
    let mut both = document();
    both["influx"]["backends"][0]["state"] = json!("retrying");
    both["influx"]["backends"][0]["cursor"]["waiting"]["items"] = json!(1);
    let found = of(&both);
    assert!(found[0].text.starts_with("b ") && found[1].text.contains("a has been away"));
    assert!(found[1].text.contains("1 point waits"), "{}", found[1].text);
}

#[test]
fn a_backlog_says_when_it_is_over_or_that_it_is_not() {
    let mut late = document();
    late["influx"]["backends"][1]["state"] = json!("catching-up");
    late["influx"]["backends"][1]["reason"] = json!(null);
    let status: Status = serde_json::from_value(late).unwrap();
    let mut seen = Observation { at: 1e9, status, ..Observation::default() };
    assert!(findings(&seen)[0].text.contains("it does not catch up; the journal lasts 5h more"));
    seen.gains.insert("b".to_owned(), 2100.0);
    assert!(findings(&seen)[0].text.contains("caught up in 16m 40s"), "{:?}", findings(&seen));
}

#[test]
fn a_member_of_one_of_many_sets_catches_up_by_what_it_passes() {
    let mut document = document();
    document["influx"]["backends"][1]["state"] = json!("catching-up");
    let mut seen = Observation::default();
    // A quarter of what it passes is its own, and three quarters as much comes in meanwhile.
    for second in 0_u32..10 {
        let cursor = &mut document["influx"]["backends"][1]["cursor"];
        cursor["delivered"] = json!(second * 1000);
        cursor["waiting"]["items"] = json!(2_100_000 - second * 1000);
        document["influx"]["points_accepted"] = json!(second * 3000);
        let status = serde_json::from_value(document.clone()).unwrap();
        let at = 1e9 + f64::from(second);
        let mut next = Observation { at, status, ..Observation::default() };
        next.follow(&seen);
        seen = next;
    }
    let words = &findings(&seen)[0].text;
    assert!(words.contains("caught up in 34m 51s"), "{words}");
    assert_eq!(seen.catching_up().into_keys().collect::<Vec<_>>(), ["b"]);
}

#[test]
fn all_is_well_where_nothing_is_wrong() {
    let mut well = document();
    well["influx"]["backends"][1] = well["influx"]["backends"][0].clone();
    assert_eq!(of(&well), []);
}

proptest! {
    #[test]
    fn bad_ones_stand_before_others_and_texts_are_short(
        states in proptest::collection::vec(0_usize..4, 0..60), words in ".{0,400}",
    ) {
        let names = ["delivering", "catching-up", "retrying", "stopped"];
        let mut many = document();
        let template = many["influx"]["backends"][1].clone();
        let backends = states.iter().enumerate().map(|(number, state)| {
            let mut backend = template.clone();
            backend["name"] = json!(format!("b{number}{words}"));
            backend["state"] = json!(names[*state]);
            backend["reason"] = json!(words);
            backend
        });
        many["influx"]["backends"] = backends.collect();
        let found = of(&many);
        prop_assert!(found.len() <= FINDINGS_MAX);
        prop_assert!(found.is_sorted_by_key(|finding| finding.level));
        prop_assert!(found.iter().all(|finding| finding.text.chars().count() < 300));
    }
}

#[test]
fn a_transaction_that_is_left_open_is_said_with_its_user_and_time() {
    let mut idle = document();
    let pool = json!({
        "database": "shop", "user": "app", "mode": "transaction", "waiting": 0,
        "wait_max_seconds": 0.0, "clients": 3, "pinned": 0, "idle_in_transaction": 2,
        "idle_in_transaction_max_seconds": 90.0, "leased": 2, "idle": 0, "lanes": 0,
        "lane_statements": 0,
    });
    idle["influx"] = Value::Null;
    idle["postgres"] = json!({
        "connections": 3, "waiting": 0, "paused": false, "queries": 1, "lane_queries": 0,
        "replica_queries": 0, "backends": [], "pools": [pool],
    });
    let found = of(&idle);
    assert_eq!(
        found[0].text,
        "2 clients of app at shop are idle in a transaction, the longest for 1m 30s"
    );
    idle["postgres"]["pools"][0]["idle_in_transaction_max_seconds"] = json!(59.0);
    assert_eq!(of(&idle).len(), 0);
}

#[test]
fn a_journal_that_lasts_for_months_is_not_worth_a_word() {
    let mut slow = document();
    slow["journal"]["until_full_seconds"] = json!(31.0 * 86_400.0);
    assert!(!of(&slow)[0].text.contains("lasts"), "{}", of(&slow)[0].text);
}
