//! What an operator hears about a configuration that can't be used, word for word.

use super::{ConfigError, ConfigFile, load, parse, validate::validate};

/// What `weir check` says about `text` below the file's name; warnings after problems.
fn said(text: &str) -> String {
    let (problems, warnings) = match parse(text) {
        Ok(settings) => {
            let found = validate(&settings);
            (found.problems, found.warnings)
        }
        Err(problems) => (problems, Vec::new()),
    };
    let error = ConfigError::Wrong { file: Some("weir.toml".into()), problems };
    let lines = error.to_string();
    let lines = lines.lines().skip(1).map(|line| line.trim_start().to_owned());
    lines
        .chain(warnings.into_iter().map(|word| format!("warning: {word}")))
        .collect::<Vec<_>>()
        .join("\n")
}

const BACKEND: &str = "[[influx.backend]]\nname = \"a\"\nurl = \"http://127.0.0.1:1\"\n";

#[test]
fn unknown_keys_are_named_with_their_place_and_the_nearest_key() {
    let golden = [
        (
            "worker = 2",
            "line 1: the top of the file has no key \"worker\"; did you mean \"workers\"?",
        ),
        (
            "\n[journal]\nmax_size = \"1GiB\"",
            "line 3: [journal] has no key \"max_size\"; did you mean \"max-size\"?",
        ),
        (
            "[influx]\n[[influx.backend]]\nname = \"a\"\n[[influx.backend]]\nulr = \"http://h\"",
            "line 5: [[influx.backend]] number 2 has no key \"ulr\"; did you mean \"url\"?",
        ),
        (
            "[influx]\ntls = { cert = \"a.pem\", key = \"a.key\" }",
            "line 2: [influx.tls] has no key \"cert\"; did you mean \"certificate\"?",
        ),
        (
            "[admin]\nzzz = 1",
            "line 2: [admin] has no key \"zzz\"; it has listen, tls, hosts, token, token-file, \
             dir, user",
        ),
        (
            "[journl]\ndir = \"x\"\n[log]\nlevle = \"info\"",
            "line 1: the top of the file has no key \"journl\"; did you mean \"journal\"?\n\
             line 4: [log] has no key \"levle\"; did you mean \"level\"?",
        ),
    ];
    for (text, expected) in golden {
        assert_eq!(said(text), expected, "{text}");
    }
}

#[test]
fn any_tag_may_be_stamped() {
    let text = format!("[influx.stamp]\nanything = \"peer\"\n{BACKEND}");
    assert_eq!(said(&text), "");
}

#[test]
fn values_of_the_wrong_kind_are_named_with_their_line() {
    let golden = [
        (
            "[journal]\nack-timeout = 5",
            "line 2: ack-timeout: invalid type: integer `5`, expected a string",
        ),
        (
            "[journal]\nack-timeout = \"5\"",
            "line 2: ack-timeout: \"5\" has no known unit; use one of ns, us, ms, s, m, h, d",
        ),
        (
            "[journal]\nmax-size = \"10gb\"",
            "line 2: max-size: \"10gb\" has no known unit; use one of B, kB, KiB, MB, MiB, \
             GB, GiB, TB, TiB",
        ),
        (
            "[journal]\nack = \"durably\"",
            "line 2: ack: unknown variant `durably`, expected one of `durable`, `written`, \
             `memory`",
        ),
        (
            "[influx]\nlisten = \"8086\"",
            "line 2: listen: this is not an address with its port; write \"127.0.0.1:8086\"",
        ),
        (
            "[influx]\nlisten = 8086",
            "line 2: listen: invalid type: integer `8086`, expected one value or a list of them, \
             each in quotes",
        ),
        ("[[influx.backend]]\nurl = \"h\"", "line 1: [[influx.backend]]: missing field `name`"),
        ("[influx\nlisten = 1", "line 1: [influx: unclosed table, expected `]`"),
    ];
    for (text, expected) in golden {
        assert_eq!(said(text), expected, "{text}");
    }
}

#[test]
fn a_secret_is_not_repeated_in_an_error() {
    let text = "[[influx.backend]]\nname = \"a\"\nurl = \"http://h\"\npassword = 271828";
    assert_eq!(said(text), "line 4: password: can't be read; write text in quotes");
}

#[test]
fn a_file_that_sets_nothing_is_not_simply_used() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("weir.toml");
    let warnings = |text: &str| {
        std::fs::write(&file, text).unwrap();
        load(&ConfigFile { config: Some(file.clone()) }).unwrap().warnings.join("\n")
    };
    for nothing in ["", "\n\n", "# [influx]\n# listen = 5\n"] {
        assert!(warnings(nothing).contains("sets nothing: everything has its"), "{nothing:?}");
    }
    assert!(!warnings(&format!("workers = 1\n{BACKEND}")).contains("sets nothing"));
}

