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

use super::derivation::ITERATIONS_MAX;
use super::scram::server::{self, Challenge, Offer, Verdict};
use super::scram::{MECHANISM, MECHANISM_PLUS, MESSAGE_BYTES_MAX};
use super::verifier::ITERATIONS;
use super::{
    ChannelBinding, Credentials, Derivation, Keys, Kind, Md5Verifier, Mock, ScramVerifier, Secret,
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
    /// What a server keeps of its new users' passwords, where users come from one.
    pub there: Option<Kind>,
    /// Of Weir's own certificate, where the client came by TLS.
    pub binding: Option<&'a ChannelBinding>,
    /// What else it has shown, its certificate or the system's user at the other end of a Unix
    /// socket, may be this user by the rule.
    pub is_named: bool,
}

impl Ask<'_> {
    /// What is kept of the user's password; of an unknown one's, what is made up.
    pub fn kind(&self) -> Kind {
        // Made up for known users as well: it takes as long for all.
        let made_up = self.mock.kind(self.user, self.there);
        self.verifier.map_or(made_up, Verifier::kind)
    }
}

/// What the gateway is to do next in a client's login.
#[derive(Debug)]
pub enum AuthStep {
    /// What was written is to be sent; the client's next `p` message is for
    /// [`ClientAuth::on`].
    More,
    /// To be run, away from the worker, and given to [`ClientAuth::derived`]: a password that
    /// Weir knows is made ready for SCRAM, once for all logins.
    Prepare(Derivation),
    /// To be run, away from the worker, and given to [`ClientAuth::derived`]: the password that
    /// the client has sent, which may be anything.
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
    /// The password is made ready for SCRAM.
    Preparing {
        secret: Secret,
        salt: Box<[u8]>,
        channel: Channel,
    },
    Scram {
        verifier: ScramVerifier,
        known: UserSecret,
        channel: Channel,
    },
    Challenged {
        challenge: Challenge,
        known: UserSecret,
    },
    Md5 {
        verifier: Md5Verifier,
        salt: [u8; 4],
        known: UserSecret,
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

/// What SCRAM may be bound to.
#[derive(Debug)]
struct Channel {
    binding: Option<ChannelBinding>,
    /// A client that does not bind its login to the channel is refused.
    bound_only: bool,
}

/// What is known of a user besides the verifier at hand.
#[derive(Debug)]
enum UserSecret {
    /// Nothing fits: goes through the motions.
    Nobody,
    /// The verifier at hand is all.
    Verifier,
    /// The password itself, of which the verifier at hand was made.
    Password(Secret),
}

impl ClientAuth {
    /// Begins, and appends the first request to `out`. Trust, certificates and the like are over
    /// at once.
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
                let mock = ask.mock.verifier(ask.user, ask.kind());
                self.state = State::Clear { verifier: ask.verifier.cloned(), mock };
                put_authentication_cleartext(out);
                AuthStep::More
            }
        }
    }

    fn open_scram(&mut self, ask: &Ask<'_>, out: &mut Vec<u8>) -> AuthStep {
        let bound_only = ask.method == Method::ScramSha256Plus;
        let channel = Channel { binding: ask.binding.cloned(), bound_only };
        let made_up = ask.mock.verifier(ask.user, ask.kind());
        match ask.verifier {
            Some(Verifier::Scram(verifier)) => {
                self.offer(verifier.clone(), UserSecret::Verifier, channel, out)
            }
            Some(Verifier::Plain(plain)) => {
                let salt = ask.mock.salt(ask.user);
                let derivation = plain.derivation(&salt);
                self.state = State::Preparing { secret: plain.secret.clone(), salt, channel };
                AuthStep::Prepare(derivation)
            }
            // An md5 digest says nothing that SCRAM could check.
            Some(Verifier::Md5(_)) | None => self.offer(made_up, UserSecret::Nobody, channel, out),
        }
    }

    fn offer(
        &mut self,
        verifier: ScramVerifier,
        known: UserSecret,
        channel: Channel,
        out: &mut Vec<u8>,
    ) -> AuthStep {
        let plus = channel.binding.as_ref().map(|_| MECHANISM_PLUS);
        let without = (!channel.bound_only).then_some(MECHANISM);
        put_authentication_sasl(out, plus.into_iter().chain(without));
        self.state = State::Scram { verifier, known, channel };
        AuthStep::More
    }

    fn open_md5(&mut self, ask: &Ask<'_>, out: &mut Vec<u8>) -> AuthStep {
        let (kind, made_up) = (ask.kind(), ask.mock.digest(ask.user));
        let (verifier, known) = match ask.verifier {
            Some(Verifier::Md5(verifier)) => (verifier.clone(), UserSecret::Verifier),
            Some(Verifier::Plain(plain)) => {
                let verifier = Md5Verifier::make(ask.user, &plain.secret);
                (verifier, UserSecret::Password(plain.secret.clone()))
            }
            Some(Verifier::Scram(_)) => return self.open_scram(ask, out),
            None => match kind {
                Kind::Plain | Kind::Md5 => (made_up, UserSecret::Nobody),
                Kind::Scram { .. } => return self.open_scram(ask, out),
            },
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
            State::Scram { verifier, known, channel: Channel { binding, bound_only } } => {
                let digest = binding.as_ref().map(ChannelBinding::digest);
                self.challenge(verifier, known, Offer { digest, bound_only }, body, out)
            }
            State::Challenged { challenge, known } => self.proved(challenge, known, body, out),
            State::Md5 { verifier, salt, known } => self.digested(verifier, salt, known, body),
            State::Clear { verifier, mock } => self.clear(verifier, mock, body),
            State::Preparing { .. } | State::Derived { .. } | State::Over => {
                AuthStep::Refused(Refusal::fatal(
                    sqlstate::PROTOCOL_VIOLATION,
                    "a password message that was not asked for",
                ))
            }
        }
    }

    fn challenge(
        &mut self,
        verifier: ScramVerifier,
        known: UserSecret,
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
        known: UserSecret,
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> AuthStep {
        match (challenge.finish(body), known) {
            (
                Ok(Verdict::Proved { last, login }),
                known @ (UserSecret::Verifier | UserSecret::Password(_)),
            ) => {
                put_authentication_sasl_final(out, last.as_bytes());
                AuthStep::Done(match known {
                    UserSecret::Password(secret) => Credentials::Password(secret),
                    _ => Credentials::Scram(login),
                })
            }
            (Ok(_), _) => self.wrong(),
            (Err(fault), _) => AuthStep::Refused(of_fault(fault)),
        }
    }

    fn digested(
        &mut self,
        verifier: Md5Verifier,
        salt: [u8; 4],
        known: UserSecret,
        body: &[u8],
    ) -> AuthStep {
        let answer = match password(body) {
            Ok(answer) => answer,
            Err(malformed) => return AuthStep::Refused(of_malformed(malformed)),
        };
        let fits: bool = md5::answer(&verifier, salt).ct_eq(answer).into();
        match known {
            UserSecret::Verifier if fits => AuthStep::Done(Credentials::Md5(verifier)),
            UserSecret::Password(secret) if fits => AuthStep::Done(Credentials::Password(secret)),
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
            Some(Verifier::Scram(verifier)) if verifier.iterations.get() <= ITERATIONS_MAX => {
                (verifier, true)
            }
            Some(Verifier::Scram(verifier)) => {
                let (user, iterations) = (&self.user, verifier.iterations);
                tracing::warn!(user, iterations, "too many iterations to check a password by");
                (mock, false)
            }
            // As long as for a known user, so that time tells nothing.
            Some(Verifier::Plain(_) | Verifier::Md5(_)) | None => (mock, false),
        };
        let iterations = verifier.iterations.get().min(ITERATIONS_MAX);
        let derivation = Derivation::new(secret.clone(), &verifier.salt, iterations);
        self.state = State::Derived { verifier, known, secret };
        AuthStep::Derive(derivation)
    }

    /// The keys that [`AuthStep::Prepare`] or [`AuthStep::Derive`] asked for.
    pub fn derived(&mut self, keys: &Keys, out: &mut Vec<u8>) -> AuthStep {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Preparing { secret, salt, channel } => {
                let verifier = ScramVerifier::of_keys(keys, &salt, ITERATIONS.get());
                self.offer(verifier, UserSecret::Password(secret), channel, out)
            }
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
