//! A session is its own user's, by what holds now: encodings, defaults, names and rights.

use std::time::Duration;

use rig::postgres::{MessageClient, Reply, SUPERUSER};
use rig::wait;

use wire::postgres::frontend::{put_bind, put_execute, put_parse, put_sync};

use super::beside::{Beside, ONE, extended};
use super::scene::{asks, config};

/// Changes past Weir are to be seen within seconds.
const SECONDS: Duration = Duration::from_secs(15);

const TENANTS: &str = "
    CREATE ROLE app LOGIN;
    CREATE TABLE secrets (tenant text, secret text);
    INSERT INTO secrets VALUES ('müller', 'müller''s'), ('mÃ¼ller', 'not müller''s');
    GRANT ALL ON secrets TO app;
    ALTER TABLE secrets ENABLE ROW LEVEL SECURITY;
    CREATE POLICY own ON secrets USING (tenant = current_setting('app.tenant', true));
";

#[test]
fn a_tenant_beyond_ascii_is_itself_whatever_encoding_somebody_else_has() {
    let read = "SELECT string_agg(secret, ',') FROM secrets";
    let [one, many] = [ONE, ""].map(|lines| Beside::new(TENANTS, lines));
    for (turn, beside) in (0..20).flat_map(|turn| [(turn, &one), (turn, &many)]) {
        let mut ann = beside.through_as("app", &[("client_encoding", "UTF8")]);
        asks(&mut ann, "SET app.tenant = 'müller'");
        assert_eq!(asks(&mut ann, read).value(), Some("müller's"), "turn {turn}");
        let mut bob = beside.through_as("app", &[("client_encoding", "LATIN1")]);
        asks(&mut bob, "SELECT 1");
        assert_eq!(asks(&mut ann, read).value(), Some("müller's"), "turn {turn}");
        assert_eq!(extended(&mut ann, read, &[]).value(), Some("müller's"), "turn {turn}");
    }
}

/// The same bytes are other letters where they came as LATIN1.
#[test]
fn a_tenant_that_was_named_in_another_encoding_is_who_was_meant_there() {
    let beside = Beside::new(TENANTS, "pool.size = 2\nlanes.on = false");
    let read = "SELECT string_agg(secret, ',') FROM secrets";
    for (text, sql) in [
        (true, "SET app.tenant = 'müller'"),
        (false, "SET app.tenant = 'müller'"),
        (true, "SELECT 1; SET app.tenant = 'müller'; SELECT 2"),
        (true, "BEGIN; SET app.tenant = 'müller'; COMMIT"),
        (true, "SELECT set_config('app.tenant', 'müller', false)"),
        (false, "SELECT set_config('app.tenant', 'müller', false)"),
    ] {
        let mut ann = beside.through_as("app", &[("client_encoding", "UTF8")]);
        let mut bob = beside.through_as("app", &[("client_encoding", "LATIN1")]);
        asks(&mut ann, "SET app.tenant = 'müller'");
        match text {
            true => asks(&mut bob, sql),
            false => extended(&mut bob, sql, &[]),
        };
        assert_eq!(asks(&mut ann, read).value(), Some("müller's"), "{sql}");
        asks(&mut bob, "SET client_encoding = 'UTF8'");
        assert_eq!(asks(&mut bob, read).value(), Some("not müller's"), "{sql}");
        assert_eq!(asks(&mut ann, read).value(), Some("müller's"), "{sql}");
        asks(&mut bob, "DISCARD ALL");
    }
}

#[test]
fn what_a_client_is_told_of_its_encoding_is_what_it_has() {
    for lines in [ONE, "mode = \"session\""] {
        let beside = Beside::new("", lines);
        for reset in ["DISCARD ALL", "RESET ALL", "RESET client_encoding", "RESET datestyle"] {
            let options = [("options", "-c client_encoding=LATIN1 -c datestyle=ISO,DMY")];
            let say = |mut peer: MessageClient| {
                asks(&mut peer, "CREATE TEMP TABLE held ()");
                asks(&mut peer, reset);
                let shown = ["client_encoding", "datestyle"].map(|name| {
                    asks(&mut peer, &format!("SHOW {name}")).value().map(str::to_owned)
                });
                let told =
                    ["client_encoding", "DateStyle"].map(|name| peer.reported.get(name).cloned());
                (shown, told)
            };
            let wanted = say(beside.directly_as(SUPERUSER, &options));
            assert_eq!(say(beside.through_as(SUPERUSER, &options)), wanted, "{lines}: {reset}");
        }
    }
}

