//! Why a login fails.

/// Why Weir can't log in, or won't.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// There is none, or not of a kind that serves.
    #[error("the server asks user \"{user}\" for {method}, and there are no credentials for that")]
    NoCredentials {
        /// The user that Weir logs in as.
        user: String,
        /// What is asked for.
        method: &'static str,
    },
    /// It would be read on the way.
    #[error("the server asks for the password in the clear over an unencrypted connection")]
    Cleartext,
    /// The server's verifier is another one than the client was checked against.
    #[error(
        "the server's SCRAM verifier of user \"{0}\" is not the one that Weir holds: give the \
         backend a user and password, or copy the verifier from pg_authid"
    )]
    OtherVerifier(String),
    /// Someone may be in between.
    #[error("channel binding is required, but the server {0}")]
    Unbound(&'static str),
    /// The server doesn't have the verifier either.
    #[error("the server could not prove that it knows the password of user \"{0}\"")]
    Impostor(String),
    /// What the server sent is not the protocol's.
    #[error("the server's authentication: {0}")]
    Protocol(&'static str),
    /// Kerberos and the like.
    #[error("the server asks for an authentication method that is not known here (code {0})")]
    Method(i32),
    /// The system's source of random bytes failed.
    #[error("the machine gives no random bytes")]
    Random,
}