#[test]
fn without_a_backend_there_is_the_store() {
    for file in [None, Some("weir.toml".as_ref())] {
        let settings = parse("").unwrap().complete(file);
        let [store] = &settings.influx.backend[..] else { panic!("{settings:?}") };
        assert!(store.embedded && store.name == "store", "{store:?}");
        assert_eq!(settings.influx.auto_create_database, file.is_none());
    }
    let settings = parse(BACKEND).unwrap().complete(None);
    assert!(!settings.has_store());
}

#[test]
fn what_can_not_work_together_is_found() {
    let golden = [
        (
            format!("{BACKEND}{BACKEND}"),
            "influx.backend \"a\" is there twice; the name tells their cursors and dead letters \
             apart\n\
             warning: influx.backend \"a\" and \"a\" have the same url: every write reaches that \
             server twice",
        ),
        (
            format!("[admin]\nlisten = \"127.0.0.1:8086\"\n{BACKEND}"),
            "influx.listen and admin.listen are both 127.0.0.1:8086; move one of them",
        ),
        (
            format!("[admin]\nlisten = \"localhost\"\n{BACKEND}"),
            "admin.listen = \"localhost\" is not an address; write \"127.0.0.1:8088\" or \"\"",
        ),
        (
            format!("{BACKEND}password-file = \"/does/not/exist\"\n"),
            "influx.backend \"a\" password-file = \"/does/not/exist\" can't be read: No such \
             file or directory (os error 2)",
        ),
        (
            "[[influx.backend]]\nname = \"a\"".to_owned(),
            "influx.backend \"a\": url is missing; write url = \"http://host:8086\" or embedded = \
             true",
        ),
        (
            ["a", "b"]
                .map(|name| format!("[[influx.backend]]\nname = \"{name}\"\nembedded = true"))
                .join("\n"),
            "more than one [[influx.backend]] is embedded; there is one [store]",
        ),
        (
            format!("drain-timeout = \"0\"\n{BACKEND}"),
            "drain-timeout must not be 0; requests that were begun would be cut off",
        ),
    ];
    for (text, expected) in golden {
        assert_eq!(said(&text), expected, "{text}");
    }
}

#[test]
fn what_strangers_could_do_is_a_warning() {
    let user = "[[influx.user]]\nname = \"u\"\npassword = \"$argon2id$v=19$m=8,t=1,p=1$AAAAAAAAAAA$\
                AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\"\n";
    let golden = [
        (
            format!("[influx]\nlisten = \"0.0.0.0:8086\"\n{BACKEND}"),
            "influx.listen 0.0.0.0:8086 is not loopback and there is no [[influx.user]]",
        ),
        (
            format!("[influx]\nlisten = [\"127.0.0.1:2\", \"[::]:8086\"]\n{user}{BACKEND}"),
            "influx.listen [::]:8086 is not loopback and there is no [influx.tls]",
        ),
        (
            format!("[admin]\nlisten = \"0.0.0.0:8088\"\n{BACKEND}"),
            "admin.listen 0.0.0.0:8088 is not loopback and there is no [[admin.user]]",
        ),
        (
            format!("[admin]\nlisten = \"0.0.0.0:8088\"\ntoken = \"t\"\n{BACKEND}"),
            "admin.listen 0.0.0.0:8088 is not loopback and there is no [admin.tls]",
        ),
        (
            "[[influx.backend]]\nname = \"a\"\nurl = \"http://10.0.0.1\"\nuser = \"w\"".to_owned(),
            "influx.backend \"a\": its credentials cross the network in clear text",
        ),
        (
            format!("{BACKEND}insecure-skip-verify = true"),
            "influx.backend \"a\": insecure-skip-verify lets anyone",
        ),
    ];
    for (text, expected) in golden {
        let heard = said(&text);
        let warning = heard.strip_prefix("warning: ").unwrap_or_else(|| panic!("{heard}"));
        assert!(warning.starts_with(expected), "{heard}");
        assert_eq!(heard.lines().count(), 1, "{heard}");
    }
}

#[test]
fn what_does_not_do_what_it_seems_to_is_a_warning() {
    let user = |at: &str, name: &str| {
        format!("[[redis.{at}]]\nname = \"{name}\"\npassword = \"secret\"\n")
    };
    let backend =
        |at: &str| format!("[[redis.{at}]]\nname = \"a\"\nurl = \"redis://127.0.0.1:6379\"\n");
    let pool = "[[redis.pool]]\nname = \"p\"\nlisten = \"127.0.0.1:1\"\n";
    let of_pool = [pool, &user("pool.user", "shop"), &backend("pool.backend")].concat();
    let heard = said(&(user("user", "ops") + &of_pool));
    assert!(heard.contains("redis.user \"ops\" may log in to no pool"), "{heard}");
    let plain = [pool, &backend("pool.backend"), &user("user", "ops")].concat();
    assert!(!said(&plain).contains("may log in"), "{}", said(&plain));
    let ejects = "[redis]\neject = { failures = 3, retry = \"30s\" }\n".to_owned();
    let aof = "[redis.aof]\ndir = \"aof\"\n[[redis.aof.master]]\nname = \"m\"\n";
    let follows = |port: u16| format!("{aof}url = \"redis://127.0.0.1:{port}\"\n");
    let heard = said(&(ejects.clone() + &backend("backend") + &follows(6379)));
    assert!(
        heard.contains("is followed as redis.aof.master \"m\" and its pool has eject"),
        "{heard}"
    );
    let heard = said(&(ejects + &backend("backend") + &follows(6380)));
    assert!(!heard.contains("is followed as"), "{heard}");
}

