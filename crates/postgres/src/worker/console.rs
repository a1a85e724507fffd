//! A worker's part of what the console shows and commands.

use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::time::{Instant, SystemTime};

use wire::postgres::{Refusal, sqlstate};

use super::WorkerContext;
use crate::client::{About, Client};
use crate::connection::{Connection, Record, ServerState};
use crate::console::{ClientRow, ClientState, LaneRow, MemoryRow, PoolRow, ServerRow, Snapshot};
use crate::database::{Database, Totals};
use crate::lanes::{Group, Lane};
use crate::pipeline::statements::Statement;
use crate::plan::Plan;
use crate::shared::Order;

/// How an instant of this process is shown.
fn moment(at: Instant) -> SystemTime {
    SystemTime::now() - at.elapsed()
}

type Pools = HashMap<(String, String), PoolRow>;

impl WorkerContext {
    /// What this worker has; `clients`: every client, too.
    pub(super) fn snapshot(&self, clients: bool) -> Snapshot {
        let mut pools = Pools::new();
        let mut snapshot = Snapshot { totals: self.totals(), ..Snapshot::default() };
        for client in self.clients.borrow().values().filter_map(Weak::upgrade) {
            let Some(about) = client.about() else { continue };
            self.pool(&mut pools, &about.database, &about.user).count_client(&client);
            if let Some(database) = client.database() {
                snapshot.add_sent(&database.name, client.outlet.sent_bytes());
            }
            if clients {
                snapshot.clients.push(self.client_row(&client, about));
            }
        }
        for group in self.groups.borrow().values() {
            let rows = self.lane_rows(group);
            let database = self.name_here(&group.key.database);
            let pool = self.pool(&mut pools, &database, &group.key.user);
            pool.lane_statements += rows.iter().map(|row| row.depth).sum::<u64>();
            snapshot.lanes.extend(rows);
        }
        for record in self.servers.records() {
            let row = self.server_row(&record);
            self.pool(&mut pools, &row.database, &row.user).count_server(&record);
            snapshot.servers.push(row);
        }
        snapshot.pools = pools.into_values().collect();
        snapshot.memory = self.memory();
        snapshot
    }

