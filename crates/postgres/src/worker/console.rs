//! A worker's part of what the console shows and commands.

use std::collections::HashMap;
use std::rc::Weak;
use std::time::{Instant, SystemTime};

use wire::postgres::{Refusal, sqlstate};

use super::Front;
use crate::console::{ClientRow, ClientState, LaneRow, PoolRow, Snapshot, Totals};
use crate::gateway::Order;
use crate::session::client::Client;

impl Front {
    /// What this worker has; `rows`: every client and lane, too.
    pub(super) fn snapshot(&self, rows: bool) -> Snapshot {
        let mut snapshot = Snapshot::default();
        let settings = self.settings();
        let mut pools: HashMap<(String, String), PoolRow> = HashMap::new();
        let row = |database: &str, user: &str| PoolRow {
            database: database.to_owned(),
            user: user.to_owned(),
            mode: settings.mode(database, user),
            ..PoolRow::default()
        };
        for client in self.clients.borrow().values().filter_map(Weak::upgrade) {
            let Some(about) = client.about() else { continue };
            let key = (about.database.to_string(), about.user.to_string());
            let pool = pools.entry(key).or_insert_with(|| row(&about.database, &about.user));
            pool.clients_active += 1;
            if rows {
                snapshot.clients.push(self.client_row(&client));
            }
        }
        for group in self.pool.groups() {
            let key = group.key();
            let database = self.name_here(&key.database);
            let key = (database.clone(), key.user.to_string());
            let pool = pools.entry(key.clone()).or_insert_with(|| row(&database, &key.1));
            let figures = group.figures();
            pool.servers_active += figures.active as u64;
            pool.servers_idle += figures.idle as u64;
            pool.servers_login += figures.opening as u64;
            pool.clients_waiting += figures.waiting as u64;
            pool.clients_active = pool.clients_active.saturating_sub(figures.waiting as u64);
            pool.wait_max = pool.wait_max.max(figures.longest);
        }
        for group in self.groups.borrow().values() {
            let database = self.name_here(&group.key.database);
            let key = (database.clone(), group.key.user.to_string());
            let pool = pools.entry(key.clone()).or_insert_with(|| row(&database, &key.1));
            let (lanes, requests) = group.figures();
            pool.lanes += lanes as u64;
            pool.lane_statements += requests as u64;
            if rows {
                snapshot.lanes.extend(self.lane_rows(group, &database));
            }
        }
        snapshot.pools = pools.into_values().collect();
        let databases = self.databases.borrow();
        snapshot.totals = databases
            .values()
            .map(|database| {
                let totals = Totals { queries: database.plans.get(), ..Totals::default() };
                (database.name.to_string(), totals)
            })
            .collect();
        snapshot
    }

    /// The name for clients of a database on the servers.
    fn name_here(&self, there: &str) -> String {
        let databases = self.databases.borrow();
        let mut named = databases.values().filter(|database| &*database.name_there == there);
        named.next().map_or(there, |database| &*database.name).to_owned()
    }

    fn client_row(&self, client: &Client) -> ClientRow {
        let busy = client.in_flight() > 0 || client.leased().is_some();
        let about = client.about();
        let text = |of: Option<&str>| of.unwrap_or_default().to_owned();
        ClientRow {
            id: u64::try_from(client.id).unwrap_or_default(),
            user: text(about.map(|about| &*about.user)),
            database: text(about.map(|about| &*about.database)),
            state: if busy { ClientState::Active } else { ClientState::Idle },
            address: about.and_then(|about| about.peer),
            local: None,
            connected: about.map_or(SystemTime::UNIX_EPOCH, |about| about.connected),
            asked: about.map_or(SystemTime::UNIX_EPOCH, |about| about.connected),
            waiting: std::time::Duration::ZERO,
            server: None,
            tls: if client.outlet.is_tls() { "TLS".to_owned() } else { String::new() },
            application_name: text(about.map(|about| &*about.application_name)),
            prepared: 0,
            worker: self.worker.index as u64,
            pinned: "",
        }
    }

    fn lane_rows(&self, group: &crate::lanes::Group, database: &str) -> Vec<LaneRow> {
        let now = Instant::now();
        let row = |lane: &std::rc::Rc<crate::lanes::Lane>| LaneRow {
            database: database.to_owned(),
            user: group.key.user.to_string(),
            backend: group.backend.name().to_owned(),
            worker: self.worker.index as u64,
            server: 0,
            depth: lane.handle.depth() as u64,
            head_age: lane.handle.head_age(now).unwrap_or_default(),
            unsent: 0,
            statements: 0,
            quarantined: lane.handle.is_quarantined(),
        };
        group.lanes().iter().map(row).collect()
    }

    /// Does what the console has ordered.
    pub(super) fn order(&self, order: &Order) {
        match order {
            Order::Paused => {
                for group in self.pool.groups() {
                    let paused = self.gateway.is_paused(&group.key().database);
                    group.pause(paused);
                    if paused {
                        group.close_idle();
                    }
                }
                for group in self.groups.borrow().values() {
                    if self.gateway.is_paused(&group.key.database) {
                        group.retire();
                    }
                }
            }
            Order::Reconnect(database) => {
                let ours = |name: &str| database.as_deref().is_none_or(|of| of == name);
                for group in self.pool.groups().iter().filter(|of| ours(&of.key().database)) {
                    group.reconnect();
                }
                for group in self.groups.borrow().values().filter(|of| ours(&of.key.database)) {
                    group.retire();
                }
            }
            Order::Kill(database) => {
                let clients: Vec<_> =
                    self.clients.borrow().values().filter_map(Weak::upgrade).collect();
                for client in clients {
                    let ours = client.about().is_some_and(|about| {
                        database.as_deref().is_none_or(|of| of == &*about.database)
                    });
                    if ours {
                        disconnect(&client);
                    }
                }
            }
        }
    }
}

/// Closes a client at once; where nothing is under way it is told why.
pub(super) fn disconnect(client: &Client) {
    if client.in_flight() == 0 && client.leased().is_none() {
        let what = "terminating connection due to administrator command";
        client.kill(Refusal::fatal(sqlstate::ADMIN_SHUTDOWN, what));
    } else {
        client.outlet.close();
    }
}
