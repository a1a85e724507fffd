//! The guard: it watches how servers persist, those that are followed and those of the gateway, and
//! says what is wrong, with the number and the remedy. Where it may act, it has the servers of a
//! machine save and rewrite in turns, and turns the append-only file of a followed master off and
//! on.
//!
//! A `seeker` knows which servers there are. Each `host` has a task: its servers are `asked`, what
//! they say is `seen`, `findings` and `decide` are pure functions of that, and what is to be done
//! is done under the host's `key`.

mod asked;
mod copied;
mod decide;
mod device;
pub mod findings;
mod history;
mod host;
mod key;
mod named;
mod seeker;
mod seen;
pub mod shown;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use ::watch::metrics::Registry;
use flow::front::{Front, PreparedSettings};
use serde::Serialize;
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::replica::Follower;
use crate::server_memory::ServerMemories;
use crate::settings::{GuardSettings, Mode, Settings};
use seeker::Seeker;
use shown::HostStatuses;

/// Why the guard can not be opened.
#[derive(Debug, thiserror::Error)]
#[error("redis.guard: {0}")]
pub struct OpenError(String);

/// The guard of one process.
pub struct Guard {
    settings: GuardSettings,
    shown: Arc<HostStatuses>,
    /// The settings with the pools whose servers are watched.
    wanted: watch::Sender<Settings>,
    stop: watch::Sender<bool>,
}

impl Guard {
    /// Begins to watch the servers of all pools and those that are followed. What they say of
    /// their memory is noted in `memories`.
    ///
    /// # Errors
    /// What in the settings stands in the way.
    pub fn open(
        settings: &Settings,
        follower: Option<&Arc<Follower>>,
        memories: ServerMemories,
        registry: &Registry,
        control: &Handle,
    ) -> Result<Arc<Self>, OpenError> {
        let (shown, stop) = (HostStatuses::new(registry, memories), watch::Sender::new(false));
        let follower = follower.cloned();
        let mut seeker =
            Seeker::new(settings.clone(), follower, Arc::clone(&shown), stop.clone(), control);
        seeker.begin().map_err(OpenError)?;
        let wanted = watch::Sender::new(settings.clone());
        control.spawn(seeker.run(wanted.subscribe(), stop.subscribe()));
        Ok(Arc::new(Self { settings: settings.guard.clone(), shown, wanted, stop }))
    }
}

impl Front for Guard {
    const NAME: &'static str = "redis.guard";
    type Settings = Settings;
    type Error = OpenError;

    fn prepare(self: &Arc<Self>, wanted: Settings) -> Result<PreparedSettings<'_>, OpenError> {
        Ok(PreparedSettings::new(move || {
            let is_same = wanted.guard == self.settings;
            self.wanted.send_replace(wanted);
            match is_same {
                true => Vec::new(),
                false => vec!["[redis.guard]".to_owned()],
            }
        }))
    }

    fn status(&self) -> impl Serialize {
        self.shown.status(self.settings.mode)
    }

    async fn stop(&self, _: std::time::Duration) {
        self.stop.send_replace(true);
    }
}

impl Settings {
    /// Whether servers are watched.
    pub fn has_guard(&self) -> bool {
        self.guard.mode != Mode::Off
    }
}
