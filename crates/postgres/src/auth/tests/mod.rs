//! Both sides against each other, RFC 7677's exchange, and what each refuses.

mod certificates;
mod conversation;
mod queries;
mod rules;
mod scram;
mod users;

use wire::postgres::frame;

use super::{
    Ask, AuthStep, ChannelBinding, ClientAuth, Credentials, Kind, Login, LoginError, LoginStep,
    Mock, Secret, Verifier,
};
use crate::settings::Method;

const MAX: usize = 4096;

/// How a login went, seen from both sides.
#[derive(Debug)]
struct Outcome {
    client: Result<(), LoginError>,
    server: Result<Credentials, wire::postgres::Refusal>,
    /// What the client was asked, message by message, without what is random.
    asked: Vec<String>,
}

fn mock() -> Mock {
    Mock::new(b"seed")
}

fn ask<'a>(method: Method, verifier: Option<&'a Verifier>, mock: &'a Mock) -> Ask<'a> {
    Ask { method, user: "ann", verifier, mock, there: None, binding: None, is_named: false }
}

/// Lets a login and a server talk until one of them ends it.
fn talk(mut login: Login, ask: Ask<'_>) -> Outcome {
    let (mut to_client, mut to_server) = (Vec::new(), Vec::new());
    let mut asked = Vec::new();
    let (mut auth, mut step) = ClientAuth::begin(ask, &mut to_client);
    let mut client = None;
    let server = loop {
        match step {
            AuthStep::Done(credentials) => break Ok(credentials),
            AuthStep::Refused(refusal) => break Err(refusal),
            AuthStep::Prepare(derivation) | AuthStep::Derive(derivation) => {
                step = auth.derived(&derivation.run(), &mut to_client);
                continue;
            }
            AuthStep::More => {}
        }
        let request = frame::next(&to_client, MAX).unwrap().unwrap();
        asked.push(shape(request.body));
        assert_eq!((request.tag, request.whole.len()), (b'R', to_client.len()));
        match login.on(request.body, &mut to_server) {
            LoginStep::More => {}
            LoginStep::Derive(derivation) => {
                assert!(matches!(
                    login.derived(&derivation.run(), &mut to_server),
                    LoginStep::More
                ));
            }
            LoginStep::Done => panic!("done before AuthenticationOk"),
            LoginStep::Failed(error) => {
                client = Some(error);
                break Ok(Credentials::None);
            }
        }
        to_client.clear();
        let answer = frame::next(&to_server, auth.message_bytes_max()).unwrap().unwrap();
        assert_eq!((answer.tag, answer.whole.len()), (b'p', to_server.len()));
        step = auth.on(answer.body, &mut to_client);
        to_server.clear();
    };
    let client = match client {
        Some(error) => Err(error),
        None if server.is_ok() => admitted(login, to_client),
        None => Ok(()),
    };
    Outcome { client, server, asked }
}

/// The end as the client hears it: the last message, if there is one, then AuthenticationOk.
fn admitted(mut login: Login, mut last: Vec<u8>) -> Result<(), LoginError> {
    wire::postgres::backend::put_authentication_ok(&mut last);
    let mut rest = last.as_slice();
    loop {
        let request = frame::next(rest, MAX).unwrap().unwrap();
        rest = &rest[request.whole.len()..];
        match login.on(request.body, &mut Vec::new()) {
            LoginStep::More => {}
            LoginStep::Done => return Ok(()),
            LoginStep::Failed(error) => return Err(error),
            LoginStep::Derive(_) => panic!("keys are asked for after the proof"),
        }
    }
}

/// Kind and length: what an unknown user's request must have in common with a known one's.
fn shape(body: &[u8]) -> String {
    format!("{:?} {}", &body[..4], body.len())
}

fn plain(password: &str) -> Verifier {
    Verifier::Plain(super::PlainVerifier::new(Secret::from(password)))
}

fn scram(password: &str) -> Verifier {
    Verifier::Scram(super::ScramVerifier::make(&Secret::from(password)).unwrap())
}

fn md5(password: &str) -> Verifier {
    Verifier::Md5(super::Md5Verifier::make("ann", &Secret::from(password)))
}

fn password(password: &str) -> Credentials {
    Credentials::Password(Secret::from(password))
}

/// A certificate of that common name, in DER.
fn certificate(name: &str, algorithm: &'static rcgen::SignatureAlgorithm) -> Vec<u8> {
    let key = rcgen::KeyPair::generate_for(algorithm).unwrap();
    let mut parameters = rcgen::CertificateParams::new(vec!["weir.test".to_owned()]).unwrap();
    parameters.distinguished_name = rcgen::DistinguishedName::new();
    parameters.distinguished_name.push(rcgen::DnType::OrganizationName, "Weir");
    parameters.distinguished_name.push(rcgen::DnType::CommonName, name);
    parameters.self_signed(&key).unwrap().der().to_vec()
}

fn binding(certificate: &[u8]) -> ChannelBinding {
    ChannelBinding::of(certificate).unwrap()
}

fn code(refusal: wire::postgres::Refusal) -> String {
    refusal.code.into_owned()
}

/// The code of what is not a matter of passwords.
fn denied() -> String {
    wire::postgres::sqlstate::INVALID_AUTHORIZATION.to_owned()
}
