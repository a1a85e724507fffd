use std::path::Path;

use proptest::prelude::*;
use units::secret::Secret;

use super::{FILE_BYTES_MAX, Listen, NutcrackerError, Pool, Server, nutcracker, toml};
use crate::placement::{Distribution, Hash};
use crate::settings::Settings;

const ALL: &str = include_str!("fixtures/all.yml");

fn server(address: &str, weight: u32, name: Option<&str>) -> Server {
    Server { address: address.to_owned(), weight, name: name.map(str::to_owned) }
}

/// What is said of a file.
#[track_caller]
fn refused(file: &str) -> String {
    nutcracker(file.as_bytes()).unwrap_err().to_string()
}

/// A pool `p` that is whole but for these lines.
fn with(lines: &str) -> String {
    format!("p:\n  listen: 127.0.0.1:1\n  servers:\n    - a:1:1\n{lines}")
}

#[test]
fn every_key_of_a_pool_is_read() {
    let [sessions, _] = &nutcracker(ALL.as_bytes()).unwrap()[..] else { panic!("two pools") };
    let expected = Pool {
        name: "sessions".to_owned(),
        listen: Listen::Tcp { host: "127.0.0.1".to_owned(), port: 22121 },
        hash: Hash::Murmur,
        hash_tag: Some(*b"{}"),
        distribution: Distribution::Modula,
        timeout_ms: Some(400),
        backlog: 1024,
        preconnect: true,
        tcp_keepalive: true,
        reuse_port: false,
        redis: true,
        redis_auth: Some(Secret::new("p4ss: word")),
        redis_db: 3,
        client_connections: Some(5),
        server_connections: 2,
        auto_eject_hosts: true,
        server_retry_timeout_ms: 2000,
        server_failure_limit: 3,
        servers: vec![
            server("10.0.0.1:6379", 1, Some("one")),
            server("10.0.0.2:6379", 20, Some("two")),
            server("/run/redis/three.sock", 5, Some("three")),
        ],
    };
    assert_eq!(*sessions, expected);
    assert!(!format!("{sessions:?}").contains("p4ss"), "a password is not shown");
}

#[test]
fn keys_that_are_not_there_have_nutcrackers_defaults() {
    let [_, small] = &nutcracker(ALL.as_bytes()).unwrap()[..] else { panic!("two pools") };
    assert_eq!(
        small.listen,
        Listen::Unix { path: "/run/nutcracker/small.sock".into(), mode: Some(0o660) }
    );
    assert_eq!((small.hash, small.distribution), (Hash::Fnv1a64, Distribution::Ketama));
    assert_eq!((small.timeout_ms, small.backlog, small.redis), (None, 512, false));
    assert_eq!((small.server_connections, small.auto_eject_hosts), (1, false));
    assert_eq!((small.server_retry_timeout_ms, small.server_failure_limit), (30_000, 2));
    let placed: Vec<String> = small.servers.iter().map(Server::placed_as).collect();
    assert_eq!(placed, ["cache.example", "10.0.0.2:06380", "::1:6380", "/run/redis/four.sock:"]);
}

#[test]
fn reuseport_is_read_though_older_nutcrackers_do_not_know_it() {
    assert!(nutcracker(with("  reuseport: true\n").as_bytes()).unwrap()[0].reuse_port);
}

