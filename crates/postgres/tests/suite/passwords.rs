//! Passwords of every script: what PostgreSQL has made of them is what Weir makes of them.

use postgres::auth::{Ask, AuthStep, ClientAuth, Mock, Verifier};
use postgres::settings::Method;
use rig::postgres::Setup;

/// What SASLprep (RFC 4013) changes, leaves, or does not apply to.
const PASSWORDS: [&str; 20] = [
    "plain",
    "sécret",
    "e\u{301}",
    "a\u{a0}b",
    "a\u{3000}b",
    "I\u{ad}X",
    "\u{ad}",
    "\u{200b}\u{ad}",
    "\u{2168}",
    "ﬁn",
    "𝔘𝔫𝔦",
    "bell\u{7}",
    "é\u{7}",
    "\u{e000}é",
    "\u{340}a",
    "\u{627}1",
    "\u{627}1\u{628}",
    "a\u{628}",
    "\u{221}é",
    "\u{1f600}é",
];

#[test]
fn a_password_of_any_script_fits_what_postgresql_has_made_of_it() {
    let cluster = Setup::new().start();
    let mock = Mock::new(b"seed");
    for (at, password) in PASSWORDS.iter().enumerate() {
        let user = format!("user{at}");
        cluster.create_user(&user, password);
        let query = format!("SELECT rolpassword FROM pg_authid WHERE rolname = '{user}'");
        let verifier = Verifier::parse(&cluster.value(&query));
        assert!(matches!(verifier, Verifier::Scram(_)));
        let fits = |given: &str| {
            let ask = Ask {
                method: Method::Password,
                user: &user,
                verifier: Some(&verifier),
                mock: &mock,
                there: None,
                binding: None,
                is_named: false,
            };
            let (mut auth, _) = ClientAuth::begin(ask, &mut Vec::new());
            let body = [given.as_bytes(), b"\0"].concat();
            let AuthStep::Derive(derivation) = auth.on(&body, &mut Vec::new()) else { panic!() };
            matches!(auth.derived(&derivation.run(), &mut Vec::new()), AuthStep::Done(_))
        };
        assert!(fits(password), "{password:?}");
        assert!(!fits(&format!("{password}.")), "{password:?}");
    }
}
