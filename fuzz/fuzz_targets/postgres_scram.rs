//! Any messages of a client that wants in, and of a server that Weir logs in at: without the
//! password nobody gets in, and without the verifier no server is believed.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use postgres::auth::{
    Ask, AuthStep, ChannelBinding, ClientAuth, Credentials, Login, LoginStep, Mock, Secret,
    Verifier, common_name, hba, read_user_list,
};
use postgres::settings::Method;

static MOCK: LazyLock<Mock> = LazyLock::new(|| Mock::new(b"seed"));
static VERIFIER: LazyLock<Verifier> = LazyLock::new(|| {
    Verifier::parse(
        "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
         wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=",
    )
});

fuzz_target!(|messages: Vec<&[u8]>| {
    for method in [Method::ScramSha256, Method::Md5] {
        let ask = Ask {
            method,
            user: "user",
            verifier: Some(&VERIFIER),
            mock: &MOCK,
            there: None,
            binding: None,
            is_named: false,
        };
        let mut out = Vec::new();
        let (mut auth, _) = ClientAuth::begin(ask, &mut out);
        for message in &messages {
            assert!(!matches!(auth.on(message, &mut out), AuthStep::Done(_)));
        }
    }
    let mut out = Vec::new();
    let mut login = Login::new("user", Credentials::Password(Secret::from("pencil")), None);
    let mut asked = false;
    for message in &messages {
        let before = out.len();
        match login.on(message, &mut out) {
            // Only a server that asks for nothing, or for an md5 digest, need not prove itself.
            LoginStep::Done => assert!(!asked),
            LoginStep::Derive(_) | LoginStep::Failed(_) => break,
            LoginStep::More => asked |= out[before..].windows(5).any(|w| w == b"SCRAM"),
        }
    }
    for message in messages {
        let _ = (common_name(message), ChannelBinding::of(message));
        if let Ok(text) = str::from_utf8(message) {
            let _ = (Verifier::parse(text), read_user_list(text));
            let _ = hba::read(text, &hba::read_maps(text).0);
        }
    }
});
