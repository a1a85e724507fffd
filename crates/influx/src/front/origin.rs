//! Which web pages may use the gateway. A browser sends what any page asks it to, to loopback and
//! into private networks, too, and a plain POST or a link without asking before: so a page must be
//! of the gateway's own origin, or named in the configuration.

use http::header::{self, HOST, HeaderName, HeaderValue, ORIGIN};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, Method, StatusCode};

use super::answer::{self, Answer};
use crate::settings::origin::ANY;

/// What a browser says of pages that sent a request without naming their origin, as by a link
/// (Fetch Metadata Request Headers, section 2.3).
pub const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The origins that are allowed besides the gateway's own.
#[derive(Debug, Default)]
pub struct Origins {
    any: bool,
    named: Vec<String>,
}

impl Origins {
    /// Those that the configuration names.
    pub fn of(cors: &[String]) -> Self {
        Self { any: cors.iter().any(|named| named == ANY), named: cors.to_vec() }
    }
}

/// Who a request comes from, as far as browsers tell.
#[derive(Debug, PartialEq, Eq)]
pub enum Page {
    /// No page, or one of the gateway's own origin that need not be told so.
    None,
    /// A page that may read the answer.
    Allowed(HeaderValue),
    /// A page of another origin.
    Foreign,
}

impl Page {
    /// The page behind a request.
    pub fn of(head: &Parts, tls: bool, allowed: &Origins) -> Self {
        let Origins { any, named } = allowed;
        let Some(origin) = head.headers.get(ORIGIN).filter(|origin| !origin.is_empty()) else {
            let site = head.headers.get(SEC_FETCH_SITE).map(HeaderValue::as_bytes);
            let other = matches!(site, Some(b"cross-site" | b"same-site"));
            return if other && !*any { Self::Foreign } else { Self::None };
        };
        let is_named = |text: &str| named.iter().any(|named| named.eq_ignore_ascii_case(text));
        let good = |text: &str| is_named(text) || is_own(text, head, tls);
        if *any || origin.to_str().is_ok_and(good) {
            Self::Allowed(origin.clone())
        } else {
            Self::Foreign
        }
    }

    /// The answer to a request that is not to be served: of a foreign page whatever may change
    /// something, `/query` by any method.
    pub fn refusal(&self, head: &Parts) -> Option<Answer> {
        let asks = matches!(head.method, Method::GET | Method::HEAD | Method::OPTIONS);
        let harmless = asks && !matches!(head.uri.path(), "/query" | "/write" | "/api/v2/write");
        if *self != Self::Foreign || harmless {
            return None;
        }
        let origin =
            head.headers.get(ORIGIN).map(|origin| String::from_utf8_lossy(origin.as_bytes()));
        let origin = origin.unwrap_or("another origin".into());
        let message = format!("web pages of {origin} are not allowed; see cors in [influx]");
        Some(answer::error(StatusCode::FORBIDDEN, &message))
    }

    /// Adds what the page's browser is to know.
    pub fn put_headers(self, headers: &mut HeaderMap) {
        if let Self::Allowed(origin) = self {
            answer::allow_origin(headers, origin);
            headers.append(header::VARY, HeaderValue::from_static("Origin"));
        }
    }
}

