//! Which backends there are, and what other settings change about that.

use std::sync::Arc;

use super::Backend;
use crate::settings::{BackendSettings, ServerSettings};

/// The backends at one moment.
#[derive(Debug, Default)]
pub(super) struct BackendList {
    /// All but the embedded one, in the configuration's order.
    pub(super) servers: Vec<Arc<Backend>>,
    /// The settings of all, in the same order.
    pub(super) settings: Vec<BackendSettings>,
}

impl BackendList {
    pub(super) fn server(&self, name: &str) -> Option<&Arc<Backend>> {
        self.servers.iter().find(|backend| backend.name() == name)
    }
}

/// Why the delivery to a server ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The configuration names the server no more.
    Removed,
    /// The delivery begins anew, with other settings.
    Replaced,
}

/// What has to happen until other settings are in force.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ListChange<'a> {
    /// The names of the servers whose delivery ends.
    pub(super) ending: Vec<(&'a str, Ending)>,
    /// The servers whose delivery begins, once those that end have.
    pub(super) beginning: Vec<&'a ServerSettings>,
    /// The settings of all backends afterwards.
    pub(super) settings: Vec<BackendSettings>,
    /// The names of those that stay as they are, because the embedded store comes, changes or goes
    /// with a restart only.
    pub(super) restart: Vec<String>,
}

impl<'a> ListChange<'a> {
    /// What leads from the `running` settings to those `wanted`.
    pub(super) fn between(running: &'a [BackendSettings], wanted: &'a [BackendSettings]) -> Self {
        let of = |list: &'a [BackendSettings], name: &str| list.iter().find(|of| of.name() == name);
        let mut change = Self::default();
        for backend in wanted {
            let before = of(running, backend.name());
            match (before, backend) {
                (Some(before), backend) if before == backend => {}
                (None, BackendSettings::Server(server)) => change.beginning.push(server),
                (Some(BackendSettings::Server(_)), BackendSettings::Server(server)) => {
                    change.ending.push((backend.name(), Ending::Replaced));
                    change.beginning.push(server);
                }
                _ => {
                    change.restart.push(backend.name().to_owned());
                    change.settings.extend(before.cloned());
                    continue;
                }
            }
            change.settings.push(backend.clone());
        }
        for backend in running.iter().filter(|backend| of(wanted, backend.name()).is_none()) {
            let name = backend.name();
            match backend {
                BackendSettings::Server(_) => change.ending.push((name, Ending::Removed)),
                BackendSettings::Embedded(_) => {
                    change.restart.push(name.to_owned());
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

    fn store(name: &str) -> BackendSettings {
        let table = BackendTable { embedded: true, ..BackendTable::new(name, "") };
        table.settings().unwrap()
    }

    #[test]
    fn servers_come_change_and_go_while_the_store_waits_for_a_restart() {
        let (a, b, c) = (server("a", 1), server("b", 1), server("c", 1));
        let (moved, own) = (server("a", 2), store("own"));
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let (removed, replaced) = (|name| (name, Ending::Removed), |name| (name, Ending::Replaced));
        let none: Vec<String> = Vec::new();
        for (running, wanted, ending, beginning, after, restart) in [
            (vec![&a, &b], vec![&a, &b], vec![], vec![], vec![&a, &b], none.clone()),
            (vec![&a], vec![&b, &a], vec![], vec![&b], vec![&b, &a], none.clone()),
            (vec![&a, &b], vec![&b], vec![removed("a")], vec![], vec![&b], none.clone()),
            (
                vec![&a, &b],
                vec![&moved, &b],
                vec![replaced("a")],
                vec![&moved],
                vec![&moved, &b],
                none.clone(),
            ),
            (
                vec![&a, &b],
                vec![&c],
                vec![removed("a"), removed("b")],
                vec![&c],
                vec![&c],
                none.clone(),
            ),
            (vec![&a, &own], vec![&a], vec![], vec![], vec![&a, &own], names(&["own"])),
            (vec![&a], vec![&own, &a], vec![], vec![], vec![&a], names(&["own"])),
            (
                vec![&a, &own],
                vec![&own, &b],
                vec![removed("a")],
                vec![&b],
                vec![&own, &b],
                none.clone(),
            ),
            // One that is to become the other kind stays what it is.
            (
                vec![&store("a"), &b],
                vec![&a, &b],
                vec![],
                vec![],
                vec![&store("a"), &b],
                names(&["a"]),
            ),
            (vec![&a, &b], vec![&store("a"), &b], vec![], vec![], vec![&a, &b], names(&["a"])),
        ] {
            let all = |list: Vec<&BackendSettings>| list.into_iter().cloned().collect::<Vec<_>>();
            let (running, wanted) = (all(running), all(wanted));
            let change = ListChange::between(&running, &wanted);
            let begins: Vec<_> = beginning.iter().filter_map(|of| of.server()).collect();
            assert_eq!(change.ending, ending, "{running:?} to {wanted:?}");
            assert_eq!(change.beginning, begins, "{running:?} to {wanted:?}");
            assert_eq!(change.settings, all(after), "{running:?} to {wanted:?}");
            assert_eq!(change.restart, restart, "{running:?} to {wanted:?}");
        }
    }
}