#[test]
fn what_is_wrong_is_said_with_its_line_its_pool_and_its_key() {
    for (lines, said) in [
        ("  hash: sha1\n", "line 5: pool \"p\": \"hash\" is \"sha1\", which is none of one_at_a_t"),
        ("  hash_tag: \"{\"\n", "line 5: pool \"p\": \"hash_tag\" is not two characters"),
        (
            "  hash_tag: {}\n",
            "line 5: pool \"p\": \"hash_tag\" is neither a text nor a list; quote",
        ),
        (
            "  distribution: jump\n",
            "line 5: pool \"p\": \"distribution\" is \"jump\", which is none",
        ),
        (
            "  timeout: -1\n",
            "line 5: pool \"p\": \"timeout\" is \"-1\", which is not from 0 to 2147",
        ),
        (
            "  backlog: 2147483648\n",
            "line 5: pool \"p\": \"backlog\" is \"2147483648\", which is not",
        ),
        (
            "  redis: yes\n",
            "line 5: pool \"p\": \"redis\" is \"yes\", which is neither true nor fal",
        ),
        ("  redis:\n", "line 5: pool \"p\": \"redis\" is empty"),
        ("  redis: [true]\n", "line 5: pool \"p\": \"redis\" is a list"),
        ("\n  server_connections: 0\n", "line 6: pool \"p\": \"server_connections\" can't be 0"),
        ("  redis_auth: x\n", "line 1: pool \"p\" has \"redis_auth\" without \"redis: true\""),
        ("  hosts: a\n", "line 5: pool \"p\": \"hosts\" is unknown to nutcracker"),
        ("  hash: md5\n  hash: md5\n", "line 6: pool \"p\": \"hash\" is there twice"),
        ("    - a\n", "line 5: pool \"p\": \"servers\" has \"a\", which is neither \"host:port:we"),
        ("    - b:1\n", "line 5: pool \"p\": \"servers\" has \"b:1\", which has no port"),
        ("    - :1:1\n", "line 5: pool \"p\": \"servers\" has \":1:1\", which has no host"),
        ("    - b:0:1\n", "line 5: pool \"p\": \"servers\" has \"b:0:1\", which has a port that"),
        ("    - b:1:0\n", "line 5: pool \"p\": \"servers\" has \"b:1:0\", which has a weight of 0"),
        ("    - b:1:x\n", "line 5: pool \"p\": \"servers\" has \"b:1:x\", which has a weight that"),
        ("    - /a:b:1\n", "line 5: pool \"p\": \"servers\" has \"/a:b:1\", which has a path with"),
        (
            "    - 'b:1:1 '\n",
            "line 5: pool \"p\": \"servers\" has \"b:1:1 \", which has an empty n",
        ),
        (
            "    - a:1:2\n",
            "line 5: pool \"p\": \"servers\" has two servers that are called \"a:1\"",
        ),
        ("    - b:1:2 a:1\n", "line 5: pool \"p\": \"servers\" has two servers that are called"),
        ("    - - b:1:1\n", "line 5: pool \"p\": \"servers\" has more than texts in it"),
        ("  hash: *other\n", "line 5: pool \"p\": \"hash\" is not YAML"),
        ("q: 1\n", "line 5: pool \"q\" has no keys"),
        ("p:\n  listen: b:1\n  servers:\n  - a:1:1\n", "line 5: pool \"p\" is there twice"),
        ("q:\n  listen: 127.0.0.1:1\n  servers:\n  - a:1:1\n", "line 5: pool \"q\" listens where"),
        ("q:\n  servers:\n  - a:1:1\n", "line 5: pool \"q\" has no \"listen\""),
        ("q:\n  listen: a:2\n", "line 5: pool \"q\" has no servers"),
        ("q:\n  listen: a\n", "line 6: pool \"q\": \"listen\" has no port"),
        ("q:\n  listen: /a 8\n", "line 6: pool \"q\": \"listen\" has permissions that are not"),
        ("---\nq:\n", "line 6: begins a second document, of one"),
    ] {
        let text = refused(&with(lines));
        assert!(text.starts_with(said), "{lines}\n{text}");
    }
}

#[test]
fn a_file_that_has_no_pools_is_refused() {
    for (file, said) in [
        ("", "line 1: there are no pools"),
        ("# nothing\n", "line 1: there are no pools"),
        ("{}", "line 1: there are no pools"),
        ("a", "line 1: this is not \"pool:\""),
        ("- a\n", "line 1: this is not \"pool:\""),
    ] {
        assert_eq!(refused(file), said, "{file}");
    }
    assert_eq!(
        nutcracker(b"p:\n  listen: \xff"),
        Err(NutcrackerError::File { line: 2, what: "the file is not UTF-8".to_owned() })
    );
    let long = vec![b'#'; FILE_BYTES_MAX + 1];
    assert_eq!(nutcracker(&long), Err(NutcrackerError::TooLong { bytes: long.len() }));
}

#[test]
fn a_file_of_many_servers_is_read_at_once() {
    let mut file = with("");
    for place in 0..40_000 {
        file.push_str(&format!("    - b:{}:1 {place}\n", place % 60_000 + 1));
    }
    assert_eq!(nutcracker(file.as_bytes()).unwrap()[0].servers.len(), 40_001);
    let deep = "[".repeat(FILE_BYTES_MAX);
    assert!(nutcracker(deep.as_bytes()).is_err());
    assert!(nutcracker(format!("p: {}", &deep[3..]).as_bytes()).is_err());
}

/// What means something to YAML, and a little of what does not.
const SIGNS: &str = "([-?:,\\[\\]{}#&*!|>'\"%@` \n\t.~<=]|a|1){0,60}";

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = nutcracker(&bytes);
    }

    #[test]
    fn any_signs_of_yaml_are_read_or_refused(text in SIGNS) {
        let _ = nutcracker(text.as_bytes());
        let _ = nutcracker(with(&text).as_bytes());
    }

    #[test]
    fn a_damaged_file_is_read_or_refused(
        at in any::<prop::sample::Index>(),
        cut in 0..9_usize,
        put in "[-?:,\\[\\]{}#&*!|>'\"% \n\ta0é]{0,4}",
    ) {
        let mut text = ALL.to_owned();
        let start = at.index(text.len());
        let end = (start + cut).min(text.len());
        text.replace_range(start..end, &put);
        let _ = nutcracker(text.as_bytes());
    }
}

/// The TOML for a file, and what Weir reads in it.
fn migrated(file: &str) -> (String, Settings) {
    let pools = nutcracker(file.as_bytes()).unwrap();
    let text = toml(Path::new("nutcracker.yml"), &pools).toml;
    let table = text.replace("[redis]", "").replace("[redis.", "[").replace("[[redis.", "[[");
    let settings = ::toml::from_str(&table).unwrap_or_else(|error| panic!("{error}\n{text}"));
    (text, settings)
}

