//! How a client is told, in PostgreSQL's words. An unknown user hears what a wrong password does.

use wire::postgres::{Malformed, Refusal, sqlstate};

use super::super::hba::Certificate;
use super::super::scram::server::Fault;
use super::{Ask, common_name};

/// Of a client whose certificate is not what the rule asks for. Says nothing of whether the user
/// exists, since it is judged by the startup packet alone.
pub(super) fn certificate(ask: &Ask<'_>) -> Option<Refusal> {
    let refused = |message: String| Some(Refusal::fatal(sqlstate::INVALID_AUTHORIZATION, message));
    match (ask.with, ask.certificate) {
        (Certificate::None, _) | (Certificate::Verified, Some(_)) => None,
        (Certificate::Verified | Certificate::Named, None) => {
            refused("connection requires a valid client certificate".to_owned())
        }
        (Certificate::Named, Some(certificate)) => match common_name(certificate) {
            Some(name) if name == ask.user => None,
            _ => refused(format!("certificate authentication failed for user \"{}\"", ask.user)),
        },
    }
}

pub(super) fn wrong_password(user: &str) -> Refusal {
    Refusal::fatal(
        sqlstate::INVALID_PASSWORD,
        format!("password authentication failed for user \"{user}\""),
    )
}

pub(super) fn not_ready() -> Refusal {
    Refusal::fatal(sqlstate::INTERNAL_ERROR, "could not make the authentication's random bytes")
}

pub(super) fn of_malformed(malformed: Malformed) -> Refusal {
    Refusal::fatal(sqlstate::PROTOCOL_VIOLATION, malformed.to_string())
}

pub(super) fn of_fault(fault: Fault) -> Refusal {
    let violation = |message: &str| Refusal::fatal(sqlstate::PROTOCOL_VIOLATION, message);
    match fault {
        Fault::Malformed(why) => violation("malformed SCRAM message").detail(why.0),
        Fault::Nonce => violation("invalid SCRAM response").detail("Nonce does not match."),
        Fault::Mechanism => violation("client selected an invalid SASL authentication mechanism"),
        Fault::Binding(why) => {
            Refusal::fatal(sqlstate::INVALID_AUTHORIZATION, "SCRAM channel binding check failed")
                .detail(why)
        }
    }
}
