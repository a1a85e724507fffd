//! `[redis.guard]`: what watches how servers persist.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::window::Window;
use units::{Duration, Size};

use super::validate::{Checked, wrong};

/// What the guard does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Nothing: no server is asked how it persists.
    Off,
    /// It says what is wrong with how servers persist, and changes nothing.
    #[default]
    Watch,
    /// It also has servers save and rewrite, one of each host at a time, and turns `appendonly` of
    /// followed masters off and on.
    Act,
}

/// `[redis.guard]`: what watches how servers persist. Needs a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct GuardSettings {
    /// `watch` says what is wrong, with the number and the remedy, which needs
    /// `+info +config|get`; `act` also acts, which needs `+config|set +config|rewrite
    /// +bgsave +bgrewriteaof +multi +exec +set +get +pexpire` and the keys; `off` asks nothing.
    pub mode: Mode,
    /// How often each server is asked.
    pub ask_every: Duration,
    /// A fork that took longer, which nobody is served in, is said.
    pub fork_max: Duration,
    /// Another process of this machine that writes more than this each second, and has a file open
    /// on the device of an append-only file, is said.
    pub other_writes_max: Size,
    /// When the guard has servers save and rewrite, in UTC: each that has a file to rewrite or
    /// points to save at once in each window, and one of a host at a time.
    pub window: Window,
    /// Whether `act` turns `appendonly` of followed masters off, while what Weir keeps of them is
    /// durable and `CONFIG REWRITE` works, and on where it is not.
    pub appendonly: bool,
    /// For how long a followed master may be without a durable copy until `act` turns its
    /// `appendonly` on, which is a fork.
    pub behind_max: Duration,
    /// What `min-replicas-to-write` becomes where `act` turns `appendonly` off and it was 0, until
    /// that is on again: a master refuses writes while fewer replicas are connected, Weir among
    /// them, also where no Weir is left to turn anything on. 0 leaves it.
    pub min_replicas: u32,
    /// The key that the Weir which acts on a host holds there, with `:` and the host's name behind
    /// it: on the host's first server by name, or on that one's master.
    pub key: String,
    /// After how long another Weir takes over from one that is gone.
    pub key_expiry: Duration,
}

impl Default for GuardSettings {
    fn default() -> Self {
        Self {
            mode: Mode::Watch,
            ask_every: Duration::from_secs(10),
            fork_max: Duration::from_millis(100),
            other_writes_max: Size::from_mib(8),
            window: Window::of_hours(2, 5),
            appendonly: true,
            behind_max: Duration::from_secs(60),
            min_replicas: 0,
            key: "weir:guard".to_owned(),
            key_expiry: Duration::from_secs(60),
        }
    }
}

impl GuardSettings {
    pub(super) fn validate(&self) -> Checked {
        if self.ask_every.get().is_zero() {
            return wrong("guard.ask-every", "must not be 0; write \"10s\"");
        }
        if self.key.is_empty() || !self.key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return wrong("guard.key", "needs letters, and has no spaces; write \"weir:guard\"");
        }
        if self.key_expiry.get() < self.ask_every.get() * 3 {
            return wrong("guard.key-expiry", "must be at least three times ask-every");
        }
        Ok(())
    }
}