#[test]
fn every_key_has_become_one_of_weirs_or_a_reason() {
    let (text, settings) = migrated(ALL);
    settings.validate().unwrap();
    let [(name, pool)] = &settings.pools()[..] else { panic!("one pool is for Redis") };
    assert_eq!((name.as_str(), pool.listen[0].port()), ("sessions", 22121));
    assert_eq!((pool.hash, pool.distribution), (Hash::Murmur, Distribution::Modula));
    assert_eq!((pool.tag(), pool.database, pool.lanes), (Some(*b"{}"), 3, 2));
    assert_eq!(pool.timeout.get().as_millis(), 400);
    let rule = pool.eject.as_ref().unwrap().rule();
    assert_eq!((rule.failures, rule.retry.as_secs()), (3, 2));
    let user = &pool.user[0];
    assert_eq!((user.name.as_str(), user.password.reveal()), ("default", "p4ss: word"));
    let [one, two, three] = &pool.backend[..] else { panic!("three servers") };
    assert_eq!([&one.name, &two.name, &three.name], ["one", "two", "three"]);
    assert_eq!(
        (one.url.as_str(), three.url.as_str()),
        ("redis://10.0.0.1:6379", "/run/redis/three.sock")
    );
    assert_eq!((one.weight, two.weight, two.password.reveal()), (1, 20, "p4ss: word"));
    // The servers are elsewhere, and get a password.
    assert!(settings.allow_cleartext);
    for words in [
        "- small: without",
        "- backlog:",
        "- preconnect:",
        "- tcpkeepalive:",
        "- client_connections:",
    ] {
        assert!(text.contains(words), "{words} in\n{text}");
    }
}

#[test]
fn names_of_servers_are_those_that_their_keys_are_placed_by() {
    let file = "p:\n  listen: /run/p.sock 0600\n  redis: true\n  server_connections: 200\n  \
                redis_db: 40\n  servers:\n   - a:11211:1\n   - ::1:06380:2\n   - /run/r.sock:1\n";
    let (text, settings) = migrated(file);
    settings.validate().unwrap();
    let pool = &settings.pools()[0].1;
    let placed: Vec<_> =
        pool.backend.iter().map(|of| (of.name.as_str(), of.url.as_str())).collect();
    assert_eq!(
        placed,
        [
            ("a", "redis://a:11211"),
            ("::1:06380", "redis://[::1]:6380"),
            ("/run/r.sock:", "/run/r.sock"),
        ]
    );
    assert_eq!(pool.unix_mode(), 0o600);
    assert!(text.contains("nutcracker waits for a server without end"), "{text}");
}

#[test]
fn what_has_to_be_put_in_by_hand_is_said() {
    let (text, settings) =
        migrated(&format!("{}  redis: true\n", with("")).replace("127.0.0.1:1", "cache:1"));
    assert!(text.contains("put the address of cache here"), "{text}");
    assert!(settings.validate().unwrap_err().to_string().contains("needs an address"));
    let (text, settings) = migrated(&with(""));
    assert!(text.contains("p: without \"redis: true\""), "{text}");
    assert!(settings.validate().is_err());
}

#[test]
fn the_way_from_twemproxy_names_every_key() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/twemproxy.md");
    let document = std::fs::read_to_string(path).unwrap();
    for key in [
        "auto_eject_hosts",
        "backlog",
        "client_connections",
        "distribution",
        "hash",
        "hash_tag",
        "listen",
        "preconnect",
        "redis",
        "redis_auth",
        "redis_db",
        "reuseport",
        "server_connections",
        "server_failure_limit",
        "server_retry_timeout",
        "servers",
        "tcpkeepalive",
        "timeout",
    ] {
        assert!(document.contains(&format!("\n| `{key}` | ")), "{key}");
    }
}

proptest! {
    #[test]
    fn what_is_read_becomes_toml_that_is_read(
        name in "[a-z][a-z\"\\\\ ]{0,6}[a-z]",
        auth in "[ -~]{0,9}",
        numbers in prop::collection::vec(0_u32..3_000, 5),
    ) {
        let [timeout, database, connections, limit, retry] = numbers[..] else { unreachable!() };
        let pool = Pool {
            name,
            redis_auth: Some(Secret::new(&auth)),
            timeout_ms: (timeout % 2 == 0).then_some(timeout),
            redis_db: database,
            server_connections: connections + 1,
            auto_eject_hosts: retry % 2 == 0,
            server_retry_timeout_ms: retry,
            server_failure_limit: limit,
            ..nutcracker(ALL.as_bytes()).unwrap()[0].clone()
        };
        let text = toml(Path::new("x"), std::slice::from_ref(&pool)).toml;
        let table = text.replace("[redis]", "").replace("[redis.", "[").replace("[[redis.", "[[");
        let settings: Settings = ::toml::from_str(&table).unwrap();
        settings.validate().unwrap();
        let (read, settings) = settings.pools().remove(0);
        prop_assert_eq!(read, pool.name);
        prop_assert_eq!(settings.backend[0].password.reveal(), auth.as_str());
        prop_assert_eq!(settings.database, database);
    }
}
