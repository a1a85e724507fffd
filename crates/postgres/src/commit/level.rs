//! How durable a role's commits are to be: `synchronous_commit`.

/// What a commit waits for (PostgreSQL documentation, "Settings" of the write-ahead log,
/// `synchronous_commit`). The role's own `off` waits for nothing and is no level here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CommitLevel {
    /// The server's own disk.
    Local,
    /// The server's disk, and the memory of its synchronous standbys.
    RemoteWrite,
    /// The disks of the server and of its synchronous standbys.
    On,
    /// As [`On`](Self::On), and that the standbys have replayed it.
    RemoteApply,
}

/// A value of `synchronous_commit` that is not known here: nothing may be concluded from it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the server's synchronous_commit is {0:?}, which is not known")]
pub struct UnknownLevel(pub String);

impl CommitLevel {
    /// The level of a role by `reset_val` in `pg_settings`, asked on a connection of the role's;
    /// `None` for `off`, whose commits wait for nothing.
    ///
    /// # Errors
    /// It is none of the words that PostgreSQL shows.
    pub fn read(reset_value: &str) -> Result<Option<Self>, UnknownLevel> {
        match reset_value {
            "off" => Ok(None),
            "local" => Ok(Some(Self::Local)),
            "remote_write" => Ok(Some(Self::RemoteWrite)),
            "on" => Ok(Some(Self::On)),
            "remote_apply" => Ok(Some(Self::RemoteApply)),
            other => Err(UnknownLevel(other.to_owned())),
        }
    }

    /// The level's word in `SET synchronous_commit`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::RemoteWrite => "remote_write",
            Self::On => "on",
            Self::RemoteApply => "remote_apply",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_is_read_as_it_is_written() {
        use CommitLevel::{Local, On, RemoteApply, RemoteWrite};
        for level in [Local, RemoteWrite, On, RemoteApply] {
            assert_eq!(CommitLevel::read(level.as_str()), Ok(Some(level)));
        }
        assert_eq!(CommitLevel::read("off"), Ok(None));
    }

    #[test]
    fn a_value_that_is_not_known_is_no_level() {
        for value in ["", "ON", "true", "quorum"] {
            assert_eq!(CommitLevel::read(value), Err(UnknownLevel(value.to_owned())));
        }
    }
}
