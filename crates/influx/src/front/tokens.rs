//! JSON web tokens that name a user.

use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode};

#[derive(serde::Deserialize)]
struct Claims {
    username: Option<String>,
    nbf: Option<serde_json::Value>,
}

/// The name of the user that a token signed with `secret` is for. HMAC only, `exp` must be there,
/// `nbf` must have come, and a token that names an audience is for somebody else, as in InfluxDB
/// 1.8 (RFC 7519, section 4.1).
///
/// # Errors
/// Why the token is for nobody, in InfluxDB's words.
pub fn username(token: &str, secret: &str) -> Result<String, String> {
    let key = DecodingKey::from_secret(secret.as_bytes());
    let mut rules = Validation::new(Algorithm::HS256);
    rules.algorithms = vec![Algorithm::HS256, Algorithm::HS384, Algorithm::HS512];
    rules.leeway = 0;
    rules.validate_nbf = true;
    rules.validate_aud = true;
    let decoded = decode::<Claims>(token, &key, &rules);
    let claims = decoded.map_err(|error| words_for(&error))?.claims;
    if claims.nbf.is_some_and(|nbf| !nbf.is_number()) {
        return Err("invalid token: nbf is not a number".to_owned());
    }
    match claims.username {
        None => Err("username in token must be a string".to_owned()),
        Some(name) if name.is_empty() => Err("token must contain a username".to_owned()),
        Some(name) => Ok(name),
    }
}

fn words_for(error: &Error) -> String {
    match error.kind() {
        ErrorKind::ExpiredSignature => "Token is expired".to_owned(),
        ErrorKind::ImmatureSignature => "token is not valid yet".to_owned(),
        ErrorKind::InvalidAudience => "the token is for another audience".to_owned(),
        ErrorKind::InvalidSignature => "signature is invalid".to_owned(),
        ErrorKind::MissingRequiredClaim(claim) if claim == "exp" => {
            "token expiration required".to_owned()
        }
        _ => format!("invalid token: {error}"),
    }
}
