//! What requests read of the settings, as values that are made once: at the start and at each
//! reload. Each value belongs to the module that decides by it.

use http::HeaderValue;
use store::query::context::Limits as QueryLimits;

use super::body::Limits;
use super::origin::Origins;
use super::parking::Bounds;
use super::stamp::StampRules;
use crate::settings::{ClusterSettings, Settings, SettingsError};

/// The values that requests read; a reload replaces all of them at once.
pub struct Live {
    /// How large a request may be.
    pub limits: Limits,
    /// How much there may be of answers that are not read; their queries come with their own bound.
    pub unread: Bounds,
    /// How the lines of a write are read, and where its points go.
    pub writes: WriteRules,
    /// The tags that the points of each connection get.
    pub stamp: StampRules,
    /// The web pages that may write and query.
    pub origins: Origins,
    /// How much a query may read that runs here on the points of a cluster's members.
    pub fetch: FetchLimits,
    /// The version that clients are told.
    pub version: ReportedVersion,
}

impl Live {
    /// Makes the values of settings that are valid otherwise.
    ///
    /// # Errors
    /// The version cannot be sent in a header.
    pub fn of(settings: &Settings) -> Result<Self, SettingsError> {
        let unread = Bounds {
            count: settings.unread_answers_max,
            answer_bytes: settings.answers_memory_max() / 2,
            query_bytes: 0,
        };
        Ok(Self {
            limits: Limits::of(settings),
            unread,
            writes: WriteRules::of(settings),
            stamp: StampRules::of(&settings.stamp),
            origins: Origins::of(&settings.cors),
            fetch: FetchLimits::of(settings.cluster.as_ref()),
            version: ReportedVersion::of(&settings.version)?,
        })
    }
}

/// How the lines of a write are read, and where its points go.
pub struct WriteRules {
    /// The retention policy of writes that name none; empty is the database's default policy.
    default_policy: String,
    /// Whether a database that nobody has is made.
    pub auto_create: bool,
    /// Whether lines may have unsigned integers.
    pub unsigned: bool,
}

impl WriteRules {
    fn of(settings: &Settings) -> Self {
        Self {
            default_policy: settings.default_retention_policy.clone(),
            auto_create: settings.auto_create_database,
            unsigned: settings.unsigned_integers,
        }
    }

    /// The policy that a write means which names `rp`, or none where that is empty.
    pub fn policy<'a>(&'a self, rp: &'a str) -> &'a str {
        if rp.is_empty() { &self.default_policy } else { rp }
    }
}

/// How much a query may read that runs here on the points of a cluster's members.
pub struct FetchLimits {
    /// What the query may take of memory, and its other limits.
    pub query: QueryLimits,
    /// How many points it may read.
    pub rows: RowBounds,
}

/// How many points such a query may read.
#[derive(Clone, Copy, Debug)]
pub struct RowBounds {
    /// Of all members together.
    pub rows_max: u64,
    /// How many are held where they could pass through.
    pub held_max: u64,
}

impl FetchLimits {
    fn of(cluster: Option<&ClusterSettings>) -> Self {
        let cluster = cluster.cloned().unwrap_or_default();
        Self {
            query: QueryLimits { memory: cluster.query_memory, ..QueryLimits::default() },
            rows: RowBounds { rows_max: cluster.rows_max, held_max: cluster.held_rows },
        }
    }
}

/// The version that clients are told.
pub struct ReportedVersion {
    /// As a document has it.
    pub text: String,
    /// As each answer has it.
    pub header: HeaderValue,
}

impl ReportedVersion {
    fn of(text: &str) -> Result<Self, SettingsError> {
        let header = HeaderValue::from_str(text).map_err(|_| SettingsError {
            at: "version".to_owned(),
            what: "cannot be sent in a header".to_owned(),
        })?;
        Ok(Self { text: text.to_owned(), header })
    }
}

#[cfg(test)]
mod tests {
    use units::Size;

    use super::*;

    #[test]
    fn a_write_that_names_no_policy_means_the_one_of_the_settings() {
        let default_retention_policy = "week".to_owned();
        let settings = Settings { default_retention_policy, ..Settings::default() };
        let rules = WriteRules::of(&settings);
        assert_eq!((rules.policy(""), rules.policy("day")), ("week", "day"));
        assert_eq!(WriteRules::of(&Settings::default()).policy(""), "");
    }

    #[test]
    fn answers_that_are_not_read_take_half_of_what_all_may_take() {
        let settings = Settings { answers_memory: Size::from_mib(64), ..Settings::default() };
        let live = Live::of(&settings).unwrap();
        assert_eq!((live.unread.count, live.unread.answer_bytes), (256, 32 << 20));
        assert_eq!(live.limits.head_max, 64 << 10);
    }

    #[test]
    fn a_version_that_no_header_can_have_is_refused_by_its_key() {
        let settings = Settings { version: "1.8\n".to_owned(), ..Settings::default() };
        let refusal = Live::of(&settings).err().map(|error| error.to_string());
        assert_eq!(refusal.as_deref(), Some("influx.version: cannot be sent in a header"));
    }
}
