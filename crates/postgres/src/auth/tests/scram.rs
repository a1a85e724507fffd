use proptest::prelude::*;

use super::*;
use crate::auth::scram::server::{Challenge, Fault, Offer, Verdict, begin};
use crate::auth::scram::{Malformed, client};
use crate::auth::{Derivation, ScramVerifier};

const CLIENT_NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
const SERVER_NONCE: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";

/// RFC 7677, section 3: user `user`, password `pencil`.
fn verifier() -> ScramVerifier {
    use base64::Engine as _;
    let salt = base64::engine::general_purpose::STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==");
    let salt = salt.unwrap();
    let keys = Derivation::new(Secret::from("pencil"), &salt, 4096).run();
    ScramVerifier::of_keys(&keys, &salt, 4096)
}

fn first(mechanism: &str, message: &str) -> Result<(Challenge, String), Fault> {
    let (mechanism, message) = (mechanism.as_bytes(), message.as_bytes());
    begin(verifier(), Offer { digest: None, bound_only: false }, mechanism, message, SERVER_NONCE)
}

fn challenge() -> Challenge {
    first("SCRAM-SHA-256", &format!("n,,n=user,r={CLIENT_NONCE}")).unwrap().0
}

const PROOF: &str = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";

#[test]
fn the_exchange_of_rfc_7677() {
    let (challenge, message) =
        first("SCRAM-SHA-256", &format!("n,,n=user,r={CLIENT_NONCE}")).unwrap();
    let nonce = format!("{CLIENT_NONCE}{SERVER_NONCE}");
    assert_eq!(message, format!("r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"));
    let last = format!("c=biws,r={nonce},p={PROOF}");
    let Ok(Verdict::Proved { last, .. }) = challenge.finish(last.as_bytes()) else { panic!() };
    assert_eq!(last, "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
}

#[test]
fn verifiers_are_written_as_postgresql_writes_them() {
    let text = verifier().to_string();
    assert!(text.starts_with("SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$"), "{text}");
    assert!(matches!(Verifier::parse(&text), Verifier::Scram(read) if read == verifier()));
    assert!(!format!("{:?}", verifier()).contains('='));
    let md5 = "md50123456789abcdef0123456789abcdef";
    assert!(matches!(Verifier::parse(md5), Verifier::Md5(_)));
    // What only looks like one is a password, as in PostgreSQL.
    let plain = [
        &md5[..34],
        "md50123456789abcdef0123456789abcdeF",
        "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$x:y",
        "SCRAM-SHA-256$0:W22ZaJ0SNY7soEsUEjb6gQ==$AAAA:AAAA",
        "secret",
    ];
    for text in plain {
        assert!(matches!(Verifier::parse(text), Verifier::Plain(_)), "{text}");
    }
}

#[test]
fn passwords_are_prepared_as_postgresql_prepares_them() {
    let keys = |password: &[u8]| Derivation::new(Secret::new(password), b"salt", 1).run();
    // A non-breaking space is mapped to a space, a soft hyphen to nothing (RFC 4013).
    assert_eq!(keys("a\u{a0}b".as_bytes()), keys(b"a b"));
    assert_eq!(keys("I\u{ad}X".as_bytes()), keys(b"IX"));
    assert_eq!(keys("\u{2168}".as_bytes()), keys(b"IX"));
    // What can't be prepared is taken as it is.
    assert_ne!(keys(b"\xff\xa0"), keys(b"\xff "));
    assert_ne!(keys("\u{ad}".as_bytes()), keys(b""));
    assert_ne!(keys("\u{627}\u{31}\u{ad}".as_bytes()), keys("\u{627}\u{31}".as_bytes()));
}

#[test]
fn first_messages_that_are_refused() {
    let nonce = format!("r={CLIENT_NONCE}");
    let malformed = [
        "".to_owned(),
        "n".to_owned(),
        "n,".to_owned(),
        "n,,".to_owned(),
        format!("x,,n=,{nonce}"),
        format!("p=tls-unique,,n=,{nonce}"),
        format!("n,a=root,n=,{nonce}"),
        format!("n,,m=1,n=,{nonce}"),
        format!("n,,{nonce},n="),
        "n,,n=,r=".to_owned(),
        "n,,n=,r=a b".to_owned(),
        "n,,n=,r=é".to_owned(),
        "n,,n=,r=a\0".to_owned(),
        format!("n,,n=,{nonce},"),
        format!("n,,n=,{nonce},1=x"),
        format!("n,,n=,r={}", "a".repeat(257)),
        format!("n,,n={},{nonce}", "a".repeat(1024)),
    ];
    for message in malformed {
        let fault = first("SCRAM-SHA-256", &message).unwrap_err();
        assert!(matches!(fault, Fault::Malformed(_)), "{message}: {fault:?}");
    }
    assert!(first("SCRAM-SHA-256", &format!("y,,n=,{nonce},x=more")).is_ok());
    assert!(first("SCRAM-SHA-256", &format!("n,,n=,r={}", "a".repeat(256))).is_ok());
    for mechanism in ["SCRAM-SHA-256-PLUS", "SCRAM-SHA-1", ""] {
        let fault = first(mechanism, &format!("n,,n=,{nonce}")).unwrap_err();
        assert_eq!(fault, Fault::Mechanism);
    }
}

#[test]
fn channel_binding_can_not_be_talked_away() {
    let offered = |bound_only: bool, mechanism: &str, flag: &str| {
        let offer = Offer { digest: Some(b"digest"), bound_only };
        let message = format!("{flag},,n=,r=abc");
        let (mechanism, message) = (mechanism.as_bytes(), message.as_bytes());
        begin(verifier(), offer, mechanism, message, SERVER_NONCE).map(|_| ())
    };
    let bound = |mechanism: &str, flag: &str| offered(false, mechanism, flag);
    let (plus, without) = ("SCRAM-SHA-256-PLUS", "SCRAM-SHA-256");
    assert_eq!(bound(plus, "p=tls-server-end-point"), Ok(()));
    assert_eq!(bound(without, "n"), Ok(()));
    assert_eq!(offered(true, plus, "p=tls-server-end-point"), Ok(()));
    assert_eq!(offered(true, without, "n"), Err(Fault::Mechanism));
    assert!(matches!(bound(without, "y"), Err(Fault::Binding(_))));
    assert!(matches!(bound(plus, "p=tls-unique"), Err(Fault::Binding(_))));
    assert!(matches!(bound(plus, "n"), Err(Fault::Malformed(_))));
    assert!(matches!(bound(without, "p=tls-server-end-point"), Err(Fault::Malformed(_))));
}

#[test]
fn last_messages_that_are_refused() {
    let nonce = format!("{CLIENT_NONCE}{SERVER_NONCE}");
    let finish = |message: String| challenge().finish(message.as_bytes());
    let wrong = format!("c=biws,r={nonce},p=AHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
    assert!(matches!(finish(wrong), Ok(Verdict::Wrong)));
    assert_eq!(finish(format!("c=biws,r={nonce}x,p={PROOF}")).unwrap_err(), Fault::Nonce);
    assert_eq!(finish(format!("c=biws,r={CLIENT_NONCE},p={PROOF}")).unwrap_err(), Fault::Nonce);
    let bound = finish(format!("c=eSws,r={nonce},p={PROOF}")).unwrap_err();
    assert!(matches!(bound, Fault::Binding(_)));
    let malformed = [
        String::new(),
        format!("c=biws,r={nonce}"),
        format!("r={nonce},c=biws,p={PROOF}"),
        format!("c=biws,r={nonce},p=AAAA"),
        format!("c=biws,r={nonce},p=*"),
        format!("c=biws,r={nonce},p={PROOF},x=1"),
        format!("c=biws,r={nonce},x={},p={PROOF}", "a".repeat(1024)),
    ];
    for message in malformed {
        let fault = finish(message.clone()).unwrap_err();
        assert!(matches!(fault, Fault::Malformed(_)), "{message}: {fault:?}");
    }
}

#[test]
fn servers_that_are_refused() {
    let challenged = |message: &str| {
        let (hello, first) = client::begin(client::Flag::None, "abc");
        assert_eq!(first, "n,,n=,r=abc");
        hello.challenged(message.as_bytes()).map(|challenge| challenge.iterations)
    };
    assert_eq!(challenged("r=abcd,s=c2FsdA==,i=4096"), Ok(4096));
    assert_eq!(challenged("r=abcd,s=c2FsdA==,i=1,x=y"), Ok(1));
    let refused = [
        "",
        "r=abc,s=c2FsdA==,i=4096",
        "r=xabc,s=c2FsdA==,i=4096",
        "r=abcd,s=,i=4096",
        "r=abcd,s=*,i=4096",
        "r=abcd,s=c2FsdA==,i=0",
        "r=abcd,s=c2FsdA==,i=-1",
        "r=abcd,s=c2FsdA==,i=2000001",
        "r=abcd,s=c2FsdA==",
        "e=unknown-user",
    ];
    for message in refused {
        assert!(challenged(message).is_err(), "{message}");
    }
    assert!(challenged(&format!("r=abc{},s=c2FsdA==,i=1", "d".repeat(254))).is_err());
    let (hello, _) = client::begin(client::Flag::None, "abc");
    let keys = Derivation::new(Secret::from("x"), b"salt", 1).run();
    let challenge = hello.challenged(b"r=abcd,s=c2FsdA==,i=1").unwrap();
    let (expected, _) = challenge.prove(&keys);
    let nothing = "A".repeat(43) + "=";
    assert_eq!(expected.check(format!("v={nothing}").as_bytes()), Ok(false));
    assert!(matches!(expected.check(b"e=other-error"), Err(Malformed(_))));
}

proptest! {
    #[test]
    fn any_bytes_are_taken_calmly(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        words in "[npy],[a=]{0,2},[nrmcpsi=,a-zA-Z0-9]{0,40}",
    ) {
        let mock = mock();
        let verifier = Verifier::Scram(verifier());
        for method in [Method::ScramSha256, Method::Md5, Method::Password] {
            for body in [bytes.as_slice(), words.as_bytes()] {
                let mut out = Vec::new();
                let ask = ask(method, Some(&verifier), &mock);
                let (mut auth, _) = ClientAuth::begin(ask, &mut out);
                let _ = auth.on(body, &mut out);
                let _ = auth.on(body, &mut out);
                let mut login = Login::new("ann", password("x"), None);
                let _ = login.on(body, &mut out);
            }
        }
        let _ = first("SCRAM-SHA-256", &words);
        let _ = challenge().finish(words.as_bytes());
        let _ = client::begin(client::Flag::None, "a").0.challenged(words.as_bytes());
    }
}
