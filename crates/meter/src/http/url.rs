//! Where a URL leads.

use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

/// The longest URL.
const LEN_MAX: usize = 8192;

/// What names of secrets have in them.
const SECRET_NAMES: [&str; 7] = ["auth", "cred", "key", "pass", "secret", "sig", "token"];

/// A URL of HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    tls: bool,
    credentials: Option<String>,
    host: String,
    port: u16,
    target: String,
}

/// A URL can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{url:?}: {what}; write it as http://host:port/path")]
pub struct UrlError {
    url: String,
    what: &'static str,
}

impl Url {
    /// Whether it is reached by TLS.
    pub fn is_tls(&self) -> bool {
        self.tls
    }

    /// Its host, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What is asked of the server: the path with the query.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// It without a name and password, and without what is secret in its query: the values of
    /// parameters that are named as secrets are, and of those that speak of a password.
    pub fn without_secrets(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        let host =
            if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let (path, query) = match self.target.split_once('?') {
            None => (&*self.target, String::new()),
            Some((path, query)) => {
                let shown = query.split('&').map(without_secret).collect::<Vec<_>>().join("&");
                (path, format!("?{shown}"))
            }
        };
        format!("{scheme}://{host}:{}{path}{query}", self.port)
    }

    /// What `Host` says.
    pub(super) fn authority(&self) -> String {
        let usual = if self.tls { 443 } else { 80 };
        let host =
            if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == usual { host } else { format!("{host}:{}", self.port) }
    }

    pub(super) fn authorization(&self) -> Option<String> {
        let credentials = self.credentials.as_ref()?;
        Some(format!("Basic {}", BASE64.encode(credentials)))
    }
}

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let wrong = |what| UrlError { url: without_password(text), what };
        if text.len() > LEN_MAX {
            return Err(UrlError { url: text.chars().take(40).collect(), what: "it is too long" });
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(wrong("it has blanks, or letters that must be percent-encoded"));
        }
        let (tls, rest) = match text.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            Some(_) => return Err(wrong("only http and https can be loaded")),
            None => return Err(wrong("it has no scheme")),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        let (credentials, authority) = match authority.rsplit_once('@') {
            Some((credentials, rest)) => (Some(credentials.to_owned()), rest),
            None => (None, authority),
        };
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            _ => (authority, None),
        };
        let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() {
            return Err(wrong("it has no host"));
        }
        let port = match port {
            None => {
                if tls {
                    443
                } else {
                    80
                }
            }
            Some(port) => port.parse().map_err(|_| wrong("its port is no number up to 65535"))?,
        };
        let slash = if target.starts_with('/') { "" } else { "/" };
        let target = format!("{slash}{target}");
        Ok(Self { tls, credentials, host: host.to_owned(), port, target })
    }
}

/// A parameter of a query as it may be shown.
fn without_secret(parameter: &str) -> String {
    let Some((name, value)) = parameter.split_once('=') else { return parameter.to_owned() };
    let (lower, spoken) = (name.to_ascii_lowercase(), value.to_ascii_lowercase());
    let is_secret = lower == "p"
        || lower.contains('%')
        || SECRET_NAMES.iter().any(|part| lower.contains(part))
        || spoken.contains("pass");
    if is_secret { format!("{name}=...") } else { parameter.to_owned() }
}

/// A URL as it may be shown.
fn without_password(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://...@{rest}"),
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::proptest;

    use super::Url;

    #[test]
    fn a_url_is_read_as_it_is_meant() {
        for (text, tls, host, port, target, authority) in [
            ("http://h", false, "h", 80, "/", "h"),
            ("http://h:81/p?q#f", false, "h", 81, "/p?q", "h:81"),
            ("https://h?q=1", true, "h", 443, "/?q=1", "h"),
            ("http://[::1]:8086/ping", false, "::1", 8086, "/ping", "[::1]:8086"),
            ("http://[::1]/", false, "::1", 80, "/", "[::1]"),
        ] {
            let url: Url = text.parse().unwrap();
            assert_eq!((url.tls, &*url.host, url.port, &*url.target), (tls, host, port, target));
            assert_eq!(url.authority(), authority);
        }
    }

    #[test]
    fn what_can_not_be_loaded_says_why_and_shows_no_password() {
        for (text, word) in [
            ("h/p", "no scheme"),
            ("ftp://h", "only http"),
            ("http://", "no host"),
            ("http://h:99999", "port"),
            ("http://h/a b", "blanks"),
            ("http://ann:secret@h:x", "port"),
        ] {
            let error = text.parse::<Url>().unwrap_err().to_string();
            assert!(error.contains(word) && !error.contains("secret"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(https?://)?.{0,30}") {
            let _ = text.parse::<Url>();
        }
    }
}
