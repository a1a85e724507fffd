use super::{Auth, Reached, Settings, read_address};
use flow::dial::Address;

const BACKEND: &str = "[[backend]]\nname = \"a\"\nurl = \"redis://127.0.0.1:6380\"\n";

fn said(lines: &str) -> String {
    let text = if lines.contains("[[backend]]") {
        lines.to_owned()
    } else {
        format!("{lines}\n{BACKEND}")
    };
    let settings: Settings = toml::from_str(&text).unwrap();
    settings.validate().err().map_or_else(String::new, |error| error.to_string())
}

#[test]
fn what_cannot_work_is_refused_with_what_to_write() {
    assert_eq!(said(""), "");
    for (lines, wanted) in [
        ("listen = \"0.0.0.0:6379\"", "set [redis.tls], or allow-cleartext"),
        ("listen = []", "needs an address"),
        ("hash-tag = \"{\"", "two characters"),
        ("timeout = \"0\"", "must not be 0"),
        ("lanes = 0", "at least 1"),
        ("max-replica-lag = \"0\"", "must not be 0"),
        (
            "[[backend]]\nname = \"a\"\nurl = \"redis://a\"\n\
             sentinel = { urls = \"redis://b\", master = \"it\" }",
            "one of url and sentinel",
        ),
        (
            "[[backend]]\nname = \"a\"\npassword = \"p\"\n\
             sentinel = { urls = \"redis://10.0.0.1\", master = \"it\" }",
            "in the clear",
        ),
        (
            "[[backend]]\nname = \"a\"\nsentinel = { urls = [], master = \"it\" }",
            "sentinel needs urls",
        ),
        (
            "distribution = \"cluster\"\n[[backend]]\nname = \"a\"\n\
             sentinel = { urls = \"redis://a\", master = \"it\" }",
            "not for a Cluster",
        ),
        ("database = 16", "less than databases"),
        ("eject = { failures = 0 }", "at least 1"),
        ("[[command]]\nname = \"subscribe\"", "Weir knows it"),
        ("[[command]]\nname = \"a b\"", "no spaces"),
        ("[[command]]\nname = \"\"", "1 to 64 bytes"),
        ("[[command]]\nname = \"x.y\"\n[[command]]\nname = \"X.Y\"", "there twice"),
        ("pool-size = 1", "more than lanes"),
        ("distribution = \"cluster\"\nhash-tag = \"{}\"", "has its own"),
        ("distribution = \"cluster\"\ndatabase = 1", "database 0 only"),
        ("distribution = \"cluster\"\neject = { failures = 2 }", "for rings"),
        (
            "distribution = \"cluster\"\n[[backend]]\nname = \"a\"\nurl = \"/run/s\"",
            "reached by TCP",
        ),
        ("[[user]]\nname = \"a\"", "needs password"),
        ("[[user]]\nname = \"a\"\npassword-sha256 = \"12\"", "64 hexadecimal digits"),
        ("[[backend]]\nname = \"a\"\nurl = \"http://x\"", "write redis://host:port"),
        ("[[backend]]\nname = \"a\"\nurl = \"redis://u:p@x\"", "keys of their own"),
        ("[[backend]]\nname = \"a\"\nurl = \"redis://10.0.0.1\"\npassword = \"p\"", "in the clear"),
    ] {
        assert!(said(lines).contains(wanted), "{lines}: {}", said(lines));
    }
    let none: Settings = toml::from_str("").unwrap();
    assert!(none.validate().unwrap_err().to_string().contains("[[redis.backend]]"));
}

#[test]
fn masters_are_followed_with_or_without_a_gateway() {
    let master = "[[aof.master]]\nname = \"a\"\nurl = \"redis://127.0.0.1\"\n";
    let alone: Settings = toml::from_str(master).unwrap();
    assert!(alone.validate().is_ok() && !alone.has_gateway());
    let both: Settings = toml::from_str(&format!("{BACKEND}{master}")).unwrap();
    assert!(both.validate().is_ok() && both.has_gateway());
    let open = "[aof.port]\npassword = \"p\"\n";
    let here: Settings =
        toml::from_str(&format!("{open}{master}listen = \"127.0.0.1:7001\"")).unwrap();
    assert!(here.validate().is_ok());
    for (lines, wanted) in [
        ("[aof]", "add [[redis.aof.master]]"),
        (&format!("{master}{master}"), "that no other has"),
        (&master.replace("\"a\"", "\"../a\""), "that no other has"),
        (&master.replace("127.0.0.1", "10.0.0.1"), "in the clear"),
        (&format!("[aof]\nbuffer = \"1KiB\"\n{master}"), "at least 1MiB"),
        (&format!("{master}user = \"u\""), "user needs a password"),
        (&format!("{master}replicas = [\"redis://10.0.0.2\"]"), "in the clear"),
        (&format!("[aof.port]\nclient-ca = \"c\"\n{master}"), "add [redis.aof.port.tls]"),
        (&format!("{open}{master}listen = \"0.0.0.0:7001\""), "in the clear"),
    ] {
        assert!(said(lines).contains(wanted), "{lines}: {}", said(lines));
    }
}

