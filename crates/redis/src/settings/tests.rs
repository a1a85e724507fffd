use super::{Reached, Settings, read_address};
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
        ("pool-size = 1", "more than lanes"),
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
fn a_password_is_known_by_its_digest() {
    let text = "[[user]]\nname = \"a\"\npassword = \"foobar\"\n[[user]]\nname = \"b\"\n\
                password-sha256 = \
                \"c3ab8ff13720e8ad9047dd39466b3c8974e592c2fa383d4a3960714caef0c4f2\"";
    let settings: Settings = toml::from_str(text).unwrap();
    assert_eq!(settings.user[0].digest(), settings.user[1].digest());
}
