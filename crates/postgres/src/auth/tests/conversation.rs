use super::*;
use crate::auth::{Binding, KeyCache, LoginRules};

fn login(credentials: Credentials) -> Login {
    let rules = LoginRules { cleartext: true, binding: Binding::Prefer };
    Login::new("ann", credentials, None).rules(rules)
}

#[test]
fn every_method_takes_the_right_password_and_no_other() {
    let mock = mock();
    let verifiers: [fn(&str) -> Verifier; 3] = [plain, scram, md5];
    for method in [Method::ScramSha256, Method::Md5, Method::Password] {
        for verifier in verifiers {
            let verifier = verifier("sécret");
            // An md5 digest is nothing that SCRAM could check.
            let possible = !matches!((method, &verifier), (Method::ScramSha256, Verifier::Md5(_)));
            let right = talk(login(password("sécret")), ask(method, Some(&verifier), &mock));
            assert_eq!(right.server.is_ok(), possible, "{method:?} {verifier:?}");
            assert_eq!(right.client, Ok(()));
            for wrong in ["Sécret", "sécret ", "x"] {
                let wrong = talk(login(password(wrong)), ask(method, Some(&verifier), &mock));
                let refusal = wrong.server.unwrap_err();
                assert_eq!(refusal.code, "28P01", "{method:?} {verifier:?}");
            }
        }
    }
}

#[test]
fn nothing_tells_an_unknown_user_from_a_wrong_password() {
    let verifiers: [fn(&str) -> Verifier; 3] = [plain, scram, md5];
    for method in [Method::ScramSha256, Method::Md5, Method::Password] {
        for verifier in verifiers {
            let known = verifier("secret");
            let mock = mock().like([known.kind()]);
            let asked = |verifier| talk(login(password("guess")), ask(method, verifier, &mock));
            let (wrong, unknown) = (asked(Some(&known)), asked(None));
            let what = format!("{method:?} {known:?}");
            assert_eq!(wrong.server.unwrap_err(), unknown.server.unwrap_err(), "{what}");
            assert_eq!(wrong.asked, unknown.asked, "{what}");
        }
    }
}

#[test]
fn a_known_password_has_the_same_salt_each_time() {
    let mock = mock();
    let salt = |verifier: Option<&Verifier>| {
        let mut out = Vec::new();
        let (mut auth, mut step) =
            ClientAuth::begin(ask(Method::ScramSha256, verifier, &mock), &mut out);
        if let AuthStep::Prepare(derivation) = step {
            step = auth.derived(&derivation.run(), &mut out);
        }
        assert!(matches!(step, AuthStep::More));
        out.clear();
        let mut first = Vec::new();
        let message = b"n,,n=,r=nonce";
        wire::postgres::frontend::put_sasl_initial(&mut first, "SCRAM-SHA-256", message);
        assert!(matches!(auth.on(&first[5..], &mut out), AuthStep::More));
        let text = String::from_utf8_lossy(&out).into_owned();
        text.split_once(",s=").unwrap().1.to_owned()
    };
    assert_eq!(salt(Some(&plain("secret"))), salt(Some(&plain("secret"))));
    assert_eq!(salt(Some(&plain("secret"))), salt(None), "it says nothing of the password");
}

#[test]
fn a_verifier_of_too_many_iterations_costs_no_more_than_a_second() {
    let Verifier::Scram(mut verifier) = scram("secret") else { panic!() };
    verifier.iterations = std::num::NonZeroU32::MAX;
    let (mock, verifier) = (mock(), Verifier::Scram(verifier));
    let (mut auth, _) =
        ClientAuth::begin(ask(Method::Password, Some(&verifier), &mock), &mut Vec::new());
    let AuthStep::Derive(derivation) = auth.on(b"secret\0", &mut Vec::new()) else { panic!() };
    // It would take hours otherwise.
    let step = auth.derived(&derivation.run(), &mut Vec::new());
    assert!(matches!(step, AuthStep::Refused(_)));
}

