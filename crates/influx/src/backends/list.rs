//! Which backends there are, and what other settings change about that.

use std::sync::Arc;

use super::Backend;
use crate::settings::{BackendSettings, DeliverySettings, ServerSettings};

/// The backends at one moment, in the configuration's order.
#[derive(Debug, Default)]
pub(super) struct BackendList(pub(super) Vec<ListedBackend>);

/// A backend with all that there is of it.
#[derive(Clone, Debug)]
pub(super) enum ListedBackend {
    Server(Arc<Backend>),
    /// The store within this process.
    Embedded(DeliverySettings),
}

impl ListedBackend {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Server(backend) => backend.name(),
            Self::Embedded(delivery) => &delivery.name,
        }
    }

    fn server(&self) -> Option<&Arc<Backend>> {
        match self {
            Self::Server(backend) => Some(backend),
            Self::Embedded(_) => None,
        }
    }

    fn settings(&self) -> BackendSettings {
        match self {
            Self::Server(backend) => BackendSettings::Server(Box::new(backend.settings().clone())),
            Self::Embedded(delivery) => BackendSettings::Embedded(delivery.clone()),
        }
    }
}

impl BackendList {
    /// All but the embedded one.
    pub(super) fn servers(&self) -> impl Iterator<Item = &Arc<Backend>> {
        self.0.iter().filter_map(ListedBackend::server)
    }

    pub(super) fn server(&self, name: &str) -> Option<&Arc<Backend>> {
        self.servers().find(|backend| backend.name() == name)
    }

    pub(super) fn settings(&self) -> Vec<BackendSettings> {
        self.0.iter().map(ListedBackend::settings).collect()
    }
}

/// What has to happen until other settings are in force.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ListChange<'a> {
    pub(super) added: Vec<&'a ServerSettings>,
    /// The servers of which something else than the name has changed, as they are to be.
    pub(super) replaced: Vec<&'a ServerSettings>,
    /// The names of those that are in the configuration no more.
    pub(super) removed: Vec<&'a str>,
    /// The settings of all backends afterwards.
    pub(super) settings: Vec<BackendSettings>,
    /// The names of those that stay as they are, because the embedded store comes, changes or goes
    /// with a restart only.
    pub(super) restart: Vec<String>,
}

impl<'a> ListChange<'a> {
    /// What leads from the `running` settings to those `wanted`.
    pub(super) fn between(running: &'a [BackendSettings], wanted: &'a [BackendSettings]) -> Self {
        use BackendSettings::{Embedded, Server};
        let of = |list: &'a [BackendSettings], name: &str| list.iter().find(|of| of.name() == name);
        let mut change = Self::default();
        for backend in wanted {
            let before = of(running, backend.name());
            match (before, backend) {
                (Some(before), backend) if before == backend => {}
                (None, Server(server)) => change.added.push(server),
                (Some(Server(_)), Server(server)) => change.replaced.push(server),
                (_, Embedded(_)) | (Some(Embedded(_)), Server(_)) => {
                    change.restart.push(backend.name().to_owned());
                    change.settings.extend(before.cloned());
                    continue;
                }
            }
            change.settings.push(backend.clone());
        }
        for backend in running.iter().filter(|backend| of(wanted, backend.name()).is_none()) {
            match backend {
                Server(_) => change.removed.push(backend.name()),
                Embedded(_) => {
                    change.restart.push(backend.name().to_owned());
                    change.settings.push(backend.clone());
                }
            }
        }
        change
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::BackendTable;

    fn server(name: &str, port: u16) -> BackendSettings {
        BackendTable::new(name, &format!("http://127.0.0.1:{port}")).settings().unwrap()
    }

    /// The change between two lists of `name`, for the store, and `name:port`, for servers, in
    /// words: what is added, replaced, removed, there afterwards, and left to a restart.
    fn change(running: &str, wanted: &str) -> [String; 5] {
        let backend = |text: &str| match text.split_once(':') {
            Some((name, port)) => server(name, port.parse().unwrap()),
            None => BackendTable::embedded(text).settings().unwrap(),
        };
        let list = |text: &str| text.split_whitespace().map(backend).collect::<Vec<_>>();
        let (running, wanted) = (list(running), list(wanted));
        let change = ListChange::between(&running, &wanted);
        let port = |of: &ServerSettings| of.url.rsplit(':').next().unwrap().to_owned();
        let of_server = |of: &ServerSettings| format!("{}:{}", of.delivery.name, port(of));
        let servers = |list: &[&ServerSettings]| list.iter().map(|of| of_server(of)).collect();
        let after = |of: &BackendSettings| of.server().map_or(of.name().to_owned(), of_server);
        let parts: [Vec<String>; 5] = [
            servers(&change.added),
            servers(&change.replaced),
            change.removed.iter().map(|name| (*name).to_owned()).collect(),
            change.settings.iter().map(after).collect(),
            change.restart,
        ];
        parts.map(|part| part.join(" "))
    }

    #[test]
    fn servers_come_change_and_go_while_the_store_waits_for_a_restart() {
        for (running, wanted, expected) in [
            ("a:1 b:1", "a:1 b:1", ["", "", "", "a:1 b:1", ""]),
            ("a:1", "b:1 a:1", ["b:1", "", "", "b:1 a:1", ""]),
            ("a:1 b:1", "b:1", ["", "", "a", "b:1", ""]),
            ("a:1 b:1", "a:2 b:1", ["", "a:2", "", "a:2 b:1", ""]),
            ("a:1 b:1", "c:1", ["c:1", "", "a b", "c:1", ""]),
            ("a:1 own", "own b:1", ["b:1", "", "a", "own b:1", ""]),
            ("a:1 own", "a:1", ["", "", "", "a:1 own", "own"]),
            ("a:1", "own a:1", ["", "", "", "a:1", "own"]),
            // One that is to become the other kind stays what it is.
            ("a b:1", "a:1 b:1", ["", "", "", "a b:1", "a"]),
            ("a:1 b:1", "a b:1", ["", "", "", "a:1 b:1", "a"]),
        ] {
            assert_eq!(change(running, wanted), expected, "{running} to {wanted}");
        }
    }
}
