//! URLs as a registry of Dubbo has them (`org.apache.dubbo.common.URL`): one for each provider, and
//! one for each rule that overrides parameters of providers. ZooKeeper keeps each as the name of a
//! node, percent-encoded.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;

use crate::url::host_and_port;

/// Bytes of a node's name; a longer one is not read.
const NAME_BYTES_MAX: usize = 64 * 1024;
/// What a service without a version may be called.
pub const NO_VERSION: &str = "0.0.0";
/// The value that stands for all others.
pub const ANY: &str = "*";
/// The host that stands for all others.
const ANY_HOST: &str = "0.0.0.0";

/// A URL of a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryUrl {
    /// `dubbo`, `tri`, `override` and others.
    pub protocol: String,
    /// A name or an address, without brackets.
    pub host: String,
    /// 0 where there is none.
    pub port: u16,
    /// The interface, and what a provider may have put in front of it.
    pub path: String,
    parameters: BTreeMap<String, String>,
}

impl RegistryUrl {
    /// Reads the name of a node; nothing where that is no URL.
    pub fn of_node(name: &str) -> Option<Self> {
        if name.len() > NAME_BYTES_MAX {
            return None;
        }
        // Java's `URLEncoder` writes blanks so.
        let blanks = name.replace('+', " ");
        Self::parse(&percent_decode_str(&blanks).decode_utf8().ok()?)
    }

    /// Reads a URL that is not encoded.
    fn parse(text: &str) -> Option<Self> {
        let (protocol, rest) = text.split_once("://")?;
        let (address, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = address.split_once('/').unwrap_or((address, ""));
        let (_, authority) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (host, port) = host_and_port(authority, 0).ok().filter(|_| !protocol.is_empty())?;
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        Some(Self {
            protocol: protocol.to_owned(),
            host,
            port,
            path: path.to_owned(),
            parameters: pairs.map(|(name, value)| (name.into(), value.trim().into())).collect(),
        })
    }

    /// A parameter that has a value.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// All parameters, by their names.
    pub fn parameters(&self) -> impl Iterator<Item = (&str, &str)> {
        self.parameters.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Puts a value in the place of the one that a parameter has.
    pub fn set_parameter(&mut self, name: &str, value: &str) {
        self.parameters.insert(name.to_owned(), value.to_owned());
    }

    /// Whether a parameter says `true`; `usual` where there is none.
    pub fn is_true(&self, name: &str, usual: bool) -> bool {
        self.parameter(name).map_or(usual, |value| value.eq_ignore_ascii_case("true"))
    }

    /// The items of a parameter that is a list.
    pub fn items(&self, name: &str) -> impl Iterator<Item = &str> {
        let list = self.parameter(name).unwrap_or_default();
        list.split(',').map(str::trim).filter(|item| !item.is_empty())
    }

    /// Whether it is of every host.
    pub fn is_of_any_host(&self) -> bool {
        self.host == ANY_HOST
    }

    /// The version of the service, where it has one.
    pub fn version(&self) -> Option<&str> {
        self.parameter("version").filter(|version| *version != NO_VERSION)
    }

    /// The group of the service, where it has one.
    pub fn group(&self) -> Option<&str> {
        self.parameter("group")
    }
}

/// The service that is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// The Java interface by its full name.
    pub interface: String,
    /// Nothing is a service without one, `*` any.
    pub version: Option<String>,
    /// Nothing is a service without one, `*` any.
    pub group: Option<String>,
}

impl Service {
    /// Whether a URL is of this service, as `UrlUtils.isMatch` of Dubbo decides it.
    pub fn is_of(&self, url: &RegistryUrl) -> bool {
        let group = url.group();
        let own_group = self.group.as_deref();
        let is_listed = || own_group.is_some_and(|own| url.items("group").any(|item| item == own));
        let version = self.version.as_deref().filter(|version| *version != NO_VERSION);
        (own_group == Some(ANY) || own_group == group || is_listed())
            && (version == Some(ANY) || version == url.version())
    }
}

#[cfg(test)]
mod tests {
    use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
    use proptest::prelude::*;

    use super::{RegistryUrl, Service};

    #[test]
    fn a_node_is_read_as_a_provider_has_registered_it() {
        let name = "dubbo%3A%2F%2F10.0.0.7%3A20880%2Fcom.acme.Orders%3Fanyhost%3Dtrue%26group%3Deu\
                    %26methods%3Dfind%2Csave%26owner%3Dann+and%2520bob%26version%3D1.0";
        let url = RegistryUrl::of_node(name).unwrap();
        assert_eq!((&*url.protocol, &*url.host, url.port), ("dubbo", "10.0.0.7", 20880));
        assert_eq!(
            (&*url.path, url.version(), url.group()),
            ("com.acme.Orders", Some("1.0"), Some("eu"))
        );
        assert_eq!(url.items("methods").collect::<Vec<_>>(), ["find", "save"]);
        // It is encoded once: what is in it encoded stays so.
        assert_eq!(url.parameter("owner"), Some("ann and%20bob"));
        assert!(url.is_true("anyhost", false) && url.is_true("enabled", true));
        let url = RegistryUrl::of_node("override://u:p@[fd00::1]?x&y=").unwrap();
        assert_eq!(
            (&*url.host, url.port, &*url.path, url.parameter("y")),
            ("fd00::1", 0, "", None)
        );
    }

    #[test]
    fn what_is_no_url_is_nothing() {
        for name in ["", "x", "://h", "dubbo://", "dubbo://h:99999/i", "%ff%fe://h"] {
            assert_eq!(RegistryUrl::of_node(name), None, "{name}");
        }
        assert_eq!(RegistryUrl::of_node(&format!("dubbo://h/{}", "x".repeat(1 << 16))), None);
    }

    #[test]
    fn a_service_is_told_by_version_and_group() {
        let service = |version: Option<&str>, group: Option<&str>| Service {
            interface: "i".into(),
            version: version.map(Into::into),
            group: group.map(Into::into),
        };
        for (version, group, query, is_of) in [
            (None, None, "", true),
            (None, None, "version=0.0.0", true),
            (Some("0.0.0"), None, "", true),
            (None, None, "version=1.0", false),
            (Some("1.0"), None, "version=1.0", true),
            (Some("1.0"), None, "version=1.0&group=a", false),
            (Some("*"), None, "version=1.0", true),
            (Some("*"), None, "", true),
            (Some("1.0"), Some("a"), "version=1.0&group=a", true),
            (None, Some("a"), "group=b,a", true),
            (None, Some("*"), "group=b", true),
            (None, Some("*"), "", true),
        ] {
            let url = RegistryUrl::of_node(&format!("dubbo://h:1/i?{query}")).unwrap();
            assert_eq!(service(version, group).is_of(&url), is_of, "{version:?} {group:?} {query}");
        }
    }

    proptest! {
        /// No name of a node panics, and what was encoded is read back.
        #[test]
        fn any_name_is_read_or_refused(
            name in ".{0,60}",
            value in "[^&=?%+\\s]{1,9}",
        ) {
            let _ = RegistryUrl::of_node(&name);
            let text = format!("dubbo://h:1/i?own={value}");
            let encoded = utf8_percent_encode(&text, NON_ALPHANUMERIC).to_string();
            let url = RegistryUrl::of_node(&encoded).unwrap();
            prop_assert_eq!(url.parameter("own"), Some(&*value));
        }
    }
}
