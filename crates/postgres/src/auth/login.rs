//! Weir as the client of a server.

mod error;

pub use error::LoginError;

use wire::postgres::backend::{Authentication, mechanisms};
use wire::postgres::frontend::{put_password, put_sasl_initial, put_sasl_response};

use super::scram::client::{self, Challenge, Expected, Flag, Hello};
use super::scram::{MECHANISM, MECHANISM_PLUS};
use super::{
    ChannelBinding, Credentials, Derivation, Keys, Md5Verifier, ScramLogin, Secret, md5, scram,
};

/// Whether a login is bound to the TLS channel it goes through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Binding {
    /// Where the server offers it.
    #[default]
    Prefer,
    /// It must be; a server that offers less is not trusted.
    Require,
    /// The login is not bound, even where the server offers it.
    Disable,
}

/// What a server may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoginRules {
    /// The password itself: over TLS or a Unix socket, or where the operator says so.
    pub cleartext: bool,
    /// Whether a SCRAM login is bound to the TLS channel.
    pub binding: Binding,
}

/// What is to be done next in a login to a server.
#[derive(Debug)]
pub enum LoginStep {
    /// What was written is to be sent; the server's next `R` message is for [`Login::on`].
    More,
    /// To be run, away from the worker (or found in a [`super::KeyCache`]), and given to
    /// [`Login::derived`].
    Derive(Derivation),
    /// The server has accepted the login.
    Done,
    /// The connection is to be closed.
    Failed(LoginError),
}

/// A login under way.
#[derive(Debug)]
pub struct Login {
    user: String,
    credentials: Credentials,
    binding: Option<ChannelBinding>,
    rules: LoginRules,
    /// The exchange under way is of SCRAM-SHA-256-PLUS.
    bound: bool,
    state: State,
}

#[derive(Debug)]
enum State {
    Fresh,
    Hello(Hello),
    Deriving(Challenge),
    Proved(Expected),
    /// A password or its digest was sent; SCRAM: and the server has proved itself.
    Answered,
    Over,
}

impl Login {
    /// As `user`. `server_certificate`: the server's certificate in DER, where the connection is
    /// under TLS.
    pub fn new(user: &str, credentials: Credentials, server_certificate: Option<&[u8]>) -> Self {
        let tls = server_certificate.is_some();
        Self {
            user: user.to_owned(),
            credentials,
            binding: server_certificate.and_then(ChannelBinding::of),
            rules: LoginRules { cleartext: tls, binding: Binding::Prefer },
            bound: false,
            state: State::Fresh,
        }
    }

    /// Under other rules than: the password in the clear over TLS only, channel binding preferred.
    #[must_use]
    pub fn rules(self, rules: LoginRules) -> Self {
        Self { rules, ..self }
    }

    /// The body of the server's `R` message.
    pub fn on(&mut self, body: &[u8], out: &mut Vec<u8>) -> LoginStep {
        let asked = match Authentication::read(body) {
            Ok(asked) => asked,
            Err(_) => return LoginStep::Failed(LoginError::Protocol("malformed message")),
        };
        let state = std::mem::replace(&mut self.state, State::Over);
        let step = match (asked, state) {
            (Authentication::Ok, State::Fresh | State::Answered) => self.admitted(),
            (Authentication::CleartextPassword, State::Fresh) => self.cleartext(out),
            (Authentication::Md5Password { salt }, State::Fresh) => self.md5(salt, out),
            (Authentication::Sasl(list), State::Fresh) => self.hello(list, out),
            (Authentication::SaslContinue(data), State::Hello(hello)) => {
                self.challenged(hello, data, out)
            }
            (Authentication::SaslFinal(data), State::Proved(expected)) => {
                self.finished(&expected, data)
            }
            (Authentication::Other(code), State::Fresh) => Err(LoginError::Method(code)),
            // An Ok amid SCRAM, before the server has proved itself, among others.
            _ => Err(LoginError::Protocol("a message out of turn")),
        };
        step.unwrap_or_else(LoginStep::Failed)
    }

    fn admitted(&self) -> Result<LoginStep, LoginError> {
        match self.rules.binding {
            Binding::Require if !self.bound => Err(LoginError::Unbound("lets Weir in without it")),
            _ => Ok(LoginStep::Done),
        }
    }

    fn cleartext(&mut self, out: &mut Vec<u8>) -> Result<LoginStep, LoginError> {
        let password = self.password("the password in the clear")?;
        if !self.rules.cleartext {
            return Err(LoginError::Cleartext);
        }
        put_password(out, password.expose());
        self.state = State::Answered;
        Ok(LoginStep::More)
    }

