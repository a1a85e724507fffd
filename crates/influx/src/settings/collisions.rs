//! `[influx.collisions]`: detection of points that overwrite each other.

use std::time::Duration as Span;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Duration, Size};

/// `[influx.collisions]`: points of one series and time that are written more than once. A change
/// takes a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct CollisionSettings {
    /// How long after a point another one of its series and time is counted as a collision.
    pub window: Duration,
    /// The most memory that detection may take; it is taken as it is needed. Where there are more
    /// points than it holds, a share of them is looked at, which is shown with the counts. `"0"`
    /// turns detection off.
    pub memory: Size,
    /// Show values in `weir status` where there are users, too. Without users they are shown.
    pub show_values: bool,
}

impl Default for CollisionSettings {
    fn default() -> Self {
        Self { window: Duration::from_secs(10), memory: Size::from_mib(16), show_values: false }
    }
}

/// The longest window that may be asked for.
const WINDOW_MAX: Span = Span::from_secs(24 * 60 * 60);

impl CollisionSettings {
    /// The least memory that detection works with, in bytes.
    pub const MEMORY_MIN: usize = 256 << 10;
    const MEMORY_MAX: usize = 256 << 20;

    /// Checks what the types cannot.
    ///
    /// # Errors
    /// What is wrong and what to write instead.
    pub fn check(&self) -> Result<(), String> {
        if self.window.get() < Span::from_millis(10) || self.window.get() > WINDOW_MAX {
            return Err("window must be from 10ms to 24h".to_owned());
        }
        match self.memory.len() {
            0 | Self::MEMORY_MIN..=Self::MEMORY_MAX => Ok(()),
            _ => Err("memory must be from 256KiB to 256MiB, or \"0\" for no detection".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_checked() {
        let with = |window, memory| {
            let (window, memory) = (Duration::from_millis(window), Size::from_bytes(memory));
            CollisionSettings { window, memory, show_values: false }.check().is_ok()
        };
        assert!(CollisionSettings::default().check().is_ok());
        assert!(with(10, 0) && with(86_400_000, 256 << 10));
        assert!(!with(9, 0) && !with(86_400_001, 0));
        assert!(!with(10, 1) && !with(10, (256 << 10) - 1) && !with(10, (256 << 20) + 1));
    }
}
