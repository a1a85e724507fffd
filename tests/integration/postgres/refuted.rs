//! A function that becomes one that writes, past Weir, while its callers are taken for reads.

use rig::postgres::{Cluster, rows};
use rig::wait;

use super::scene::{client, weir};

#[test]
fn what_a_replica_refuses_to_write_goes_to_the_primary_from_then_on() {
    let primary = Cluster::start();
    let function = |does: &str| {
        let sql = "CREATE OR REPLACE FUNCTION one() RETURNS bigint LANGUAGE plpgsql AS";
        primary.sql(&format!("{sql} 'BEGIN RETURN {does}; END' STABLE"));
    };
    primary.sql("CREATE SEQUENCE s START 100");
    function("1");
    let replica = primary.replica();
    replica.catch_up(&primary);
    let weir = weir(&[&primary, &replica], "");
    let mut client = client(&weir).expect("it takes clients");
    let mut ask = |sql: &str| rows(&mut client, sql).map(|rows| rows[0][0].clone());
    let sum = |name: &str, labels: &[(&str, &str)]| weir.metrics().sum(name, labels);
    let ridden = || sum("weir_postgres_rounds_total", &[("way", "lane")]);
    wait::until("it rides", wait::LONG, || {
        assert_eq!(ask("SELECT one()").unwrap().as_deref(), Some("1"));
        ridden() > 0.0
    });
    wait::until("a replica answers", wait::LONG, || {
        ask("SELECT current_setting('transaction_read_only'), one()").unwrap().as_deref()
            == Some("on")
    });

    function("nextval(''s'')");
    replica.catch_up(&primary);
    let repeats = || sum("weir_postgres_repeats_total", &[]);
    // Refuted, or not proven any more: the catalogue may be asked again at any time.
    let unproven = || sum("weir_postgres_unproven_total", &[]);
    let (before, unproven_before) = (repeats(), unproven());
    for n in 100..120 {
        let told = ask(&format!("SELECT one() + {}", n % 3)).expect("no error is told");
        assert_eq!(told, Some((n + n % 3).to_string()));
    }
    assert!(repeats() - before <= 2.0, "it is tried again and again");
    assert!(unproven() - unproven_before >= 10.0, "it goes to the primary from then on");
    wait::until("a replica answers others", wait::LONG, || {
        ask("SELECT current_setting('transaction_read_only')").unwrap().as_deref() == Some("on")
    });
}