/// A reported setting that a function set, and that is taken away again, is told as taken away.
#[test]
fn a_setting_that_is_taken_away_is_reported_as_what_it_is() {
    let beside = Beside::new(
        "CREATE FUNCTION runs(what text) RETURNS void LANGUAGE plpgsql \
         AS $$ BEGIN EXECUTE what; END $$",
        ONE,
    );
    for sql in [
        "UPDATE pg_settings SET setting = 'German' WHERE name = 'DateStyle'",
        "SELECT runs('SET datestyle = ''German''')",
    ] {
        let mut ann = beside.through();
        asks(&mut ann, sql);
        for _ in 0..3 {
            let shown = asks(&mut ann, "SHOW datestyle").value().map(str::to_owned);
            assert_eq!(ann.reported.get("DateStyle"), shown.as_ref(), "{sql}");
        }
        // At once, too.
        asks(&mut ann, sql);
        asks(&mut ann, "DISCARD ALL");
        let told = ann.reported.get("DateStyle").cloned();
        let shown = asks(&mut ann, "SHOW datestyle").value().map(str::to_owned);
        assert_eq!(told, shown, "{sql}, DISCARD ALL");
    }
}

/// What a new client through Weir is told, as an error where it is one.
fn newly(beside: &Beside, user: &str, sql: &str) -> Result<String, String> {
    let client = config(beside.weir.postgres, user, SUPERUSER).connect(pg::NoTls);
    let mut client = client.map_err(|error| super::scene::said(&error))?;
    super::scene::value(&mut client, sql)
}

#[test]
fn new_defaults_of_a_role_or_database_are_those_of_new_clients() {
    let beside = Beside::new("CREATE ROLE app LOGIN", "");
    let changes: [(&str, &str); 10] = [
        ("ALTER ROLE app SET work_mem = '7MB'", "7MB"),
        ("ALTER ROLE app IN DATABASE postgres SET work_mem = '8MB'", "8MB"),
        ("ALTER ROLE app IN DATABASE postgres RESET work_mem", "7MB"),
        ("ALTER ROLE app RESET ALL", "4MB"),
        ("ALTER DATABASE postgres SET work_mem = '9MB'", "9MB"),
        ("ALTER ROLE ALL SET work_mem = '6MB'", "9MB"),
        ("ALTER DATABASE postgres RESET work_mem", "6MB"),
        ("ALTER ROLE ALL RESET work_mem", "4MB"),
        ("ALTER SYSTEM SET work_mem = '5MB'; SELECT pg_reload_conf()", "5MB"),
        ("ALTER SYSTEM RESET work_mem; SELECT pg_reload_conf()", "4MB"),
    ];
    // Through Weir at once, past it within seconds.
    for (change, wanted) in changes {
        let many: Vec<MessageClient> = (0..5).map(|_| beside.through_as("app", &[])).collect();
        for (n, mut peer) in many.into_iter().enumerate() {
            asks(&mut peer, &format!("SELECT {n}"));
        }
        if change.contains("SYSTEM") {
            change.split("; ").for_each(|sql| drop(beside.cluster.sql(sql)));
        } else {
            assert_eq!(asks(&mut beside.through(), change).error, None, "{change}");
            assert_eq!(newly(&beside, "app", "SHOW work_mem").as_deref(), Ok(wanted), "{change}");
        }
        wait::until(change, SECONDS, || {
            newly(&beside, "app", "SHOW work_mem").as_deref() == Ok(wanted)
        });
    }
    for (change, wanted) in changes {
        newly(&beside, "app", "SELECT 1").expect("it is let in");
        change.split("; ").for_each(|sql| drop(beside.cluster.sql(sql)));
        wait::until(change, SECONDS, || {
            newly(&beside, "app", "SHOW work_mem").as_deref() == Ok(wanted)
        });
    }
}

