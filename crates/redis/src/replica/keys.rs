//! How many keys a master has, and whether one that was lost and came back is believed.

use std::fs;
use std::path::Path;

use disk::Disk;

use super::directory::{APPEND_DIR, DirectoryError, last_of};

/// There from `weir redis accept` until it is done.
const ACCEPT: &str = "weir.accept";

/// How many keys a master has, or had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    /// It had so many when it was asked last.
    Accepted(u64),
    /// It had so many, and then a base came with too few: nothing is acknowledged as durable until
    /// they are back, or an operator says that they need not be.
    Awaited(u64),
    /// It had so many, and then a base came that lacks what was confirmed: nothing is acknowledged
    /// as durable until an operator says that it may be.
    Lost(u64),
}

impl Keys {
    /// How many keys that is, whether or not the master is believed.
    pub fn count(self) -> u64 {
        match self {
            Self::Accepted(keys) | Self::Awaited(keys) | Self::Lost(keys) => keys,
        }
    }

    /// Whether the master is not believed, so that nothing is acknowledged.
    pub fn is_doubted(self) -> bool {
        !matches!(self, Self::Accepted(_))
    }

    /// What is believed where a base comes from a master with so many keys, as far as it could be
    /// asked: at least `percent` of `before`.
    pub fn of_base(before: Option<Self>, now: Option<u64>, percent: u64) -> Option<Self> {
        match (before, now) {
            (None, now) => now.map(Self::Accepted),
            (Some(Self::Lost(before)), _) => Some(Self::Lost(before)),
            (Some(before), None) if percent > 0 => Some(Self::Awaited(before.count())),
            (Some(before), None) => Some(before),
            (Some(before), Some(now)) => Some(match is_enough(now, before.count(), percent) {
                true => Self::Accepted(now),
                false => Self::Awaited(before.count()),
            }),
        }
    }

    /// What is believed once its stream has gone on to so many keys.
    pub fn recounted(before: Option<Self>, now: u64, percent: u64) -> Self {
        match before {
            Some(Self::Awaited(before)) if !is_enough(now, before, percent) => {
                Self::Awaited(before)
            }
            Some(Self::Lost(before)) => Self::Lost(before),
            _ => Self::Accepted(now),
        }
    }
}

fn is_enough(now: u64, before: u64, percent: u64) -> bool {
    u128::from(now) * 100 >= u128::from(before) * u128::from(percent)
}

/// Has a running Weir, or the next that starts, believe the master of this directory.
///
/// # Errors
/// Nothing waits to be accepted, or the file system refuses.
pub fn accept(of_master: &Path) -> Result<Keys, DirectoryError> {
    let place = last_of(&of_master.join(APPEND_DIR))?;
    let keys = place.and_then(|place| place.keys).filter(|keys| keys.is_doubted());
    let Some(keys) = keys else {
        return Err(DirectoryError::NothingAwaited(of_master.to_owned()));
    };
    let path = of_master.join(ACCEPT);
    Disk::of(of_master).put(&path, &[])?;
    Ok(keys)
}

/// Whether an operator has accepted what the master has.
pub fn is_accepted(of_master: &Path) -> bool {
    of_master.join(ACCEPT).exists()
}

/// Forgets that an operator has. Best effort: what is accepted is of one base, and looked at only
/// while one is awaited.
pub fn forget(of_master: &Path) {
    let _ = fs::remove_file(of_master.join(ACCEPT));
}

#[cfg(test)]
mod tests {
    use super::Keys::{self, Accepted, Awaited, Lost};

    #[test]
    fn too_few_keys_are_awaited_until_they_are_back() {
        let of_base = |before, now| Keys::of_base(before, now, 90);
        assert_eq!(of_base(None, None), None);
        assert_eq!(of_base(None, Some(0)), Some(Accepted(0)));
        assert_eq!(of_base(Some(Accepted(100)), Some(90)), Some(Accepted(90)));
        assert_eq!(of_base(Some(Accepted(100)), Some(89)), Some(Awaited(100)));
        assert_eq!(of_base(Some(Awaited(100)), Some(50)), Some(Awaited(100)));
        assert_eq!(of_base(Some(Accepted(100)), None), Some(Awaited(100)), "it is not known");
        assert_eq!(Keys::of_base(Some(Accepted(100)), Some(0), 0), Some(Accepted(0)));
        assert_eq!(Keys::of_base(Some(Accepted(9)), None, 0), Some(Accepted(9)));
        assert_eq!(Keys::recounted(Some(Awaited(100)), 89, 90), Awaited(100));
        assert_eq!(Keys::recounted(Some(Awaited(100)), 90, 90), Accepted(90));
        assert_eq!(Keys::recounted(Some(Accepted(100)), 0, 90), Accepted(0), "a FLUSHALL");
        assert_eq!(of_base(Some(Accepted(u64::MAX)), Some(u64::MAX)), Some(Accepted(u64::MAX)));
    }

    #[test]
    fn what_was_confirmed_and_is_lost_comes_back_by_no_number_of_keys() {
        assert_eq!(Keys::of_base(Some(Lost(100)), Some(200), 90), Some(Lost(100)));
        assert_eq!(Keys::of_base(Some(Lost(100)), None, 0), Some(Lost(100)));
        assert_eq!(Keys::recounted(Some(Lost(100)), 200, 90), Lost(100));
        assert!(Lost(0).is_doubted() && Awaited(0).is_doubted() && !Accepted(0).is_doubted());
    }
}
