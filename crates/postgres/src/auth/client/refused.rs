//! How a client is told, in PostgreSQL's words. An unknown user hears what a wrong password does.

use wire::postgres::{Malformed, Refusal, sqlstate};

use super::super::scram::server::Fault;

pub(super) fn wrong_password(user: &str) -> Refusal {
    Refusal::fatal(
        sqlstate::INVALID_PASSWORD,
        format!("password authentication failed for user \"{user}\""),
    )
}

pub(super) fn not_ready() -> Refusal {
    Refusal::fatal(sqlstate::INTERNAL_ERROR, "could not make the authentication's random bytes")
}

/// The rule wants the channel bound, and there is none, or none that can be.
pub(super) fn unbound() -> Refusal {
    Refusal::fatal(
        sqlstate::INVALID_AUTHORIZATION,
        "channel binding is required for this user here",
    )
    .hint("connect with TLS")
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

/// The refusal in PostgreSQL's own words.
pub(super) fn not_named(by: &str, user: &str) -> Refusal {
    let what = format!("{by} authentication failed for user \"{user}\"");
    Refusal::fatal(sqlstate::INVALID_AUTHORIZATION, what)
}
