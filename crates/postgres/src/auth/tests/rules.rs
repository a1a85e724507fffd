use proptest::prelude::*;

use super::*;
use crate::auth::hba::{Attempt, Rules};

fn attempt<'a>(user: &'a str, database: &'a str, address: &str, tls: bool) -> Attempt<'a> {
    Attempt { user, database, address: address.parse().ok(), tls }
}

const RULES: &str = r#"
# who          where            how
local all,weir postgres                             peer
local all      all                                  scram-sha-256 # sockets
host  all      "all"            10.0.0.0/8          reject
host  sameuser all              10.0.0.0/8          md5
hostssl shop   ann, bob         10.1.0.0 255.255.0.0 cert
hostnossl shop ann              10.1.0.0/16         reject
hostssl shop   ann              all                 scram-sha-256 clientcert=verify-ca
host  all      all              127.0.0.1/32        trust
host  all      all              ::1/128             trust
host  "sameuser" eve            fd00::/8            password
host  replication all           all                 trust_is_not_needed
"#;

fn rules() -> Rules {
    Rules::parse(&RULES.replace("trust_is_not_needed", "md5")).unwrap()
}

#[test]
fn the_first_rule_that_fits_counts() {
    let rules = rules();
    let verdict = |user, database, address: &str, tls| {
        let verdict = rules.verdict(&attempt(user, database, address, tls))?;
        Some((verdict.method, verdict.line))
    };
    assert_eq!(verdict("postgres", "x", "", false), Some((Method::Peer, 3)));
    assert_eq!(verdict("ann", "x", "", false), Some((Method::Scram, 4)));
    // In quotes it is a name.
    assert_eq!(verdict("all", "x", "10.9.9.9", false), Some((Method::Reject, 5)));
    assert_eq!(verdict("ann", "ann", "10.9.9.9", false), Some((Method::Md5, 6)));
    assert_eq!(verdict("bob", "shop", "10.1.2.3", true), Some((Method::Certificate, 7)));
    assert_eq!(verdict("ann", "shop", "10.1.2.3", false), Some((Method::Reject, 8)));
    assert_eq!(verdict("ann", "shop", "2001:db8::1", true), Some((Method::Scram, 9)));
    assert_eq!(verdict("ann", "shop", "192.0.2.1", true), Some((Method::Scram, 9)));
    assert_eq!(verdict("eve", "x", "127.0.0.1", false), Some((Method::Trust, 10)));
    assert_eq!(verdict("eve", "x", "::ffff:127.0.0.1", false), Some((Method::Trust, 10)));
    assert_eq!(verdict("eve", "x", "::1", false), Some((Method::Trust, 11)));
    assert_eq!(verdict("eve", "sameuser", "fd12::1", false), Some((Method::Password, 12)));
    assert_eq!(verdict("eve", "eve", "fd12::1", false), None);
    assert_eq!(verdict("eve", "replication", "192.0.2.1", false), None);
    let with = rules.verdict(&attempt("ann", "shop", "192.0.2.1", true)).unwrap().certificate;
    assert_eq!(with, Certificate::Verified);
}

#[test]
fn a_rule_that_is_not_understood_is_an_error() {
    let wrong = [
        "hots all all all md5",
        "host all all md5",
        "host all all 10.0.0.0 md5",
        "host all all 10.0.0.0/33 md5",
        "host all all 10.0.0.0 255.0.255.0 md5",
        "host all all 10.0.0.0 ffff:: md5",
        "host all all db.example 255.0.0.0 md5",
        "host all all samenet md5",
        "host all +staff all md5",
        "host @names all all md5",
        "host all /^a all md5",
        "host samerole all all md5",
        "host all all all ldap",
        "host all all all md5 map=x",
        "host all all,",
        "host all \"ann all md5",
        "local all",
        "hostgssenc all all all md5",
    ];
    for line in wrong {
        assert_eq!(Rules::parse(&format!("\n{line}")).unwrap_err().line, 2, "{line}");
    }
    assert!(Rules::parse("\n# nothing\n   \n").unwrap().is_empty());
}

#[test]
fn trust_is_for_this_machine_only() {
    for beyond in ["all", "0.0.0.0/0", "10.0.0.0/8", "127.0.0.0/7", "::/0", "::1/127"] {
        assert!(Rules::parse(&format!("host all all {beyond} trust")).is_err(), "{beyond}");
    }
    let here =
        ["host all all 127.0.0.0/8 trust", "host all all ::1/128 trust", "local all all trust"];
    for line in here {
        assert!(Rules::parse(line).is_ok(), "{line}");
    }
    assert!(Rules::parse("hostssl all all all trust clientcert=verify-full").is_ok());
    assert!(Rules::parse("hostssl all all all trust clientcert=verify-ca").is_err());
    assert!(Rules::parse("host all all all cert").is_err());
    assert!(Rules::parse("host all all 127.0.0.1/32 peer").is_err());
}

proptest! {
    #[test]
    fn any_text_is_taken_calmly(text in "[a-z0-9 .:/,#\"=\n]{0,80}", line in "host [^\n]{0,30}") {
        let _ = Rules::parse(&text);
        let _ = Rules::parse(&line);
    }
}
