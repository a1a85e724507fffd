//! A worker's part of what operators see.

use std::time::Instant;

use flow::service::ClientFigures;

use super::Front;
use crate::console::rows::{ClientRow, ConnectionsRow, LaneRow, RowKind, WorkerRows};
use crate::desk::{Card, Library, shown};

/// Bytes of a client's name that are shown.
const NAME_BYTES_MAX: usize = 128;

impl Front {
    /// What is wanted of this worker.
    pub fn part(&self, kind: RowKind) -> WorkerRows {
        match kind {
            RowKind::Lanes => self.lanes(),
            RowKind::Clients => WorkerRows { clients: self.clients(), ..WorkerRows::default() },
            RowKind::Keys => {
                let (now, samples) = (Instant::now(), &self.desk.samples);
                let servers = self.fabric.service();
                let name =
                    |key: &[u8]| servers.server_name(self.home(key).server).unwrap_or_default();
                let hot = samples.hot(now).into_iter().map(|of| {
                    let server = name(&of.key);
                    (of, server)
                });
                WorkerRows { hot: hot.collect(), big: samples.big(now), ..WorkerRows::default() }
            }
        }
    }

    fn lanes(&self) -> WorkerRows {
        let service = self.fabric.service();
        let lane = |of: flow::service::LaneFigures| {
            let place = service.place(of.server)?;
            Some(LaneRow {
                worker: self.worker,
                server: service.name(of.server),
                user: service.account(of.server).and_then(|account| account.user()),
                database: place.database,
                resp: place.version.number(),
                in_flight: of.in_flight,
                unsent: of.unsent,
                head: of.head_age,
                age: of.age,
            })
        };
        let connections = self.fabric.connections().into_iter().map(|(place, of)| ConnectionsRow {
            server: service.name(place),
            active: of.active,
            idle: of.idle,
            waiting: of.waiting,
        });
        WorkerRows {
            lanes: self.fabric.lanes().into_iter().filter_map(lane).collect(),
            connections: connections.collect(),
            ..WorkerRows::default()
        }
    }

    fn clients(&self) -> Vec<ClientRow> {
        let row = |(id, card): (u64, std::rc::Rc<Card>)| {
            self.row(&card, self.fabric.client(id).map(|client| client.figures()))
        };
        self.desk.clients().into_iter().map(row).collect()
    }

    /// What is shown of a client.
    pub fn row(&self, card: &Card, figures: Option<ClientFigures>) -> ClientRow {
        let (last, at) = card.last.get();
        let now = Instant::now();
        ClientRow {
            id: card.id,
            from: card.from,
            address: card.address(),
            local_address: card.local_address(),
            name: shown(&card.name.borrow(), NAME_BYTES_MAX),
            library: {
                let Library { name, version } = &*card.library.borrow();
                [name, version].map(|of| shown(of, NAME_BYTES_MAX))
            },
            user: card.user.borrow().as_deref().map(str::to_owned),
            database: card.database.get(),
            resp: card.version.get().number(),
            age: now.saturating_duration_since(card.since),
            idle: now.saturating_duration_since(at),
            commands: card.commands.get(),
            last,
            in_multi: card.in_multi.get(),
            watches: card.watches.get(),
            monitors: card.monitors.get(),
            tracks: card.tracks.get(),
            subscriptions: card.subscriptions.get(),
            figures: figures.unwrap_or_default(),
        }
    }
}
