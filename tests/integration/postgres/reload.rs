//! Users, servers and limits change while clients are at work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pg::NoTls;
use rig::http::Request;
use rig::postgres::{Cluster, SUPERUSER};
use rig::wait;
use rig::weir::{Setup, Weir};

use super::scene::{client, config, console, row, rows, said, table, value};

#[test]
fn users_servers_and_limits_change_and_no_client_notices() {
    let cluster = Cluster::start();
    cluster.sql("CREATE ROLE ann LOGIN SUPERUSER");
    let replica = cluster.replica();
    let only = |users: &str| format!("[[postgres.auth]]\nuser = [{users}]\nmethod = \"trust\"\n");
    let rules = format!("{}[[postgres.auth]]\nmethod = \"reject\"\n", only("\"postgres\""));
    let mut weir = Setup::new().table(&table(&[&cluster], &rules)).start();
    let (ended, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let at_work: Vec<_> = (0..4)
        .map(|n| {
            let mut app = client(&weir).expect("let in");
            let (ended, done) = (ended.clone(), done.clone());
            std::thread::spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    assert_eq!(value(&mut app, "SELECT 1"), Ok("1".into()));
                    let sum = format!("BEGIN; SELECT txid_current(); SELECT {n} + 1; COMMIT");
                    app.batch_execute(&sum).expect("it is run");
                    done.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let mut operator = console(&weir);
    let clients = |operator: &mut pg::Client| {
        let mut ids: Vec<String> =
            rows(operator, "SHOW CLIENTS").into_iter().map(|row| row["id"].clone()).collect();
        ids.sort();
        ids
    };
    let before = clients(&mut operator);
    let refused = config(weir.postgres, "ann", SUPERUSER).connect(NoTls).map(|_| ());
    assert!(said(&refused.expect_err("no rule lets her in")).starts_with("28000"));

    let rules = format!(
        "max-connections-per-user = 5\n[postgres.pool]\nsize = 3\n{}",
        only("\"postgres\", \"ann\"")
    );
    weir.configure(|_| Setup::new().table(&table(&[&cluster, &replica], &rules)));
    operator.simple_query("RELOAD").expect("it is taken");
    assert_eq!(rows(&mut operator, "SHOW BACKENDS").len(), 2);
    let pool = row(&mut operator, "SHOW CONFIG", "key", "pool.size");
    assert_eq!(pool["value"], "3");
    let ann = config(weir.postgres, "ann", SUPERUSER).connect(NoTls);
    let mut ann = ann.expect("a rule lets her in");
    assert_eq!(value(&mut ann, "SELECT 1"), Ok("1".into()));
    // Those that were there before count, too.
    let _fifth = client(&weir).expect("let in");
    let sixth = said(&client(&weir).map(|_| ()).expect_err("one too many"));
    assert!(sixth.starts_with("53300"), "{sixth}");
    let at = done.load(Ordering::Relaxed);
    wait::until("everybody goes on", wait::LONG, || done.load(Ordering::Relaxed) > at + 20);
    wait::until("the new server is used", wait::LONG, || {
        rows(&mut operator, "SHOW SERVERS").iter().any(|server| server["backend"] == "b")
    });

    // A file that can't be used changes nothing.
    weir.configure(|_| Setup::new().table("[postgres]\nlisten = \"{postgres}\"\n"));
    let refused = operator.simple_query("RELOAD").map(|_| ()).expect_err("it can't be used");
    assert_eq!(said(&refused), "F0000 RELOAD failed, see logs for additional details");
    weir.wait_log("postgres.user");
    assert_eq!(rows(&mut operator, "SHOW BACKENDS").len(), 2);
    let now = clients(&mut operator);
    assert!(before.iter().all(|id| now.contains(id)), "{before:?} {now:?}");
    ended.store(true, Ordering::Relaxed);
    at_work.into_iter().for_each(|thread| thread.join().expect("no statement failed"));
}

#[test]
fn what_one_gateway_refuses_the_other_does_not_take_on_either() {
    let cluster = Cluster::start();
    let of = |version: &str, more: &str| {
        let influx = format!("version = \"{version}\"");
        Setup::new().embedded().influx(&influx).table(&format!("{}{more}", table(&[&cluster], "")))
    };
    let mut weir = of("1.8.1", "").start();
    let version = |weir: &Weir| {
        let answer = weir.send(&Request::get("/ping"));
        answer.header("x-influxdb-version").unwrap_or_default().to_owned()
    };
    let nowhere = "[[postgres.backend]]\nname = \"nowhere\"\nurl = \"postgresql://127.0.0.1:2\"\n\
                   user = \"weir\"\npassword-file = \"/nowhere/password\"\n";
    weir.configure(|_| of("1.8.2", nowhere));
    weir.reload();
    weir.wait_log("was not reloaded");
    assert_eq!(version(&weir), "1.8.1");
    weir.configure(|_| of("1.8.2", ""));
    weir.reload();
    wait::until("the file is in force", wait::LONG, || version(&weir) == "1.8.2");
}