/// Whether an origin is the address that the client has asked. Before a proxy that speaks TLS for
/// the gateway, the page's scheme is another one; its port is then the scheme's own.
fn is_own(origin: &str, head: &Parts, tls: bool) -> bool {
    let Some((scheme, place)) = origin.split_once("://") else { return false };
    let port = match scheme {
        "https" => 443,
        "http" if !tls => 80,
        _ => return false,
    };
    let host = head.headers.get(HOST).and_then(|host| host.to_str().ok()?.parse().ok());
    let host: Option<Authority> = head.uri.authority().cloned().or(host);
    let Some((host, place)) = host.zip(place.parse::<Authority>().ok()) else { return false };
    let same_port = host.port_u16().unwrap_or(port) == place.port_u16().unwrap_or(port);
    same_port && host.host().eq_ignore_ascii_case(place.host())
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn head(fields: &[(&str, &str)]) -> Parts {
        let request = Request::post("/write?db=db");
        let with = |request: http::request::Builder, (name, value): &(&str, &str)| {
            request.header(*name, *value)
        };
        fields.iter().fold(request, with).body(()).unwrap().into_parts().0
    }

    /// In a word, what a page of `origin` is that asks `host`.
    fn page(origin: &str, host: &str, tls: bool, named: &[&str]) -> &'static str {
        let named: Vec<String> = named.iter().map(|&named| named.to_owned()).collect();
        match Page::of(&head(&[("Origin", origin), ("Host", host)]), tls, &Origins::of(&named)) {
            Page::None => "none",
            Page::Allowed(_) => "allowed",
            Page::Foreign => "foreign",
        }
    }

    #[test]
    fn a_page_of_the_same_host_and_port_is_allowed() {
        for (origin, host) in [
            ("http://127.0.0.1:8086", "127.0.0.1:8086"),
            ("http://LocalHost:8086", "localhost:8086"),
            ("http://[::1]:8086", "[::1]:8086"),
            ("http://weir", "weir"),
            ("http://weir", "weir:80"),
            ("https://weir", "weir:443"),
            // Behind a proxy that speaks TLS.
            ("https://weir.example.com", "weir.example.com"),
        ] {
            assert_eq!(page(origin, host, false, &[]), "allowed", "{origin} {host}");
        }
        assert_eq!(page("https://weir:8086", "weir:8086", true, &[]), "allowed");
    }

    #[test]
    fn any_other_page_is_foreign() {
        for (origin, host) in [
            ("http://evil.example.com", "127.0.0.1:8086"),
            ("http://127.0.0.1", "127.0.0.1:8086"),
            ("http://127.0.0.1:3000", "127.0.0.1:8086"),
            ("http://127.0.0.1:8086.evil.example.com", "127.0.0.1:8086"),
            ("http://evil.example.com/127.0.0.1:8086", "127.0.0.1:8086"),
            ("http://u@127.0.0.1:8086@evil", "127.0.0.1:8086"),
            ("http://weir:443", "weir"),
            ("null", "127.0.0.1:8086"),
            ("file://", "127.0.0.1:8086"),
            ("chrome-extension://127.0.0.1:8086", "127.0.0.1:8086"),
            ("127.0.0.1:8086", "127.0.0.1:8086"),
            ("http://weir", "no host at all"),
            ("http://", ""),
        ] {
            assert_eq!(page(origin, host, false, &[]), "foreign", "{origin} {host}");
        }
        assert_eq!(page("http://weir:8086", "weir:8086", true, &[]), "foreign", "in clear");
    }

    #[test]
    fn those_that_are_named_are_allowed_and_no_others() {
        let named = ["https://grafana.example.com", "http://localhost:3000"];
        for (origin, expected) in [
            ("https://grafana.example.com", "allowed"),
            ("http://localhost:3000", "allowed"),
            ("http://grafana.example.com", "foreign"),
            ("https://grafana.example.com:8443", "foreign"),
            ("https://grafana.example.com.evil", "foreign"),
        ] {
            assert_eq!(page(origin, "weir:8086", false, &named), expected, "{origin}");
            assert_eq!(page(origin, "weir:8086", false, &["*"]), "allowed", "{origin}");
        }
    }

    #[test]
    fn a_link_on_another_page_is_told_by_its_browser() {
        let link =
            |site| Page::of(&head(&[(SEC_FETCH_SITE.as_str(), site)]), false, &Origins::default());
        assert_eq!(link("cross-site"), Page::Foreign);
        assert_eq!(link("same-site"), Page::Foreign);
        assert_eq!(link("same-origin"), Page::None);
        assert_eq!(link("none"), Page::None);
        assert_eq!(Page::of(&head(&[]), false, &Origins::default()), Page::None);
    }
}