#[test]
fn the_key_of_a_clients_proof_logs_in_where_the_verifier_is_equal() {
    let mock = mock();
    let (verifier, other) = (scram("secret"), scram("secret"));
    let first = talk(login(password("secret")), ask(Method::ScramSha256, Some(&verifier), &mock));
    let key = first.server.unwrap();
    assert!(matches!(&key, Credentials::Scram(login)
        if matches!(&verifier, Verifier::Scram(verifier) if login.is_for(verifier))));
    let second = talk(login(key.clone()), ask(Method::ScramSha256, Some(&verifier), &mock));
    assert_eq!((second.client, second.server.unwrap()), (Ok(()), key.clone()));
    // The same password under another salt is another verifier.
    let elsewhere = talk(login(key.clone()), ask(Method::ScramSha256, Some(&other), &mock));
    assert_eq!(elsewhere.client, Err(LoginError::OtherVerifier("ann".to_owned())));
    let md5 = talk(login(key), ask(Method::Md5, Some(&md5("secret")), &mock));
    assert!(matches!(md5.client, Err(LoginError::NoCredentials { .. })));
}

#[test]
fn what_a_client_shows_is_what_logs_in_for_it() {
    let mock = mock();
    let shown = |method, verifier: &Verifier| {
        talk(login(password("secret")), ask(method, Some(verifier), &mock)).server.unwrap()
    };
    assert_eq!(shown(Method::ScramSha256, &plain("secret")), password("secret"));
    assert_eq!(shown(Method::Md5, &plain("secret")), password("secret"));
    assert_eq!(shown(Method::Password, &scram("secret")), password("secret"));
    let digest = shown(Method::Md5, &md5("secret"));
    assert!(matches!(digest, Credentials::Md5(_)));
    let again = talk(login(digest), ask(Method::Md5, Some(&md5("secret")), &mock));
    assert_eq!((again.client, again.server.is_ok()), (Ok(()), true));
    assert_eq!(shown(Method::Trust, &plain("known")), password("known"));
    assert_eq!(shown(Method::Trust, &scram("known")), Credentials::None);
}

#[test]
fn channels_are_bound_where_both_sides_can() {
    let mock = mock();
    let verifier = scram("secret");
    let (own, other) = (
        certificate("weir", &rcgen::PKCS_ECDSA_P256_SHA256),
        certificate("weir", &rcgen::PKCS_ECDSA_P256_SHA256),
    );
    let own_binding = binding(&own);
    let run = |seen: Option<&[u8]>, rule: Binding, offered: Option<&ChannelBinding>| {
        let rules = LoginRules { cleartext: false, binding: rule };
        let login = Login::new("ann", password("secret"), seen).rules(rules);
        let outcome = talk(
            login,
            Ask { binding: offered, ..ask(Method::ScramSha256, Some(&verifier), &mock) },
        );
        (outcome.client, outcome.server.map(|_| ()).map_err(code))
    };
    for rule in [Binding::Prefer, Binding::Require] {
        assert_eq!(run(Some(&own), rule, Some(&own_binding)), (Ok(()), Ok(())));
        // Someone in between shows a certificate of his own.
        assert_eq!(run(Some(&other), rule, Some(&own_binding)), (Ok(()), Err(denied())));
    }
    assert_eq!(run(Some(&own), Binding::Disable, Some(&own_binding)), (Ok(()), Ok(())));
    assert_eq!(run(None, Binding::Prefer, None), (Ok(()), Ok(())));
    let unbound = run(None, Binding::Require, None).0;
    assert!(matches!(unbound, Err(LoginError::Unbound(_))));
    // A rule may insist.
    let insist = |seen: Option<&[u8]>, binding: Option<&ChannelBinding>| {
        let login = Login::new("ann", password("secret"), seen);
        let asked = ask(Method::ScramSha256Plus, Some(&verifier), &mock);
        let outcome = talk(login, Ask { binding, ..asked });
        (outcome.client, outcome.server.map(|_| ()).map_err(code))
    };
    assert_eq!(insist(Some(&own), Some(&own_binding)), (Ok(()), Ok(())));
    assert!(matches!(insist(None, Some(&own_binding)), (Err(LoginError::Protocol(_)), _)));
    assert_eq!(insist(None, None), (Ok(()), Err(denied())));
    // The client could, and is told that the server can't: whoever told it lies.
    assert_eq!(run(Some(&own), Binding::Prefer, None), (Ok(()), Ok(())));
    let unbound = run(Some(&own), Binding::Require, None).0;
    assert!(matches!(unbound, Err(LoginError::Unbound(_))));
}

