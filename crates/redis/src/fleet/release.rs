//! Which release clients are told of, in `HELLO` and `INFO`: the least of a pool's servers, so that
//! nobody counts on what one of them does not have.

use crate::info::field;

/// The release whose commands Weir's list has: what is told before a server has said its own.
const LISTED: &str = "7.0.15";
/// Bytes of a version that is believed.
const VERSION_BYTES_MAX: usize = 32;

/// A release of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// The release of Redis that it is, or is compatible with.
    pub redis: String,
    /// Its own, where it is a Valkey.
    pub valkey: Option<String>,
}

impl Release {
    /// What a server says of itself in `INFO server`.
    pub fn read(info: &[u8]) -> Option<Self> {
        let version = |name| field(info, name).map(str::trim).filter(|text| is_version(text));
        let redis = version("redis_version")?.to_owned();
        Some(Self { redis, valkey: version("valkey_version").map(str::to_owned) })
    }

    /// What holds for each of these servers. They are a Valkey if all of them are.
    pub fn least<'a>(all: impl Iterator<Item = &'a Self> + Clone) -> Self {
        let least = |of: &mut dyn Iterator<Item = &'a String>| of.min_by_key(|of| numbers(of));
        let redis = least(&mut all.clone().map(|of| &of.redis));
        let are_valkey = all.clone().all(|of| of.valkey.is_some());
        let valkey = least(&mut all.filter_map(|of| of.valkey.as_ref()));
        Self {
            redis: redis.map_or_else(|| LISTED.to_owned(), Clone::clone),
            valkey: valkey.filter(|_| are_valkey).cloned(),
        }
    }

    /// What `HELLO` calls the server, and its version.
    pub fn named(&self) -> (&'static str, &str) {
        self.valkey.as_ref().map_or(("redis", &*self.redis), |version| ("valkey", version))
    }
}

fn is_version(text: &str) -> bool {
    let is_usual = |c: char| c.is_ascii_alphanumeric() || ".-".contains(c);
    text.len() <= VERSION_BYTES_MAX
        && text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(is_usual)
}

/// Its numbers in order; what is behind a hyphen, as `-rc1`, comes before the release.
fn numbers(version: &str) -> (Vec<u64>, bool) {
    let (release, candidate) = version.split_once('-').unwrap_or((version, ""));
    let number = |text: &str| text.parse().unwrap_or(0);
    (release.split('.').map(number).collect(), candidate.is_empty())
}

#[cfg(test)]
mod tests {
    use super::Release;

    fn release(redis: &str, valkey: Option<&str>) -> Release {
        Release { redis: redis.to_owned(), valkey: valkey.map(str::to_owned) }
    }

    #[test]
    fn a_server_says_its_own() {
        let of = |text: &str| Release::read(text.as_bytes());
        let redis = "$99\r\n# Server\r\nredis_version:7.4.1\r\nredis_mode:standalone\r\n";
        assert_eq!(of(redis), Some(release("7.4.1", None)));
        let valkey = "# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\n\
                      valkey_version:8.0.1\r\nvalkey_release_stage:ga\r\n";
        assert_eq!(of(valkey), Some(release("7.2.4", Some("8.0.1"))));
        for none in ["", "-NOPERM", "redis_version:", "redis_version:a b", "redis_version:x7"] {
            assert_eq!(of(none), None, "{none}");
        }
    }

    #[test]
    fn the_least_of_all_is_told_and_the_name_that_all_have() {
        let told = |all: &[Release]| {
            let least = Release::least(all.iter());
            let (name, version) = least.named();
            format!("{name} {version} {}", least.redis)
        };
        let [old, new] = [release("6.2.14", None), release("7.10.0", None)];
        let [eight, nine] = [release("7.2.4", Some("8.0.1")), release("7.2.4", Some("9.0.0-rc1"))];
        assert_eq!(told(&[]), "redis 7.0.15 7.0.15");
        assert_eq!(told(&[new.clone(), release("7.4.1", None)]), "redis 7.4.1 7.4.1");
        assert_eq!(told(&[new.clone(), old.clone()]), "redis 6.2.14 6.2.14");
        assert_eq!(told(&[nine.clone(), eight.clone()]), "valkey 8.0.1 7.2.4");
        let whole = release("7.2.4", Some("9.0.0"));
        assert_eq!(told(&[whole, nine]), "valkey 9.0.0-rc1 7.2.4");
        assert_eq!(told(&[eight, new]), "redis 7.2.4 7.2.4");
    }
}
