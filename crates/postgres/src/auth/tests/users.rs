use std::time::{Duration, SystemTime};

use super::*;
use crate::auth::{Users, read_user_list};

#[test]
fn users_have_passwords_until_they_expire() {
    let mut users = Users::default();
    let now = SystemTime::now();
    let (before, after) = (now - Duration::from_secs(1), now + Duration::from_secs(1));
    users.insert("ann", Some(&Secret::from("secret")), None);
    users.insert("bob", Some(&Secret::from("md50123456789abcdef0123456789abcdef")), Some(after));
    users.insert("eve", Some(&Secret::from("secret")), Some(before));
    users.insert("app", None, None);
    assert!(matches!(users.verifier("ann", now), Some(Verifier::Plain(_))));
    assert!(matches!(users.verifier("bob", now), Some(Verifier::Md5(_))));
    assert!(users.verifier("bob", after).is_none());
    for name in ["eve", "app", "nobody", ""] {
        assert!(users.verifier(name, now).is_none(), "{name}");
    }
    assert!(users.contains("app") && !users.contains("nobody"));
    assert_eq!((users.len(), users.is_empty()), (4, false));
}

#[test]
fn unknown_users_look_like_the_known_ones() {
    let mut users = Users::default();
    let keys = "W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
                wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
    for name in ["ann", "bob"] {
        let stored = format!("SCRAM-SHA-256$9999:{keys}");
        users.insert(name, Some(&Secret::from(stored.as_str())), None);
    }
    users.insert("eve", Some(&Secret::from(format!("SCRAM-SHA-256$1:{keys}").as_str())), None);
    let salt = |users: &Users| users.mock(b"").unwrap().verifier("nobody").salt;
    assert_eq!(users.mock(b"").unwrap().verifier("nobody").iterations.get(), 9999);
    assert_eq!(salt(&users), salt(&users));
    let nobody = Users::default();
    assert_ne!(salt(&nobody), salt(&nobody));
    let seeded = |seed: &[u8]| nobody.mock(seed).unwrap().verifier("nobody");
    assert_eq!(seeded(b"1"), seeded(b"1"));
    assert_ne!(seeded(b"1"), seeded(b"2"));
    assert_eq!(seeded(b"1").iterations.get(), 4096);
}

#[test]
fn pgbouncers_user_list() {
    let list = "; users\n\"ann\" \"secret\"\n\n  \"b\"\"ob\"   \"p\"\"w\" \"more\"\n# also\n";
    let users = read_user_list(list).unwrap();
    let expected = [("ann", "secret"), ("b\"ob", "p\"w")];
    let expected = expected.map(|(name, password)| (name.to_owned(), Secret::from(password)));
    assert_eq!(users, expected);
    for wrong in ["ann secret", "\"ann\"", "\"ann\" \"secret", "\"\" \"secret\"", "\"ann"] {
        assert_eq!(read_user_list(&format!("\n{wrong}")).unwrap_err().line, 2, "{wrong}");
    }
}