#[test]
fn masters_of_a_cluster_are_found_by_its_nodes() {
    let of = |lines: &str| format!("[[aof.master]]\nname = \"a\"\n{lines}\n");
    let nodes = "cluster = [\"redis://127.0.0.1:7000\", \"redis://127.0.0.1:7001\"]";
    for lines in [nodes, "cluster = \"rediss://10.0.0.1\"\nca = \"ca.pem\""] {
        let settings: Settings = toml::from_str(&of(lines)).unwrap();
        assert_eq!(settings.validate(), Ok(()), "{lines}");
    }
    for (lines, wanted) in [
        ("cluster = []", "write redis://host:port"),
        ("cluster = \"redis://10.0.0.1\"", "in the clear"),
        ("cluster = [\"redis://127.0.0.1\", \"rediss://127.0.0.1\"]", "or none"),
        ("cluster = \"/run/redis.sock\"", "is reached by TCP"),
        (&format!("{nodes}\nurl = \"redis://127.0.0.1\""), "needs one of"),
        (&format!("{nodes}\nlisten = \"127.0.0.1:7\""), "leave it out"),
        (&format!("{nodes}\nreplicas = [\"redis://127.0.0.1\"]"), "leave it out"),
    ] {
        assert!(said(&of(lines)).contains(wanted), "{lines}: {}", said(&of(lines)));
    }
}

#[test]
fn servers_are_reached_by_urls_and_paths() {
    let tcp = |host: &str, port| Address::Tcp { host: host.to_owned(), port };
    for (url, address, tls) in [
        ("redis://a", tcp("a", 6379), false),
        ("rediss://a:7/", tcp("a", 7), true),
        ("redis://[::1]:7", tcp("::1", 7), false),
        ("unix:///run/r.sock", Address::Unix("/run/r.sock".into()), false),
        ("/run/r.sock", Address::Unix("/run/r.sock".into()), false),
    ] {
        assert_eq!(read_address(url), Ok(Reached { address, tls }));
    }
    for url in ["a:6379", "redis://", "redis://a:0", "redis://a:x", "redis://::1", "unix://x"] {
        assert!(read_address(url).is_err(), "{url}");
    }
}

#[test]
fn where_servers_know_the_users_only_administrators_are_weirs_own() {
    let user = |lines: &str| format!("auth = \"pass\"\n[[user]]\npassword = \"p\"\n{lines}\n");
    assert_eq!(said("auth = \"pass\""), "");
    assert_eq!(said(&user("name = \"root\"\nadmin = true")), "");
    let of_servers = said(&user("name = \"ann\""));
    assert!(of_servers.contains("the servers know their users"), "{of_servers}");
    let default = said(&user("name = \"default\"\nadmin = true"));
    assert!(default.contains("another name"), "{default}");
    assert!(said("auth = \"pass\"\nuser-connections = 0").contains("at least 1"));
    let away = "[[backend]]\nname = \"a\"\nurl = \"redis://10.0.0.1\"";
    assert_eq!(said(away), "");
    let away = said(&format!("auth = \"pass\"\n{away}"));
    assert!(away.contains("users' passwords would travel in the clear"), "{away}");
    let settings: Settings = toml::from_str(BACKEND).unwrap();
    let ann = "[[user]]\nname = \"ann\"\npassword = \"p\"\n";
    let running: Settings = toml::from_str(&format!("{ann}{BACKEND}")).unwrap();
    let mut wanted = Settings { auth: Auth::Pass, ..settings };
    assert_eq!(running.fixed("redis", &wanted), ["redis.auth"]);
    running.keep_fixed(&mut wanted);
    assert!(!wanted.passes() && wanted.user == running.user, "else it would be open to all");
}

