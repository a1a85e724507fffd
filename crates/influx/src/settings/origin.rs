//! Origins of web pages, as the configuration names them.

use http::uri::Authority;

/// Stands for every origin in the configuration.
pub const ANY: &str = "*";

/// Whether the configuration's text is an origin as browsers send it.
pub fn is_origin(text: &str) -> bool {
    let place = text.split_once("://").filter(|(scheme, _)| !scheme.is_empty());
    text == ANY
        || place.is_some_and(|(_, place)| {
            !place.contains(['/', '@', ' ']) && place.parse::<Authority>().is_ok()
        })
}

#[cfg(test)]
mod tests {
    use super::is_origin;

    #[test]
    fn an_origin_has_a_scheme_and_a_host_and_no_path() {
        for good in ["*", "http://a", "https://a.b:8443", "http://[::1]:3000", "app://x"] {
            assert!(is_origin(good), "{good}");
        }
        for bad in ["", "a", "a.b:8443", "http://a/", "http://", "://a", "http://a b", "http://u@a"]
        {
            assert!(!is_origin(bad), "{bad}");
        }
    }
}