#[test]
fn a_default_that_was_there_for_a_moment_stays_with_nobody() {
    let beside = Beside::new("", "");
    let mut client = super::scene::client(&beside.weir).expect("it is let in");
    super::scene::until_known(&beside.weir, &mut client);
    drop(client);
    // A role that Weir has known from its start; what it knows of it is two seconds old at most.
    for value in ["6MB", "7MB"] {
        beside.cluster.sql(&format!("ALTER ROLE postgres SET work_mem = '{value}'"));
        wait::until("it is known", SECONDS, || {
            newly(&beside, SUPERUSER, "SHOW work_mem").as_deref() == Ok(value)
        });
    }
    // Whoever finds all connections taken has one opened.
    let mut many: Vec<MessageClient> = (0..6).map(|_| beside.through()).collect();
    beside.cluster.sql("ALTER ROLE postgres IN DATABASE postgres SET work_mem = '8MB'");
    let had = many.iter_mut().map(|peer| {
        asks(peer, "BEGIN");
        asks(peer, "SHOW work_mem").value().map(str::to_owned)
    });
    assert!(had.collect::<Vec<_>>().contains(&Some("8MB".to_owned())));
    beside.cluster.sql("ALTER ROLE postgres IN DATABASE postgres RESET work_mem");
    for peer in &mut many {
        asks(peer, "COMMIT");
    }
    wait::until("all have the default of now", SECONDS, || {
        let had = many.iter_mut().map(|peer| {
            asks(peer, "BEGIN");
            asks(peer, "SHOW work_mem").value() == Some("7MB")
        });
        let have = had.collect::<Vec<_>>();
        for peer in &mut many {
            asks(peer, "COMMIT");
        }
        !have.contains(&false)
    });
}

#[test]
fn a_setting_that_is_reported_is_reported_to_new_clients_as_it_is_now() {
    let beside = Beside::new("CREATE ROLE app LOGIN", "");
    let told = || {
        let mut peer = beside.through_as("app", &[]);
        let shown = asks(&mut peer, "SHOW timezone").value().unwrap_or_default().to_owned();
        (peer.reported.get("TimeZone").cloned().unwrap_or_default(), shown)
    };
    told();
    asks(&mut beside.through(), "ALTER ROLE app SET timezone = 'Asia/Tokyo'");
    assert_eq!(told(), ("Asia/Tokyo".to_owned(), "Asia/Tokyo".to_owned()));
    beside.cluster.sql("ALTER ROLE app SET timezone = 'America/Lima'");
    wait::until("it is reported", SECONDS, || {
        told() == ("America/Lima".into(), "America/Lima".into())
    });
}

#[test]
fn a_user_that_was_dropped_and_made_again_is_the_new_one() {
    for through in [true, false] {
        let beside = Beside::new("CREATE TABLE t (n int); INSERT INTO t VALUES (1)", ONE);
        let run = |sql: &str| match through {
            true => assert_eq!(asks(&mut beside.through(), sql).error, None, "{sql}"),
            false => drop(beside.cluster.sql(sql)),
        };
        for turn in 0..3 {
            run("CREATE USER app");
            run("GRANT SELECT ON t TO app");
            let look = "SELECT n || session_user || current_user FROM t";
            wait::until("the new one may read", SECONDS, || newly(&beside, "app", look).is_ok());
            assert_eq!(newly(&beside, "app", look).as_deref(), Ok("1appapp"), "turn {turn}");
            run("DROP OWNED BY app");
            run("DROP USER app");
            let gone = format!("it is gone, {through}, turn {turn}");
            wait::until(&gone, SECONDS, || newly(&beside, "app", "SELECT 1").is_err());
        }
        // Before anybody could tell that it was gone.
        run("CREATE USER app");
        let comes_in = || newly(&beside, "app", "SELECT 1").is_ok();
        wait::until("it is let in", SECONDS, comes_in);
        run("DROP USER app");
        run("CREATE USER app");
        let look = "SELECT session_user::text || current_user || \
                    (SELECT count(*) FROM pg_roles WHERE rolname = session_user)";
        if through {
            assert_eq!(newly(&beside, "app", look).as_deref(), Ok("appapp1"));
        }
        wait::until("it is the new one", SECONDS, || {
            newly(&beside, "app", look).as_deref() == Ok("appapp1")
                && newly(&beside, "app", "CREATE TEMP TABLE mine ()").is_ok()
        });
    }
}

