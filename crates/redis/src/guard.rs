//! The guard: it watches how servers persist, those that are followed and those of the gateway, and
//! says what is wrong, with the number and the remedy. Where it may act, it has the servers of a
//! machine save and rewrite in turns, and turns the append-only file of a followed master off and
//! on.
//!
//! Each `host` has a task: its servers are `asked`, what they say is `seen`, `findings` and
//! `decide` are pure functions of that, and what is to be done is done under the host's `key`.

mod asked;
mod copied;
mod decide;
mod device;
pub mod findings;
mod history;
mod host;
mod key;
mod seen;
pub mod shown;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use ::watch::metrics::Registry;
use flow::front::{Front, Prepared};
use serde::Serialize;
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::replica::Follower;
use crate::server::Server;
use crate::settings::{
    BackendSettings, GuardSettings, MAIN, Mode, Settings, is_of_this_machine, read_address,
};
use asked::Asked;
use device::Processes;
use host::{Host, Kept, Watched};
use key::Key;
use shown::Shown;

/// What servers of this machine have for a host.
const HERE: &str = "localhost";

/// Why the guard can not be opened.
#[derive(Debug, thiserror::Error)]
#[error("redis.guard: {0}")]
pub struct OpenError(String);

/// The guard of one process.
pub struct Guard {
    settings: GuardSettings,
    shown: Arc<Shown>,
    stop: watch::Sender<bool>,
}

/// A server that is to be watched, before anything is opened.
struct Named {
    name: String,
    host: String,
    is_here: bool,
    settings: BackendSettings,
    /// For a person.
    url: String,
    kept: Option<Kept>,
}

impl Guard {
    /// Begins to watch the servers of all pools and those that are followed.
    ///
    /// # Errors
    /// What in the settings stands in the way.
    pub fn open(
        settings: &Settings,
        follower: Option<&Follower>,
        registry: &Registry,
        control: &Handle,
    ) -> Result<Arc<Self>, OpenError> {
        let (guard, shown) = (settings.guard.clone(), Shown::new(registry));
        let stop = watch::Sender::new(false);
        let mut hosts: BTreeMap<String, Vec<Watched>> = BTreeMap::new();
        for named in named(settings, follower).map_err(OpenError)? {
            let server = Server::new(&named.settings).map_err(OpenError)?;
            let asked = Asked::new(server, named.settings.connect_timeout.get());
            let watched = Watched::new(named.name, named.url, asked, named.kept, named.is_here);
            hosts.entry(named.host).or_default().push(watched);
        }
        let (own, processes) = (own_name(), Arc::new(Mutex::new(Processes::default())));
        for (name, servers) in hosts {
            let key = Key::new(&guard.key, &own, guard.key_expiry.get());
            let (processes, shown) = (Arc::clone(&processes), Arc::clone(&shown));
            let host = Host::new(name, servers, key, &guard, processes, shown);
            control.spawn(host.run(stop.subscribe()));
        }
        Ok(Arc::new(Self { settings: guard, shown, stop }))
    }
}

/// Every server once: one that is followed and has keys of a pool, too, is the followed one.
fn named(settings: &Settings, follower: Option<&Follower>) -> Result<Vec<Named>, String> {
    let masters = follower.into_iter().flat_map(Follower::kept).map(|(of, state, dir)| Named {
        name: of.name.clone(),
        host: of.host.clone().unwrap_or_default(),
        is_here: false,
        settings: of.backend(),
        url: of.whereabouts(),
        kept: Some(Kept { state, dir }),
    });
    let pools = settings.pools();
    let backends = pools.iter().flat_map(|(pool, settings)| {
        settings.backend.iter().map(move |of| Named {
            name: match pool.as_str() {
                MAIN => of.name.clone(),
                pool => format!("{pool}/{}", of.name),
            },
            host: of.host.clone().unwrap_or_default(),
            is_here: false,
            settings: of.clone(),
            url: of.whereabouts(),
            kept: None,
        })
    });
    let mut all: Vec<Named> = Vec::new();
    for mut named in masters.chain(backends) {
        if all.iter().any(|other| other.is_same(&named)) {
            continue;
        }
        if all.iter().any(|other| other.name == named.name) {
            named.name = format!("{MAIN}/{}", named.name);
        }
        named.place()?;
        all.push(named);
    }
    Ok(all)
}

impl Named {
    /// Whether it is the same server, by where it is.
    fn is_same(&self, other: &Self) -> bool {
        let address = |of: &Self| read_address(&of.settings.url).ok().map(|of| of.address);
        address(self).is_some() && address(self) == address(other)
    }

    /// Says which host it is of. One that Sentinels find is of a host of its own.
    fn place(&mut self) -> Result<(), String> {
        let host = match &self.settings.sentinel {
            Some(_) => self.name.clone(),
            None => {
                let reached =
                    read_address(&self.settings.url).map_err(|error| error.to_string())?;
                let host = reached.address.host();
                self.is_here = host.is_none_or(is_of_this_machine);
                host.filter(|_| !self.is_here).unwrap_or(HERE).to_owned()
            }
        };
        if self.host.is_empty() {
            self.host = host;
        }
        Ok(())
    }
}

/// Who this Weir is, for others and for a person.
fn own_name() -> String {
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let salt: u32 = rand::random();
    format!("{}:{}:{salt:08x}", machine.trim(), std::process::id())
}

impl Front for Guard {
    const NAME: &'static str = "redis.guard";
    type Settings = GuardSettings;
    type Error = OpenError;

    fn prepare(self: &Arc<Self>, wanted: GuardSettings) -> Result<Prepared<'_>, OpenError> {
        Ok(Prepared::new(move || match wanted == self.settings {
            true => Vec::new(),
            false => vec!["[redis.guard]".to_owned()],
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
