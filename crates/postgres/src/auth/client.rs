//! Weir as the server of a client that wants in.

mod refused;

use ring::rand::{SecureRandom, SystemRandom};
use subtle::ConstantTimeEq;
use wire::postgres::backend::{
    put_authentication_cleartext, put_authentication_md5, put_authentication_sasl,
    put_authentication_sasl_continue, put_authentication_sasl_final,
};
use wire::postgres::frontend::{SaslInitial, password};
use wire::postgres::{Refusal, sqlstate};

use super::scram::server::{self, Challenge, Offer, Verdict};
use super::scram::{MECHANISM, MECHANISM_PLUS, MESSAGE_BYTES_MAX};
use super::{
    ChannelBinding, Credentials, Derivation, Keys, Md5Verifier, Mock, ScramVerifier, Secret,
    Verifier, md5, scram,
};
use crate::settings::Method;
use refused::{not_ready, of_fault, of_malformed, unbound};

/// Who asks, and what is known.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// How it is to be shown.
    pub method: Method,
    /// The name in the startup packet.
    pub user: &'a str,
    /// What the user's password is checked against. `None`: no such user, or one without a
    /// password, or one whose password has expired. Nobody is told which.
    pub verifier: Option<&'a Verifier>,
    /// For whoever has none.
    pub mock: &'a Mock,
    /// Of Weir's own certificate, where the client came by TLS.
    pub binding: Option<&'a ChannelBinding>,
    /// What else it has shown, its certificate or the system's user at the other end of a Unix
    /// socket, may be this user by the rule.
    pub is_named: bool,
}

/// What follows.
#[derive(Debug)]
pub enum AuthStep {
    /// What was written is to be sent; the client's next `p` message is for
    /// [`ClientAuth::on`].
    More,
    /// To be run, away from the worker, and given to [`ClientAuth::derived`].
    Derive(Derivation),
    /// The client is who it says. What was written is to be sent; AuthenticationOk was not
    /// written. The credentials log in as the client at a server, where that is possible.
    Done(Credentials),
    /// To be sent, and the connection closed.
    Refused(Refusal),
}

/// A client's authentication under way.
#[derive(Debug)]
pub struct ClientAuth {
    user: String,
    state: State,
}

#[derive(Debug)]
enum State {
    Scram {
        verifier: ScramVerifier,
        known: Known,
        binding: Option<ChannelBinding>,
        /// The channel must be bound.
        bound_only: bool,
    },
    Challenged {
        challenge: Challenge,
        known: Known,
    },
    Md5 {
        verifier: Option<Md5Verifier>,
        salt: [u8; 4],
        known: Known,
    },
    Clear {
        verifier: Option<Verifier>,
        mock: ScramVerifier,
    },
    Derived {
        verifier: ScramVerifier,
        known: bool,
        secret: Secret,
    },
    Over,
}

/// What is known of a user besides the verifier at hand.
#[derive(Debug)]
enum Known {
    /// Nothing fits: goes through the motions.
    Nobody,
    /// The verifier at hand is all.
    Verifier,
    /// The password itself.
    Password(Secret),
}

impl ClientAuth {
    /// Begins, and appends the first request to `out`. Trust, certificates and the like are over
    /// at once.
    ///
    /// Fast, but for a plain verifier that is not [`Verifier::is_warm`].
    pub fn begin(ask: Ask<'_>, out: &mut Vec<u8>) -> (Self, AuthStep) {
        let mut auth = Self { user: ask.user.to_owned(), state: State::Over };
        let step = auth.open(ask, out);
        (auth, step)
    }

    /// Bytes of the longest message that is taken from the client now, tag included.
    pub fn message_bytes_max(&self) -> usize {
        // PostgreSQL's `PG_MAX_AUTH_TOKEN_LENGTH`, and the tag.
        const PASSWORD_BYTES_MAX: usize = 65_535 + 1;
        match self.state {
            State::Clear { .. } => PASSWORD_BYTES_MAX,
            _ => MESSAGE_BYTES_MAX,
        }
    }