#[test]
fn without_passwords() {
    let mock = mock();
    let mut out = Vec::new();
    let mut begin = |ask: Ask<'_>| match ClientAuth::begin(ask, &mut out).1 {
        AuthStep::Done(_) => Ok(()),
        AuthStep::Refused(refusal) => Err(code(refusal)),
        other => panic!("{other:?}"),
    };
    assert_eq!(begin(ask(Method::Trust, None, &mock)), Ok(()));
    assert_eq!(begin(ask(Method::Reject, None, &mock)), Err(denied()));
    for method in [Method::Cert, Method::Peer] {
        let asked = ask(method, None, &mock);
        assert_eq!(begin(asked), Err(denied()));
        assert_eq!(begin(Ask { is_named: true, ..asked }), Ok(()));
    }
    assert!(out.is_empty());
}

#[test]
fn a_password_never_goes_out_in_the_clear_unless_it_may() {
    let mock = mock();
    let verifier = plain("secret");
    let asked = ask(Method::Password, Some(&verifier), &mock);
    let refused = talk(Login::new("ann", password("secret"), None), asked);
    assert_eq!(refused.client, Err(LoginError::Cleartext));
    let tls = certificate("weir", &rcgen::PKCS_ECDSA_P256_SHA256);
    let taken = talk(Login::new("ann", password("secret"), Some(&tls)), asked);
    assert_eq!((taken.client, taken.server.is_ok()), (Ok(()), true));
    for rule in [Method::Password, Method::Md5] {
        let rules = LoginRules { cleartext: true, binding: Binding::Require };
        let login = Login::new("ann", password("secret"), Some(&tls)).rules(rules);
        let outcome = talk(login, ask(rule, Some(&verifier), &mock));
        assert!(matches!(outcome.client, Err(LoginError::Unbound(_))), "{rule:?}");
    }
}

#[test]
fn a_server_must_prove_itself_before_it_lets_weir_in() {
    let mock = mock();
    let verifier = scram("secret");
    let mut to_client = Vec::new();
    let (_, _) =
        ClientAuth::begin(ask(Method::ScramSha256, Some(&verifier), &mock), &mut to_client);
    let mut login = Login::new("ann", password("secret"), None);
    let mut out = Vec::new();
    let request = frame::next(&to_client, MAX).unwrap().unwrap();
    assert!(matches!(login.on(request.body, &mut out), LoginStep::More));
    let step = login.on(&[0; 4], &mut out);
    assert!(matches!(step, LoginStep::Failed(LoginError::Protocol(_))), "{step:?}");
    // A server that trusts, from the beginning, is the operator's choice.
    let mut login = Login::new("ann", Credentials::None, None);
    assert!(matches!(login.on(&[0; 4], &mut out), LoginStep::Done));
}

#[test]
fn keys_are_computed_once() {
    let cache = KeyCache::new(2).unwrap();
    let derivation =
        |password: &str| crate::auth::Derivation::new(Secret::from(password), b"salt", 5);
    assert!(cache.get(&derivation("a")).is_none());
    for password in ["a", "b", "b", "c"] {
        cache.put(&derivation(password), &derivation(password).run());
    }
    assert!(cache.get(&derivation("a")).is_none());
    assert_eq!(cache.get(&derivation("b")), Some(derivation("b").run()));
    assert_ne!(cache.get(&derivation("c")), cache.get(&derivation("b")));
}
