use proptest::prelude::*;

use crate::auth::hba::{Maps, read};
use crate::settings::{AuthRule, From, Method};

const RULES: &str = r#"
# who          where            how
local all,weir postgres                             scram-sha-256 # sockets
host  sameuser all              10.0.0.0/8          reject
host  shop     "+ann", "b,""ob" 10.1.0.0 255.255.0.0 md5
hostssl all    all              all                 cert
hostnossl all  all              ::1/128             trust
host  replication all           all                 md5
host  replication,shop all      fe80:: ffff::       password
"#;

fn rule(
    from: From,
    database: &[&str],
    user: &[&str],
    address: &[&str],
    method: Method,
) -> AuthRule {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    AuthRule {
        from,
        database: names(database),
        user: names(user),
        address: address.iter().map(|network| network.parse().unwrap()).collect(),
        ..AuthRule::everyone(method)
    }
}

#[test]
fn a_pg_hba_file_says_the_same_here() {
    let expected = [
        rule(From::Local, &["all", "weir"], &["postgres"], &[], Method::ScramSha256),
        rule(From::Host, &["sameuser"], &["all"], &["10.0.0.0/8"], Method::Reject),
        rule(From::Host, &["shop"], &["+ann", "b,\"ob"], &["10.1.0.0/16"], Method::Md5),
        rule(From::Hostssl, &["all"], &["all"], &[], Method::Cert),
        rule(From::Hostnossl, &["all"], &["all"], &["::1/128"], Method::Trust),
        rule(From::Host, &["shop"], &["all"], &["fe80::/16"], Method::Password),
    ];
    assert_eq!(read(RULES, &Maps::new()).unwrap(), expected);
    assert_eq!(read("\n# nothing\n   \n", &Maps::new()).unwrap(), []);
}

#[test]
fn a_rule_that_is_not_understood_is_an_error() {
    let wrong = [
        "hots all all all md5",
        "host all all md5",
        "host all all 10.0.0.0 md5",
        "host all all 10.0.0.0/33 md5",
        "host all all 10.0.0.0 255.0.255.0 md5",
        "host all all 10.0.0.0 ffff:ffff:ffff:: md5",
        "host all all db.example 255.0.0.0 md5",
        "host all all samenet md5",
        "host all +staff all md5",
        "host all \"all\" all md5",
        "host @names all all md5",
        "host all /^a all md5",
        "host samerole all all md5",
        "host all all all ldap",
        "host all all all md5 map=x",
        "local all all peer map=x",
        "host all all all peer",
        "host all all all md5 clientcert=verify-ca",
        "host all all,",
        "host all \"ann all md5",
        "local all",
        "hostgssenc all all all md5",
    ];
    for line in wrong {
        assert_eq!(read(&format!("\n{line}"), &Maps::new()).unwrap_err().line, 2, "{line}");
    }
}

proptest! {
    #[test]
    fn any_text_is_taken_calmly(text in "[a-z0-9 .:/,#\"=\n]{0,80}", line in "host [^\n]{0,30}") {
        let _ = read(&text, &Maps::new());
        let _ = read(&line, &Maps::new());
    }
}