    fn open(&mut self, ask: Ask<'_>, out: &mut Vec<u8>) -> AuthStep {
        let without = || ask.verifier.and_then(Verifier::credentials).unwrap_or(Credentials::None);
        match ask.method {
            Method::Trust => AuthStep::Done(without()),
            Method::Reject => AuthStep::Refused(Refusal::fatal(
                sqlstate::INVALID_AUTHORIZATION,
                "connections of this user from there to this database are rejected",
            )),
            Method::Cert | Method::Peer if ask.is_named => AuthStep::Done(without()),
            Method::Cert => AuthStep::Refused(refused::not_named("certificate", ask.user)),
            Method::Peer => AuthStep::Refused(refused::not_named("peer", ask.user)),
            Method::ScramSha256Plus if ask.binding.is_none() => AuthStep::Refused(unbound()),
            Method::ScramSha256 | Method::ScramSha256Plus => self.open_scram(&ask, out),
            Method::Md5 => self.open_md5(&ask, out),
            Method::Password => {
                let mock = ask.mock.verifier(ask.user);
                self.state = State::Clear { verifier: ask.verifier.cloned(), mock };
                put_authentication_cleartext(out);
                AuthStep::More
            }
        }
    }

    fn open_scram(&mut self, ask: &Ask<'_>, out: &mut Vec<u8>) -> AuthStep {
        let (verifier, known) = match ask.verifier {
            Some(Verifier::Scram(verifier)) => (verifier.clone(), Known::Verifier),
            Some(Verifier::Plain(plain)) => match plain.scram() {
                Some(verifier) => (verifier.clone(), Known::Password(plain.secret.clone())),
                None => return AuthStep::Refused(not_ready()),
            },
            // An md5 digest says nothing that SCRAM could check.
            Some(Verifier::Md5(_)) | None => (ask.mock.verifier(ask.user), Known::Nobody),
        };
        let bound_only = ask.method == Method::ScramSha256Plus;
        let plus = ask.binding.map(|_| MECHANISM_PLUS);
        let without = (!bound_only).then_some(MECHANISM);
        put_authentication_sasl(out, plus.into_iter().chain(without));
        self.state = State::Scram { verifier, known, binding: ask.binding.cloned(), bound_only };
        AuthStep::More
    }

    fn open_md5(&mut self, ask: &Ask<'_>, out: &mut Vec<u8>) -> AuthStep {
        let (verifier, known) = match ask.verifier {
            Some(Verifier::Md5(verifier)) => (Some(verifier.clone()), Known::Verifier),
            Some(Verifier::Plain(plain)) => {
                let verifier = Md5Verifier::make(ask.user, &plain.secret);
                (Some(verifier), Known::Password(plain.secret.clone()))
            }
            None if ask.mock.is_md5() => (None, Known::Nobody),
            Some(Verifier::Scram(_)) | None => return self.open_scram(ask, out),
        };
        let mut salt = [0; 4];
        if SystemRandom::new().fill(&mut salt).is_err() {
            return AuthStep::Refused(not_ready());
        }
        put_authentication_md5(out, salt);
        self.state = State::Md5 { verifier, salt, known };
        AuthStep::More
    }

