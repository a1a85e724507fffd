//! What a client may ask for at once, and what of its session stays its own at the edges.

use rig::postgres::{Cluster, Setup};
use wire::postgres::frontend::{put_bind, put_execute, put_parse, put_sync};

use super::scene::{asks, peer, weir};

#[test]
fn a_round_of_very_many_messages_is_answered() {
    let cluster = Cluster::start();
    let weir = weir(&[&cluster], "");
    let mut peer = peer(&weir);
    let mut out = Vec::new();
    // All of them are known: no server says anything, and the first answer comes with the last.
    put_parse(&mut out, b"", b"SELECT 'new'", &[]);
    for _ in 0..100_000 {
        put_parse(&mut out, b"", b"SELECT 'new'", &[]);
    }
    put_bind(&mut out, b"", b"", &[]);
    put_execute(&mut out, b"", 0);
    put_sync(&mut out);
    for _ in 0..3 {
        peer.send(&out).expect("it is taken");
        assert_eq!(peer.reply().expect("it is answered").value(), Some("new"));
    }
}

#[test]
fn a_prepared_transaction_leaves_its_settings_to_its_client_alone() {
    let cluster = Setup::new().setting("max_prepared_transactions", "5").start();
    let weir = weir(&[&cluster], "pool.size = 1\nlanes.on = false");
    let (mut one, mut other) = (peer(&weir), peer(&weir));
    for sql in ["BEGIN", "SET work_mem = '77MB'", "PREPARE TRANSACTION 'p'"] {
        assert_eq!(asks(&mut one, sql).error, None, "{sql}");
    }
    assert_ne!(asks(&mut other, "SHOW work_mem").value(), Some("77MB"));
    assert_eq!(asks(&mut one, "SHOW work_mem").value(), Some("77MB"));
    assert_eq!(asks(&mut one, "ROLLBACK PREPARED 'p'").error, None);
}

#[test]
fn any_number_of_settings_stay_a_clients_own() {
    let cluster = Cluster::start();
    let weir = weir(&[&cluster], "pool.size = 2");
    let (mut one, mut other) = (peer(&weir), peer(&weir));
    assert_eq!(asks(&mut one, "BEGIN").error, None);
    for n in 0..600 {
        assert_eq!(asks(&mut one, &format!("SET app.s{} = 'mine {n}'", n % 300)).error, None);
    }
    assert_eq!(asks(&mut one, "COMMIT").error, None);
    for n in [0, 1, 299] {
        let show = format!("SELECT current_setting('app.s{n}', true)");
        let mine = format!("mine {}", n + 300);
        assert_eq!(asks(&mut one, &show).value(), Some(&*mine));
        assert_ne!(asks(&mut other, &show).value(), Some(&*mine));
    }
    assert_eq!(asks(&mut one, "DISCARD ALL").error, None);
    let left = asks(&mut one, "SELECT current_setting('app.s1', true)");
    assert_ne!(left.value(), Some("mine 301"));
}

#[test]
fn what_the_code_of_a_block_or_a_function_sets_stays_its_clients_own() {
    let cluster = Cluster::start();
    let body = "BEGIN IF true THEN SET work_mem = '78MB'; END IF; END";
    cluster.sql(&format!("CREATE FUNCTION sets() RETURNS void LANGUAGE plpgsql AS $$ {body} $$"));
    let weir = weir(&[&cluster], "pool.size = 2\nlanes.on = false");
    let mut probe = peer(&weir);
    rig::wait::until("functions are known", rig::wait::LONG, || {
        asks(&mut probe, "SELECT sets()");
        asks(&mut probe, "SHOW work_mem").value() == Some("78MB")
    });
    assert_eq!(asks(&mut probe, "DISCARD ALL").error, None);
    for sql in [format!("DO $$ {body} $$"), "SELECT sets()".to_owned()] {
        let (mut one, mut other) = (peer(&weir), peer(&weir));
        assert_eq!(asks(&mut one, &sql).error, None, "{sql}");
        for _ in 0..3 {
            assert_ne!(asks(&mut other, "SHOW work_mem").value(), Some("78MB"), "{sql}");
            assert_eq!(asks(&mut one, "SHOW work_mem").value(), Some("78MB"), "{sql}");
        }
    }
}