#[test]
fn users_of_the_servers_need_a_password_there() {
    let user = |lines: &str| {
        format!("[[user]]\nname = \"ann\"\npassword = \"p\"\nbackend-user = \"a\"\n{lines}\n")
    };
    assert!(said(&user("")).contains("backend-user needs backend-password"));
    let (one, other) = ("backend-password = \"x\"", "backend-password-file = \"/x\"");
    assert!(said(&user(&format!("{one}\n{other}"))).contains("needs one of backend-password"));
    assert_eq!(said(&user(one)), "");
    assert_eq!(said(&user(other)), "");
    let away =
        said(&user(&format!("{one}\n[[backend]]\nname = \"a\"\nurl = \"redis://10.0.0.1\"")));
    assert!(away.contains("users' passwords would travel in the clear"), "{away}");
    let nodes = |lines: &str| {
        toml::from_str::<Settings>(&format!("distribution = \"cluster\"\n{lines}{BACKEND}"))
            .unwrap()
    };
    let (running, mut wanted) = (nodes(""), nodes(&user(one)));
    let fixed = ["redis.user, to the first with a backend-password in a Cluster,"];
    assert_eq!(running.fixed("redis", &wanted), fixed);
    running.keep_fixed(&mut wanted);
    assert!(wanted.user.is_empty() && wanted.fixed("redis", &nodes("")).is_empty());
}

#[test]
fn a_password_is_known_by_its_digest() {
    let text = "[[user]]\nname = \"a\"\npassword = \"foobar\"\n[[user]]\nname = \"b\"\n\
                password-sha256 = \
                \"c3ab8ff13720e8ad9047dd39466b3c8974e592c2fa383d4a3960714caef0c4f2\"";
    let settings: Settings = toml::from_str(text).unwrap();
    assert_eq!(settings.user[0].digest(), settings.user[1].digest());
}

#[test]
fn a_pool_has_what_it_does_not_say_from_the_table_above_it() {
    let pool = |name: &str, lines: &str| {
        format!(
            "[[pool]]\nname = {name:?}\nlisten = \"127.0.0.1:1\"\n{lines}\n\
             [[pool.backend]]\nname = \"a\"\nurl = \"redis://127.0.0.1:6380\"\n"
        )
    };
    let above = "timeout = \"1s\"\nhash = \"md5\"\n[[user]]\nname = \"ann\"\npassword = \"x\"\n";
    let text = format!("{above}{}{}", pool("a", "hash = \"crc16\""), pool("b", "timeout = \"2s\""));
    let settings: Settings = toml::from_str(&text).unwrap();
    settings.validate().unwrap();
    let pools = settings.pools();
    let [(a, first), (b, second)] = &pools[..] else { panic!("two pools, and none above them") };
    assert_eq!([a, b], ["a", "b"]);
    assert_eq!([first.hash.name(), second.hash.name()], ["crc16", "md5"]);
    assert_eq!([&first.timeout, &second.timeout].map(|of| of.get().as_secs()), [1, 2]);
    assert_eq!(
        (first.user.len(), second.backend.len(), settings.all_backends().count()),
        (1, 1, 2)
    );
    assert_eq!(settings.all_users().count(), 1);

    let with = format!("{BACKEND}{}", pool("redis", ""));
    let with: Settings = toml::from_str(&with).unwrap();
    assert_eq!(with.pools().len(), 2);
    assert!(with.validate().unwrap_err().to_string().contains("no other has"));
    let lost: Settings =
        toml::from_str(&format!("listen = \"127.0.0.1:9\"\n{}", pool("a", ""))).unwrap();
    assert!(lost.validate().unwrap_err().to_string().contains("need a [[redis.backend]]"));
    let nowhere = pool("a", "").replace("listen = \"127.0.0.1:1\"\n", "");
    let nowhere: Settings = toml::from_str(&nowhere).unwrap();
    let said = nowhere.validate().unwrap_err().to_string();
    assert!(said.starts_with("redis.pool \"a\" listen: needs an address"), "{said}");
}

#[test]
fn what_a_pool_needs_a_restart_for_is_named_with_it() {
    let settings: Settings = toml::from_str(BACKEND).unwrap();
    let wanted = Settings { unix_socket_mode: "0700".into(), ..settings.clone() };
    assert_eq!(settings.fixed("redis", &wanted), ["redis.unix-socket-mode"]);
    assert_eq!(settings.fixed("a", &wanted), ["redis.pool \"a\" unix-socket-mode"]);
}