    fn md5(&mut self, salt: [u8; 4], out: &mut Vec<u8>) -> Result<LoginStep, LoginError> {
        let made;
        let verifier = match &self.credentials {
            Credentials::Md5(verifier) => verifier,
            _ => {
                made = Md5Verifier::make(&self.user, self.password("an md5 digest")?);
                &made
            }
        };
        put_password(out, &md5::answer(verifier, salt));
        self.state = State::Answered;
        Ok(LoginStep::More)
    }

    /// The password; none goes out where the channel must be bound and isn't.
    fn password(&self, method: &'static str) -> Result<&Secret, LoginError> {
        if self.rules.binding == Binding::Require {
            return Err(LoginError::Unbound("asks for a password without it"));
        }
        match &self.credentials {
            Credentials::Password(password) => Ok(password),
            _ => Err(self.no_credentials(method)),
        }
    }

    fn hello(&mut self, list: &[u8], out: &mut Vec<u8>) -> Result<LoginStep, LoginError> {
        if !matches!(self.credentials, Credentials::Password(_) | Credentials::Scram(_)) {
            return Err(self.no_credentials("SCRAM"));
        }
        let offers = |name: &str| mechanisms(list).any(|offered| offered == name.as_bytes());
        let digest = self.binding.as_ref().map(ChannelBinding::digest);
        let can_bind = digest.filter(|_| self.rules.binding != Binding::Disable);
        let flag = match can_bind {
            Some(digest) if offers(MECHANISM_PLUS) => Flag::Bound(digest),
            _ if self.rules.binding == Binding::Require => {
                return Err(LoginError::Unbound("does not offer it, or has no certificate for it"));
            }
            Some(_) => Flag::Possible,
            None => Flag::None,
        };
        self.bound = matches!(flag, Flag::Bound(_));
        if !self.bound && !offers(MECHANISM) {
            return Err(LoginError::Protocol("no SASL mechanism that is known here"));
        }
        let nonce = scram::nonce().ok_or(LoginError::Random)?;
        let (hello, message) = client::begin(flag, &nonce);
        let mechanism = if self.bound { MECHANISM_PLUS } else { MECHANISM };
        put_sasl_initial(out, mechanism, message.as_bytes());
        self.state = State::Hello(hello);
        Ok(LoginStep::More)
    }

    fn challenged(
        &mut self,
        hello: Hello,
        data: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<LoginStep, LoginError> {
        let challenge = hello.challenged(data).map_err(|fault| LoginError::Protocol(fault.0))?;
        match &self.credentials {
            Credentials::Scram(login) => {
                if *login.salt != *challenge.salt || login.iterations.get() != challenge.iterations
                {
                    return Err(LoginError::OtherVerifier(self.user.clone()));
                }
                let ScramLogin { client_key, stored_key, server_key, .. } = *login;
                self.prove(challenge, &Keys { client_key, stored_key, server_key }, out);
                Ok(LoginStep::More)
            }
            Credentials::Password(password) => {
                let (salt, iterations) = (&challenge.salt, challenge.iterations);
                let derivation = Derivation::new(password.clone(), salt, iterations);
                self.state = State::Deriving(challenge);
                Ok(LoginStep::Derive(derivation))
            }
            _ => Err(self.no_credentials("SCRAM")),
        }
    }

    /// The keys that [`LoginStep::Derive`] asked for.
    pub fn derived(&mut self, keys: &Keys, out: &mut Vec<u8>) -> LoginStep {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Deriving(challenge) => {
                self.prove(challenge, keys, out);
                LoginStep::More
            }
            _ => LoginStep::Failed(LoginError::Protocol("keys that were not asked for")),
        }
    }

    fn prove(&mut self, challenge: Challenge, keys: &Keys, out: &mut Vec<u8>) {
        let (expected, message) = challenge.prove(keys);
        put_sasl_response(out, message.as_bytes());
        self.state = State::Proved(expected);
    }

    fn finished(&mut self, expected: &Expected, data: &[u8]) -> Result<LoginStep, LoginError> {
        match expected.check(data) {
            Ok(true) => {
                self.state = State::Answered;
                Ok(LoginStep::More)
            }
            Ok(false) => Err(LoginError::Impostor(self.user.clone())),
            Err(fault) => Err(LoginError::Protocol(fault.0)),
        }
    }

    fn no_credentials(&self, method: &'static str) -> LoginError {
        LoginError::NoCredentials { user: self.user.clone(), method }
    }
}
