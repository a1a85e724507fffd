//! Where a URL leads.

use std::str::FromStr;

use flow::tls::Check;
use percent_encoding::percent_decode_str;

const LEN_MAX: usize = 8192;

/// What names of secrets have in them.
const SECRET_NAMES: [&str; 7] = ["auth", "cred", "key", "pass", "secret", "sig", "token"];

/// Which protocol a URL is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// `http`, or `https` with TLS.
    Http,
    /// `postgres` or `postgresql`, with TLS where `sslmode` asks for it.
    Postgres,
    /// `redis`, or `rediss` with TLS.
    Redis,
    /// `dubbo`: a provider that is reached directly.
    Dubbo,
    /// `zookeeper`: a registry of Dubbo's providers.
    ZooKeeper,
}

/// The names of schemes, whether they are under TLS, and the ports that they mean.
const SCHEMES: [(&str, Scheme, bool, u16); 8] = [
    ("http", Scheme::Http, false, 80),
    ("https", Scheme::Http, true, 443),
    ("postgres", Scheme::Postgres, false, 5432),
    ("postgresql", Scheme::Postgres, false, 5432),
    ("redis", Scheme::Redis, false, 6379),
    ("rediss", Scheme::Redis, true, 6379),
    ("dubbo", Scheme::Dubbo, false, 20880),
    ("zookeeper", Scheme::ZooKeeper, false, 2181),
];

/// Where a load goes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    scheme: Scheme,
    tls: Option<Check>,
    user: Option<String>,
    password: Option<String>,
    /// One at least; a registry may have several.
    hosts: Vec<(String, u16)>,
    /// Whether the port is the one that the scheme means.
    is_usual_port: bool,
    target: String,
}

/// A URL can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{url:?}: {what}; write it as http://host:port/path, \
         postgres://host:port/database, redis://host:port/database, dubbo://host:port/interface \
         or zookeeper://host:port/interface"
)]
pub struct UrlError {
    url: String,
    what: &'static str,
}

impl Url {
    /// Which protocol is spoken there.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// What must be right about the server's certificate, where it is reached by TLS.
    pub fn tls(&self) -> Option<Check> {
        self.tls
    }

    /// Its host, without brackets.
    pub fn host(&self) -> &str {
        self.hosts.first().map_or("", |(host, _)| host)
    }

    pub fn port(&self) -> u16 {
        self.hosts.first().map_or(0, |(_, port)| *port)
    }

    /// All hosts with their ports: a registry may have several.
    pub fn hosts(&self) -> impl Iterator<Item = (&str, u16)> {
        self.hosts.iter().map(|(host, port)| (&**host, *port))
    }

    /// Who logs in; nothing where none is named.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref().filter(|user| !user.is_empty())
    }

    pub fn password(&self) -> Option<&str> {
        self.password.as_deref()
    }

    /// What is asked of the server: the path with the query.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// The path, decoded; nothing where it is not UTF-8.
    pub fn path(&self) -> Option<String> {
        let (path, _) = self.target.split_once('?').unwrap_or((&self.target, ""));
        let decoded = percent_decode_str(path.trim_start_matches('/')).decode_utf8();
        decoded.ok().map(std::borrow::Cow::into_owned)
    }

    /// The names and values of its query as they are written.
    pub fn parameters(&self) -> impl Iterator<Item = (&str, &str)> {
        let (_, query) = self.target.split_once('?').unwrap_or_default();
        let parts = query.split('&').filter(|part| !part.is_empty());
        parts.map(|part| part.split_once('=').unwrap_or((part, "")))
    }

    /// The value of its query's parameter of that name, as it is written.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters().find(|(own, _)| *own == name).map(|(_, value)| value)
    }

    /// It without a name and password, and without what is secret in its query: the values of
    /// parameters that are named as secrets are, and of those that speak of a password.
    pub fn without_secrets(&self) -> String {
        let is_own = |(_, scheme, tls, _): &&(&str, Scheme, bool, u16)| {
            *scheme == self.scheme && (*tls == self.tls.is_some() || *scheme == Scheme::Postgres)
        };
        let scheme = SCHEMES.iter().find(is_own).map_or("", |(name, ..)| name);
        let hosts = self.hosts().map(|(host, port)| match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        });
        let hosts = hosts.collect::<Vec<_>>().join(",");
        let (path, query) = match self.target.split_once('?') {
            None => (&*self.target, String::new()),
            Some((path, query)) => {
                let shown = query.split('&').map(without_secret).collect::<Vec<_>>().join("&");
                (path, format!("?{shown}"))
            }
        };
        format!("{scheme}://{hosts}{path}{query}")
    }

    /// Whether another one leads to the same server in the same way.
    pub fn is_same_server(&self, other: &Self) -> bool {
        self.scheme == other.scheme
            && self.tls == other.tls
            && self.hosts.len() == other.hosts.len()
            && self.hosts().zip(other.hosts()).all(|((host, port), (other, other_port))| {
                host.eq_ignore_ascii_case(other) && port == other_port
            })
    }

    /// A URL as it may be shown.
    pub fn shown(text: &str) -> String {
        without_password(text)
    }

    /// Host and port as HTTP's `Host` says them.
    pub fn authority(&self) -> String {
        let host = match self.host() {
            host if host.contains(':') => format!("[{host}]"),
            host => host.to_owned(),
        };
        if self.is_usual_port { host } else { format!("{host}:{}", self.port()) }
    }
}

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let wrong = |what| UrlError { url: without_password(text), what };
        if text.len() > LEN_MAX {
            return Err(UrlError { url: text.chars().take(40).collect(), what: "it is too long" });
        }
        // Gaps, as {{random 1 9}}, are filled before anything is sent.
        let mut outside =
            text.split("{{").enumerate().map(|(at, part)| match part.split_once("}}") {
                Some((_, behind)) if at > 0 => behind,
                _ => part,
            });
        if !outside.all(|part| part.bytes().all(|byte| byte.is_ascii_graphic())) {
            return Err(wrong("it has blanks, or letters that must be percent-encoded"));
        }
        let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong("it has no scheme"))?;
        let known = SCHEMES.iter().find(|(name, ..)| *name == scheme);
        let (_, scheme, tls, usual_port) = *known.ok_or_else(|| {
            wrong("only http, https, postgres, redis, rediss, dubbo and zookeeper can be loaded")
        })?;
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        let (credentials, authority) = match authority.rsplit_once('@') {
            Some((credentials, rest)) => (Some(credentials), rest),
            None => (None, authority),
        };
        let (user, password) = match credentials.map(|both| both.split_once(':').ok_or(both)) {
            None => (None, None),
            Some(Err(user)) => (Some(user), None),
            Some(Ok((user, password))) => (Some(user), Some(password)),
        };
        let decoded = |part: Option<&str>| {
            let decoded = part.map(|part| percent_decode_str(part).decode_utf8());
            let decoded =
                decoded.transpose().map_err(|_| wrong("user or password is not UTF-8"))?;
            Ok(decoded.map(|text| text.into_owned()))
        };
        let authorities = match scheme {
            Scheme::ZooKeeper => authority.split(',').collect(),
            _ => vec![authority],
        };
        let hosts = authorities.iter().map(|authority| host_and_port(authority, usual_port));
        let hosts = hosts.collect::<Result<Vec<_>, _>>().map_err(wrong)?;
        let slash = if target.starts_with('/') { "" } else { "/" };
        let mut url = Self {
            scheme,
            tls: tls.then_some(Check::Name),
            user: decoded(user)?,
            password: decoded(password)?,
            is_usual_port: hosts.iter().all(|(_, port)| *port == usual_port),
            hosts,
            target: format!("{slash}{target}"),
        };
        if scheme == Scheme::Postgres {
            url.tls = sslmode(&url).map_err(wrong)?;
        }
        Ok(url)
    }
}

