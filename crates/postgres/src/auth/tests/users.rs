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

const KEYS: &str = "W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
                    wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";

fn users(stored: &[&str]) -> Users {
    let mut users = Users::default();
    for (at, stored) in stored.iter().enumerate() {
        users.insert(&format!("user{at}"), Some(&Secret::from(*stored)), None);
    }
    users
}

#[test]
fn unknown_users_are_of_the_kinds_that_the_known_ones_are_and_as_often() {
    let (digest, scram) = ("md50123456789abcdef0123456789abcdef", "SCRAM-SHA-256$9999:");
    let scram = format!("{scram}{KEYS}");
    let mock = users(&["secret", digest, &scram, &scram]).mock(b"secret");
    let mut seen = std::collections::HashMap::new();
    for n in 0..4000 {
        *seen.entry(mock.kind(&format!("nobody{n}"), None)).or_insert(0) += 1;
    }
    let iterations = 9999.try_into().unwrap();
    let of_file = Kind::Scram { iterations, salt_bytes: 16 };
    for (kind, wanted) in [(Kind::Plain, 1000), (Kind::Md5, 1000), (of_file, 2000)] {
        let found = seen.remove(&kind).unwrap_or(0);
        assert!((wanted - 200..wanted + 200).contains(&found), "{kind:?}: {found}");
    }
    assert!(seen.is_empty(), "{seen:?}");
    // Always the same for a name, also by SCRAM alone.
    assert_eq!(mock.kind("nobody", None), mock.kind("nobody", None));
    for n in 0..100 {
        let name = format!("nobody{n}");
        let made = mock.verifier(&name, mock.kind(&name, None));
        assert!([4096, 9999].contains(&made.iterations.get()), "{made:?}");
        assert_eq!(made.salt.len(), 16);
    }
    // Those of a server, where users come from one.
    let there = Kind::scram_of(20_000.try_into().unwrap());
    let nobody = Users::default().mock(b"secret");
    assert_eq!(nobody.kind("nobody", Some(there)), there);
    assert_eq!(nobody.kind("nobody", None), Kind::scram());
}

#[test]
fn salts_are_made_of_the_secret_and_the_name_for_unknown_users_and_known_passwords() {
    let plain = users(&["secret", "other"]);
    let salt = |users: &Users, secret: &[u8], name: &str| {
        users.mock(secret).verifier(name, Kind::Plain).salt
    };
    assert_eq!(salt(&plain, b"1", "nobody"), salt(&plain, b"1", "nobody"));
    // Another user in the file changes nothing.
    assert_eq!(salt(&plain, b"1", "nobody"), salt(&users(&[]), b"1", "nobody"));
    assert_ne!(salt(&plain, b"1", "nobody"), salt(&plain, b"2", "nobody"));
    assert_ne!(salt(&plain, b"1", "nobody"), salt(&plain, b"1", "nobody2"));
    let mock = plain.mock(b"1");
    assert_eq!(mock.salt("user0"), mock.verifier("user0", Kind::Plain).salt);
    assert_eq!(plain.derivations(&mock).len(), 2);
    let long = Kind::Scram { iterations: std::num::NonZeroU32::MIN, salt_bytes: 100 };
    assert_eq!(mock.verifier("nobody", long).salt.len(), 100);
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