    /// The body of the client's `p` message.
    pub fn on(&mut self, body: &[u8], out: &mut Vec<u8>) -> AuthStep {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Scram { verifier, known, binding, bound_only } => {
                let digest = binding.as_ref().map(ChannelBinding::digest);
                self.challenge(verifier, known, Offer { digest, bound_only }, body, out)
            }
            State::Challenged { challenge, known } => self.proved(challenge, known, body, out),
            State::Md5 { verifier, salt, known } => self.digested(verifier, salt, known, body),
            State::Clear { verifier, mock } => self.clear(verifier, mock, body),
            State::Derived { .. } | State::Over => AuthStep::Refused(Refusal::fatal(
                sqlstate::PROTOCOL_VIOLATION,
                "a password message that was not asked for",
            )),
        }
    }

    fn challenge(
        &mut self,
        verifier: ScramVerifier,
        known: Known,
        offer: Offer<'_>,
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> AuthStep {
        let Some(nonce) = scram::nonce() else { return AuthStep::Refused(not_ready()) };
        let initial = match SaslInitial::read(body) {
            Ok(initial) => initial,
            Err(malformed) => return AuthStep::Refused(of_malformed(malformed)),
        };
        let Some(message) = initial.response else {
            // RFC 4422 lets a client wait to be asked; then its message comes without a mechanism.
            // No client of PostgreSQL's does, and SCRAM has the client begin.
            return AuthStep::Refused(of_fault(server::Fault::Malformed(scram::Malformed(
                "the first message is missing",
            ))));
        };
        match server::begin(verifier, offer, initial.mechanism, message, &nonce) {
            Ok((challenge, first)) => {
                put_authentication_sasl_continue(out, first.as_bytes());
                self.state = State::Challenged { challenge, known };
                AuthStep::More
            }
            Err(fault) => AuthStep::Refused(of_fault(fault)),
        }
    }

    fn proved(
        &mut self,
        challenge: Challenge,
        known: Known,
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> AuthStep {
        match (challenge.finish(body), known) {
            (
                Ok(Verdict::Proved { last, login }),
                known @ (Known::Verifier | Known::Password(_)),
            ) => {
                put_authentication_sasl_final(out, last.as_bytes());
                AuthStep::Done(match known {
                    Known::Password(secret) => Credentials::Password(secret),
                    _ => Credentials::Scram(login),
                })
            }
            (Ok(_), _) => self.wrong(),
            (Err(fault), _) => AuthStep::Refused(of_fault(fault)),
        }
    }

    fn digested(
        &mut self,
        verifier: Option<Md5Verifier>,
        salt: [u8; 4],
        known: Known,
        body: &[u8],
    ) -> AuthStep {
        let answer = match password(body) {
            Ok(answer) => answer,
            Err(malformed) => return AuthStep::Refused(of_malformed(malformed)),
        };
        let nobody = Md5Verifier { digest: Secret::from("") };
        let verifier = verifier.unwrap_or(nobody);
        let fits: bool = md5::answer(&verifier, salt).ct_eq(answer).into();
        match known {
            Known::Verifier if fits => AuthStep::Done(Credentials::Md5(verifier)),
            Known::Password(secret) if fits => AuthStep::Done(Credentials::Password(secret)),
            _ => self.wrong(),
        }
    }

    fn clear(&mut self, verifier: Option<Verifier>, mock: ScramVerifier, body: &[u8]) -> AuthStep {
        let secret = match password(body) {
            // As in PostgreSQL: an empty password is a client's mistake, never a user's choice.
            Ok([]) => return self.wrong(),
            Ok(secret) => Secret::new(secret),
            Err(malformed) => return AuthStep::Refused(of_malformed(malformed)),
        };
        let (verifier, known) = match verifier {
            Some(Verifier::Plain(plain)) if plain.secret == secret => {
                return AuthStep::Done(Credentials::Password(secret));
            }
            Some(Verifier::Md5(md5)) if Md5Verifier::make(&self.user, &secret) == md5 => {
                return AuthStep::Done(Credentials::Password(secret));
            }
            Some(Verifier::Scram(verifier)) => (verifier, true),
            // As long as for a known user, so that time tells nothing.
            Some(Verifier::Plain(_) | Verifier::Md5(_)) | None => (mock, false),
        };
        let iterations = verifier.iterations.get();
        let derivation = Derivation::new(secret.clone(), &verifier.salt, iterations);
        self.state = State::Derived { verifier, known, secret };
        AuthStep::Derive(derivation)
    }

    /// The keys that [`AuthStep::Derive`] asked for.
    pub fn derived(&mut self, keys: &Keys) -> AuthStep {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Derived { verifier, known, secret } => {
                let fits: bool = keys.stored_key.ct_eq(&verifier.stored_key).into();
                if fits && known {
                    AuthStep::Done(Credentials::Password(secret))
                } else {
                    self.wrong()
                }
            }
            _ => AuthStep::Refused(not_ready()),
        }
    }

    fn wrong(&self) -> AuthStep {
        AuthStep::Refused(refused::wrong_password(&self.user))
    }
}