/// A host without brackets, and its port.
pub(crate) fn host_and_port(
    authority: &str,
    usual_port: u16,
) -> Result<(String, u16), &'static str> {
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    };
    let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    if host.is_empty() {
        return Err("it has no host");
    }
    let port = port.map_or(Ok(usual_port), str::parse);
    Ok((host.to_owned(), port.map_err(|_| "its port is not a number up to 65535")?))
}

/// What `sslmode` means, as libpq has it. Those that may end up in the clear are none of ours: what
/// is measured would not be known.
fn sslmode(url: &Url) -> Result<Option<Check>, &'static str> {
    let mut tls = None;
    for (name, value) in url.parameters() {
        tls = match (name, value) {
            ("sslmode", "disable") => None,
            ("sslmode", "require") => Some(Check::Nothing),
            ("sslmode", "verify-ca") => Some(Check::Authority),
            ("sslmode", "verify-full") => Some(Check::Name),
            ("sslmode", _) => return Err("sslmode is disable, require, verify-ca or verify-full"),
            _ => return Err("its query may have sslmode only"),
        };
    }
    Ok(tls)
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

    use super::{Check, Scheme, Url};

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
            assert_eq!(
                (url.tls.is_some(), url.host(), url.port(), &*url.target),
                (tls, host, port, target)
            );
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

    #[test]
    fn users_and_passwords_are_percent_decoded() {
        let url: Url = "rediss://ann:a%40b@h/3".parse().unwrap();
        assert_eq!((url.user(), url.password()), (Some("ann"), Some("a@b")));
        assert_eq!(
            (url.scheme(), url.tls.is_some(), url.port(), &*url.target),
            (Scheme::Redis, true, 6379, "/3")
        );
        let url: Url = "redis://:secret@h".parse().unwrap();
        assert_eq!((url.user(), url.password()), (None, Some("secret")));
        assert!("redis://%ff@h".parse::<Url>().is_err());
    }

    #[test]
    fn a_registry_may_have_several_hosts() {
        let url: Url = "zookeeper://ann:secret@a:1,b,[::1]:3/i?root=x".parse().unwrap();
        let hosts: Vec<_> = url.hosts().collect();
        assert_eq!(hosts, [("a", 1), ("b", 2181), ("::1", 3)]);
        assert_eq!(url.without_secrets(), "zookeeper://a:1,b:2181,[::1]:3/i?root=x");
        assert!("zookeeper://a,/i".parse::<Url>().is_err());
    }

    #[test]
    fn postgres_says_how_tls_is_checked_in_the_query() {
        let url = |query: &str| format!("postgres://h/a%20b{query}").parse::<Url>();
        assert_eq!((url("").unwrap().tls(), url("").unwrap().path()), (None, Some("a b".into())));
        assert_eq!(url("?sslmode=require").unwrap().tls(), Some(Check::Nothing));
        let checked = url("?sslmode=verify-full").unwrap();
        assert_eq!(checked.tls(), Some(Check::Name));
        assert_eq!(checked.without_secrets(), "postgres://h:5432/a%20b?sslmode=verify-full");
        for query in ["?sslmode=prefer", "?sslmode", "?options=-c"] {
            assert!(url(query).is_err(), "{query}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "((http|redis|postgres)s?://)?.{0,30}") {
            let _ = text.parse::<Url>();
        }
    }
}
