//! A bearer token of the configuration.

use ring::hmac;

/// A token that clients show. It is kept as a tag under a key of this process alone, and compared
/// in the same time wherever it differs.
#[derive(Debug)]
pub struct Token {
    key: hmac::Key,
    tag: hmac::Tag,
}

impl Token {
    /// The token that is the right one.
    pub fn new(token: &str) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &rand::random::<[u8; 32]>());
        let tag = hmac::sign(&key, token.as_bytes());
        Self { key, tag }
    }

    /// Whether a client has shown it.
    pub fn is(&self, shown: &str) -> bool {
        hmac::verify(&self.key, shown.as_bytes(), self.tag.as_ref()).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::Token;

    #[test]
    fn the_token_is_itself_and_nothing_else() {
        let token = Token::new("secret");
        assert!(token.is("secret"));
        for other in ["", "secre", "secret ", "Secret"] {
            assert!(!token.is(other), "{other}");
        }
    }
}
