//! How many files and sockets the process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limit on open files, before and after raising it; `None` is not a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nofile {
    /// The soft limit that the process had until then.
    pub before: Option<u64>,
    /// What it is now.
    pub now: Option<u64>,
}

/// Raises the limit on open files (`RLIMIT_NOFILE`) to the most that the process may have without
/// privileges, its hard limit.
///
/// # Errors
/// The kernel refused; the limit is what it was.
pub fn raise() -> std::io::Result<Nofile> {
    let limit = getrlimit(Resource::Nofile);
    let most = Rlimit { current: limit.maximum, maximum: limit.maximum };
    setrlimit(Resource::Nofile, most)?;
    Ok(Nofile { before: limit.current, now: getrlimit(Resource::Nofile).current })
}

#[cfg(test)]
mod tests {
    use rustix::process::{Resource, getrlimit};

    #[test]
    fn the_limit_becomes_the_hard_one() {
        let raised = super::raise().unwrap();
        assert_eq!(raised.now, getrlimit(Resource::Nofile).maximum);
    }
}