#[test]
fn the_packaged_configuration_can_be_used() {
    assert_eq!(said(include_str!("../../../../packaging/weir.toml")), "");
}

#[test]
fn the_example_in_the_error_can_be_used() {
    let text = refused_store(&tempfile::tempdir().unwrap());
    let lines = text.lines().filter(|line| line.starts_with("    "));
    let example = lines.collect::<Vec<_>>().join("\n");
    assert_eq!(said(&example), "");
    assert!(parse(&example).unwrap().has_store(), "{example}");
}

/// What is said of a store with something in it that no backend is.
fn refused_store(dir: &tempfile::TempDir) -> String {
    std::fs::write(dir.path().join("manifest"), "").unwrap();
    let text = format!("[store]\ndir = {:?}\n{BACKEND}", dir.path());
    let found = validate(&parse(&text).unwrap());
    let problem = found.problems.into_iter().next().unwrap();
    problem.what
}

#[test]
fn points_in_a_store_are_not_left_out_of_sight() {
    let dir = tempfile::tempdir().unwrap();
    let problem = refused_store(&dir);
    assert!(problem.contains(&*dir.path().to_string_lossy()), "{problem}");
    assert!(problem.contains("embedded = true"), "{problem}");
    std::fs::remove_file(dir.path().join("manifest")).unwrap();
    let text = format!("[store]\ndir = {:?}\n{BACKEND}", dir.path());
    assert_eq!(said(&text), "");
}

#[test]
fn points_in_the_default_store_are_a_warning_where_the_file_is_not_about_them() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("manifest"), "").unwrap();
    for text in [BACKEND, POSTGRES] {
        let mut settings = parse(text).unwrap();
        settings.store.dir = dir.path().to_owned();
        let found = validate(&settings);
        assert_eq!(found.problems, [], "{text}");
        let [warning] = &found.warnings[..] else { panic!("{:?}", found.warnings) };
        assert!(warning.contains(&*dir.path().to_string_lossy()), "{warning}");
    }
}

const POSTGRES: &str = "[[postgres.user]]\nname = \"ann\"\npassword = \"geheim\"\n\
    [[postgres.backend]]\nname = \"a\"\nurl = \"postgresql://127.0.0.1:5432\"\n";

#[test]
fn a_file_about_postgresql_alone_turns_influxdb_off() {
    let alone = parse(POSTGRES).unwrap();
    assert!(!alone.has_influx() && !alone.has_store() && alone.postgres.is_some());
    assert_eq!(said(POSTGRES), "");
    for other in ["[influx]\n", "[journal]\n", "[store]\n"] {
        let both = parse(&format!("{POSTGRES}{other}")).unwrap();
        assert!(both.has_influx() && both.postgres.is_some(), "{other}");
    }
    let neither = parse("").unwrap();
    assert!(neither.has_influx() && neither.postgres.is_none());
}

#[test]
fn what_is_wrong_with_postgres_is_named() {
    let golden = [
        ("[postgres]\n".to_owned(), "postgres.user: nobody could log in: add [[postgres.user]]"),
        (
            format!("[postgres]\nlisten = \"127.0.0.1:8088\"\n{POSTGRES}"),
            "postgres.listen and admin.listen are both 127.0.0.1:8088; move one of them",
        ),
        (
            format!("{POSTGRES}[postgres.tls]\ncertificate = \"/nowhere\"\nkey = \"/nowhere\""),
            "postgres.tls.certificate = \"/nowhere\" can't be read: No such file",
        ),
        (
            format!("[postgres]\nlisten = \"0.0.0.0:6432\"\nallow-cleartext = true\n{POSTGRES}"),
            "warning: postgres.listen 0.0.0.0:6432: clients need not use TLS",
        ),
        (
            format!("{POSTGRES}[postgres.pool]\nsiez = 3"),
            "line 8: [postgres.pool] has no key \"siez\"; did you mean \"size\"?",
        ),
    ];
    for (text, expected) in golden {
        let said = said(&text);
        assert!(said.contains(expected), "{said}");
    }
}
