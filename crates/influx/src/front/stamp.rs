//! The tags that a client's points get, so that writers who know nothing of one another never
//! overwrite each other's points.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::SocketAddr;

use wire::line::{StampError, StampTag};

use crate::settings::StampValue;

/// The tags that the configuration has points stamped with.
#[derive(Debug, Default)]
pub struct StampRules {
    values: BTreeMap<String, String>,
    /// Whether the tags differ from one client to another.
    pub by_peer: bool,
}

impl StampRules {
    /// The tags that `[influx.stamp]` names.
    pub fn of(settings: &BTreeMap<String, String>) -> Self {
        let is_by_peer = |value: &String| {
            matches!(StampValue::of(value), StampValue::Peer | StampValue::PeerPort)
        };
        Self { values: settings.clone(), by_peer: settings.values().any(is_by_peer) }
    }
}

/// The tags of one connection's points.
#[derive(Debug, Default)]
pub struct Stamp {
    /// Those that all of its points get.
    tags: Vec<StampTag>,
    /// Those that differ from one write to another, by their keys.
    by_write: Vec<(String, WritePart)>,
}

/// What of a write is a tag's value.
#[derive(Debug)]
enum WritePart {
    User,
    /// The parameter of this name.
    Parameter(String),
}

impl Stamp {
    /// The configured tags for a client. A tag that cannot be written in line protocol was refused
    /// when the configuration was read, so none is lost here.
    pub fn of(rules: &StampRules, peer: SocketAddr) -> Self {
        let mut stamp = Self::default();
        for (key, value) in &rules.values {
            let value = match StampValue::of(value) {
                StampValue::Peer => peer.ip().to_canonical().to_string(),
                StampValue::PeerPort => format!("{}:{}", peer.ip().to_canonical(), peer.port()),
                StampValue::Fixed(text) => text.to_owned(),
                StampValue::User => {
                    stamp.by_write.push((key.clone(), WritePart::User));
                    continue;
                }
                StampValue::Parameter(name) => {
                    let part = WritePart::Parameter(name.to_owned());
                    stamp.by_write.push((key.clone(), part));
                    continue;
                }
            };
            stamp.tags.extend(StampTag::new(key, &value));
        }
        stamp
    }

    /// The tags that do not depend on a write, in the order of their keys.
    pub fn tags(&self) -> &[StampTag] {
        &self.tags
    }

    /// The tags of the points of a write by `user` with these parameters (a URL's query string), in
    /// the order of their keys. A value that is absent or empty leaves its tag out.
    ///
    /// # Errors
    /// Where a value cannot be a tag's.
    pub fn tags_for(
        &self,
        user: Option<&str>,
        query: &str,
    ) -> Result<Cow<'_, [StampTag]>, StampError> {
        if self.by_write.is_empty() {
            return Ok(Cow::Borrowed(&self.tags));
        }
        let mut tags = self.tags.clone();
        for (key, part) in &self.by_write {
            let value = match part {
                WritePart::User => user.map(Cow::Borrowed),
                WritePart::Parameter(name) => parameter(query, name),
            };
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                tags.push(StampTag::new(key, &value)?);
            }
        }
        tags.sort_by(|a, b| a.key().cmp(b.key()));
        Ok(Cow::Owned(tags))
    }
}

/// The first value of that name that is not empty.
fn parameter<'a>(query: &'a str, name: &str) -> Option<Cow<'a, str>> {
    let mut values = form_urlencoded::parse(query.as_bytes());
    values.find(|(known, value)| known == name && !value.is_empty()).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(
        settings: &[(&str, &str)],
        user: Option<&str>,
        query: &str,
    ) -> Result<String, StampError> {
        let settings = settings.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let stamp = Stamp::of(&StampRules::of(&settings), "[::ffff:10.0.0.7]:99".parse().unwrap());
        let tags = stamp.tags_for(user, query)?;
        Ok(tags.iter().map(|tag| String::from_utf8_lossy(tag.encoded())).collect())
    }

    #[test]
    fn tags_are_of_the_connection_and_of_the_write() {
        let all = [
            ("a", "parameter:run"),
            ("b", "peer"),
            ("c", "user"),
            ("d", "peer-port"),
            ("e", "rack 7"),
        ];
        let both = tags(&all, Some("ann"), "db=d&run=x%20y&run=z").unwrap();
        assert_eq!(both, ",a=x\\ y,b=10.0.0.7,c=ann,d=10.0.0.7:99,e=rack\\ 7");
        let neither = tags(&all, None, "db=d&run=").unwrap();
        assert_eq!(neither, ",b=10.0.0.7,d=10.0.0.7:99,e=rack\\ 7");
        assert_eq!(tags(&[("a", "parameter:run")], None, "run=&run=z").unwrap(), ",a=z");
        assert_eq!(tags(&[], Some("ann"), "run=1").unwrap(), "");
    }

    #[test]
    fn a_value_that_cannot_be_a_tag_is_refused() {
        for query in
            ["run=a%5Cb".to_owned(), "run=%0A".to_owned(), format!("run={}", "x".repeat(2000))]
        {
            assert!(tags(&[("a", "parameter:run")], None, &query).is_err(), "{query}");
        }
    }
}