#[test]
fn a_name_that_another_role_had_has_none_of_its_connections() {
    for through in [true, false] {
        let beside = Beside::new("CREATE USER ann; CREATE USER bob", ONE);
        let run = |sql: &str| match through {
            true => assert_eq!(asks(&mut beside.through(), sql).error, None, "{sql}"),
            false => drop(beside.cluster.sql(sql)),
        };
        let look = "SELECT session_user::text";
        assert_eq!(newly(&beside, "ann", look).as_deref(), Ok("ann"));
        assert_eq!(newly(&beside, "bob", look).as_deref(), Ok("bob"));
        run("ALTER ROLE ann RENAME TO third");
        run("ALTER ROLE bob RENAME TO ann");
        if through {
            assert_eq!(newly(&beside, "ann", look).as_deref(), Ok("ann"));
            assert!(newly(&beside, "bob", look).is_err());
        }
        wait::until("names are those of now", SECONDS, || {
            newly(&beside, "ann", look).as_deref() == Ok("ann")
                && newly(&beside, "third", look).as_deref() == Ok("third")
                && newly(&beside, "bob", look).is_err()
        });
    }
}

#[test]
fn who_may_not_come_in_any_more_does_not() {
    let changes = [
        ("ALTER ROLE app NOLOGIN", "ALTER ROLE app LOGIN", "28000"),
        (
            "REVOKE CONNECT ON DATABASE postgres FROM PUBLIC",
            "GRANT CONNECT ON DATABASE postgres TO PUBLIC",
            "42501",
        ),
        ("DROP ROLE app", "CREATE ROLE app LOGIN", "28000"),
    ];
    for through in [true, false] {
        let beside = Beside::new("CREATE ROLE app LOGIN", "");
        for (out, back, code) in changes {
            newly(&beside, "app", "SELECT 1").expect("it is let in");
            for (sql, comes_in) in [(out, false), (back, true)] {
                if through {
                    assert_eq!(asks(&mut beside.through(), sql).error, None, "{sql}");
                    // A refusal is repeated for a second (`pool.login-retry`).
                    let found = newly(&beside, "app", "SELECT 1");
                    assert!(comes_in || found.is_err(), "{sql}, through Weir: {found:?}");
                } else {
                    beside.cluster.sql(sql);
                }
                wait::until(sql, SECONDS, || newly(&beside, "app", "SELECT 1").is_ok() == comes_in);
                if !comes_in {
                    let said = newly(&beside, "app", "SELECT 1").expect_err("it is not let in");
                    assert!(said.starts_with(code), "{sql}: {said}");
                }
            }
        }
    }
}

/// Sends statements without a name in one round, and waits for its end.
fn pipelined(peer: &mut MessageClient, statements: &[&str]) -> Reply {
    let mut out = Vec::new();
    for sql in statements {
        put_parse(&mut out, b"", sql.as_bytes(), &[]);
        put_bind(&mut out, b"", b"", &[]);
        put_execute(&mut out, b"", 0);
    }
    put_sync(&mut out);
    peer.send(&out).expect("it is taken");
    peer.reply().expect("it is answered")
}

#[test]
fn a_setting_that_was_committed_within_a_pipeline_that_failed_later_is_there() {
    let contents = "
        CREATE TABLE t (id int);
        CREATE PROCEDURE commits() LANGUAGE plpgsql AS $$ BEGIN COMMIT; END $$;";
    let beside = Beside::new(contents, "pool.size = 2\nlanes.on = false");
    let set = "SET effective_io_concurrency = 3";
    let fails = "SELECT 'thirteen'::int";
    for statements in [
        &[set, "COMMIT", fails][..],
        &[set, "SELECT 1", "COMMIT", "SELECT 1", fails],
        &[set, "CALL commits()", fails],
        &[set, "VACUUM t", fails],
        &[set, "ROLLBACK", fails],
        &["BEGIN", set, "COMMIT", fails],
        &["BEGIN", set, "COMMIT", "BEGIN", "RESET effective_io_concurrency", fails],
        &["BEGIN", set, "ROLLBACK", fails],
        &[set, "INSERT INTO t VALUES (1)", fails],
        &[set, "SAVEPOINT s", "COMMIT", fails],
    ] {
        let [found, wanted] = [beside.through(), beside.directly()].map(|mut peer| {
            if pipelined(&mut peer, statements).status != 'I' {
                asks(&mut peer, "ROLLBACK");
            }
            // Somebody else has had each connection that was given back meanwhile.
            let mut others = [beside.through(), beside.through()];
            others.iter_mut().for_each(|other| drop(asks(other, "RESET ALL")));
            asks(&mut peer, "SHOW effective_io_concurrency").value().map(str::to_owned)
        });
        assert_eq!(found, wanted, "{statements:?}");
    }
}