    fn pool<'p>(&self, pools: &'p mut Pools, database: &str, user: &str) -> &'p mut PoolRow {
        let new = || PoolRow {
            database: database.to_owned(),
            user: user.to_owned(),
            mode: self.settings().mode(database, user),
            ..PoolRow::default()
        };
        pools.entry((database.to_owned(), user.to_owned())).or_insert_with(new)
    }

    fn totals(&self) -> Vec<(String, Totals)> {
        let databases = self.databases.borrow();
        databases.values().map(|of| (of.name.to_string(), of.totals())).collect()
    }

    /// The name for clients of a database on the servers.
    fn name_here(&self, there: &str) -> String {
        let databases = self.databases.borrow();
        let mut named = databases.values().filter(|database| &*database.name_there == there);
        named.next().map_or(there, |database| &*database.name).to_owned()
    }

    fn client_row(&self, client: &Client, about: &About) -> ClientRow {
        let (seen, leased) = (client.seen(), client.leased());
        let waiting = seen.waits.get().map(|since| since.elapsed());
        ClientRow {
            id: u64::try_from(client.id).unwrap_or_default(),
            user: about.user.to_string(),
            database: about.database.to_string(),
            state: match waiting {
                Some(_) => ClientState::Waiting,
                None if client.in_flight() > 0 || leased.is_some() => ClientState::Active,
                None => ClientState::Idle,
            },
            address: about.peer,
            local: about.local,
            connected: about.connected,
            asked: seen.asked.get().map_or(about.connected, moment),
            waiting: waiting.unwrap_or_default(),
            server: leased.map(|target| target.record.id),
            tls: client.outlet.encryption().unwrap_or_default(),
            application_name: about.application_name.to_string(),
            prepared: seen.prepared.get() as u64,
            worker: self.worker.index as u64,
            pinned: seen.pinned.get(),
        }
    }

    fn server_row(&self, record: &Record) -> ServerRow {
        let place = record.place();
        ServerRow {
            id: record.id,
            user: record.key.user.to_string(),
            database: self.name_here(&record.key.database),
            state: record.state(),
            address: place.and_then(|place| place.address),
            local: place.and_then(|place| place.local),
            connected: record.begun,
            asked: record.asked_last().map_or(record.begun, moment),
            closing: record.is_outdated(),
            client: record.client().and_then(|client| u64::try_from(client).ok()),
            process: place.map_or(0, |place| u64::from(place.process)),
            tls: place.map_or_else(String::new, |place| place.tls.clone()),
            application_name: record.application_name(),
            prepared: record.prepared() as u64,
            backend: record.backend.name().to_owned(),
            worker: self.worker.index as u64,
        }
    }

    fn lane_rows(&self, group: &Group) -> Vec<LaneRow> {
        let now = Instant::now();
        let database = self.name_here(&group.key.database);
        let row = |lane: &Rc<Lane>| {
            let known = &lane.known;
            known.record.has_prepared(known.prepared.borrow().count());
            LaneRow {
                database: database.clone(),
                user: group.key.user.to_string(),
                backend: group.backend.name().to_owned(),
                worker: self.worker.index as u64,
                server: known.record.id,
                depth: lane.handle.depth() as u64,
                head_age: lane.handle.head_age(now).unwrap_or_default(),
                unsent: lane.handle.unsent() as u64,
                statements: known.answered.get(),
                quarantined: lane.handle.is_quarantined(),
            }
        };
        group.lanes().iter().map(row).collect()
    }

    /// What there is many of: its size without what it points to.
    fn memory(&self) -> Vec<MemoryRow> {
        let row = |name, size: usize, used: usize| MemoryRow {
            name,
            size: size as u64,
            used: used as u64,
            free: 0,
        };
        let databases = self.databases.borrow();
        let plans = databases.values().map(|of| of.planner.borrow().len()).sum();
        vec![
            row("client", self.client_bytes, self.clients.borrow().len()),
            row("server", size_of::<Connection>(), self.servers.records().len()),
            row("database", size_of::<Database>(), databases.len()),
            row("plan", size_of::<Plan>(), plans),
            row("statement", size_of::<Statement>(), self.statements.count()),
        ]
    }

    /// Does what the console has ordered.
    pub(super) fn order(&self, order: &Order) {
        match order {
            Order::Paused => {
                for group in self.pool.groups() {
                    let paused = self.shared.is_paused(&group.key().database);
                    group.pause(paused);
                    if paused {
                        group.close_idle();
                    }
                }
                for group in self.groups.borrow().values() {
                    if self.shared.is_paused(&group.key.database) {
                        group.retire();
                    }
                }
            }
            Order::Reconnect(database) => {
                let ours = |name: &str| database.as_deref().is_none_or(|of| of == name);
                for record in self.servers.records() {
                    if ours(&record.key.database) {
                        record.outdate();
                    }
                }
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

impl PoolRow {
    fn count_client(&mut self, client: &Client) {
        match client.seen().waits.get() {
            Some(since) => {
                self.clients_waiting += 1;
                self.wait_max = self.wait_max.max(since.elapsed());
            }
            None => self.clients_active += 1,
        }
        if let Some(since) = client.seen().in_transaction.get() {
            self.clients_in_transaction += 1;
            self.in_transaction_max = self.in_transaction_max.max(since.elapsed());
        }
        self.clients_pinned += u64::from(!client.seen().pinned.get().is_empty());
        self.clients_unconfirmed += u64::from(client.seen().unconfirmed.get());
    }

    fn count_server(&mut self, record: &Record) {
        // Each goes over a connection of its own, for one of a client's.
        self.servers_cancelling += record.cancels() as u64;
        self.cancels_active += record.cancels() as u64;
        *match record.state() {
            ServerState::Active => &mut self.servers_active,
            ServerState::Idle => &mut self.servers_idle,
            ServerState::Lane => &mut self.lanes,
            ServerState::Resetting => &mut self.servers_resetting,
            ServerState::Login => &mut self.servers_login,
            ServerState::BeingCancelled => &mut self.servers_being_cancelled,
        } += 1;
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
