//! What operators ask: the console, and what shows or touches all clients.

use std::cell::Cell;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

use flow::service::{Apart, Client, Pause};
use wire::resp::{Command, Version, put_error, put_integer, put_simple};

use super::{Asking, CommandResult, Session};
use crate::console::rows::RowKind;
use crate::console::{self, Order, Show, put_table, tables};
use crate::desk::{Card, Watcher};
use crate::front::{Front, PoolState};
use crate::servers::Servers;

/// How often it is looked whether everything under way has come to its end.
const LOOK: Duration = Duration::from_millis(20);
/// Commands that were slow, as `SLOWLOG GET` shows them where it is not told how many.
pub(super) const SLOW_SHOWN: usize = 10;

/// A client that watches all commands, until it is dropped.
#[derive(Debug)]
pub(super) struct Monitoring {
    shared: Arc<PoolState>,
    card: Rc<Card>,
    client: Weak<Client<Servers>>,
    is_on: Rc<Cell<bool>>,
}

impl Drop for Monitoring {
    fn drop(&mut self) {
        self.is_on.set(false);
        self.card.monitors.set(false);
        self.shared.desk.monitors.leave(self.card.id);
        if let Some(client) = self.client.upgrade() {
            client.listens(self.card.listens());
        }
    }
}

impl Session {
    /// Does something that other workers have a part in, and answers with what comes of it.
    pub(super) fn ask_workers<F>(
        &self,
        client: &Asking,
        what: impl FnOnce(Rc<Front>) -> F + 'static,
    ) where
        F: Future<Output = Vec<u8>> + 'static,
    {
        let front = Rc::clone(&self.front);
        client.apart(move |apart: Apart<Servers>| {
            tokio::task::spawn_local(async move { apart.answer(&what(front).await) });
        });
        self.front.metrics.answered.inc();
    }

    pub(super) fn console(&self, command: Command<'_>, client: &Asking) -> CommandResult {
        let (order, version) = (console::read(&command)?, self.version);
        if order != Order::Help {
            tracing::info!(?order, client = self.card.id, "the Redis console");
        }
        self.ask_workers(client, move |front| async move {
            let mut out = Vec::new();
            match order {
                Order::Help => console::put_own_help(&mut out),
                Order::Show(show) => show_table(&front, show, version, &mut out).await,
                Order::Pause => pause(&front, &mut out).await,
                Order::Resume => {
                    set_pause(&front.shared, None).await;
                    put_simple(&mut out, b"OK");
                }
                Order::Kill(id) => match kill(&front.shared, move |of| of == id).await {
                    0 => put_error(&mut out, "ERR No such client ID"),
                    _ => put_simple(&mut out, b"OK"),
                },
            }
            out
        });
        Ok(())
    }

    /// `MONITOR`.
    pub(super) fn monitor(&mut self, client: &Asking) {
        self.say_ok(client);
        if self.monitoring.is_some() {
            return;
        }
        let (shared, card) = (Arc::clone(&self.front.shared), Rc::clone(&self.card));
        let Watcher(mut lines) = shared.desk.monitors.enter(card.id);
        card.monitors.set(true);
        client.listens(true);
        let (client, is_on) = (Rc::downgrade(client), Rc::new(Cell::new(true)));
        let monitoring =
            Monitoring { shared, card, client: Weak::clone(&client), is_on: Rc::clone(&is_on) };
        self.monitoring = Some(monitoring);
        tokio::task::spawn_local(async move {
            while let Some(line) = lines.recv().await {
                let Some(client) = client.upgrade().filter(|_| is_on.get()) else { return };
                // A server takes these for answers, and those of its subscriptions for none.
                if !client.hears_no_answers() {
                    client.push(&line);
                }
            }
            // It was let go because it was too far behind, unless it ended that itself.
            if is_on.get()
                && let Some(client) = client.upgrade()
            {
                client.part(Vec::new());
            }
        });
    }
}

async fn show_table(front: &Rc<Front>, show: Show, version: Version, out: &mut Vec<u8>) {
    let shared = &front.shared;
    let table = match show {
        Show::Backends => tables::backends(&shared.backends(), &shared.parts(RowKind::Lanes).await),
        Show::Lanes => tables::lanes(&shared.parts(RowKind::Lanes).await),
        Show::Clients => tables::clients(&clients(shared).await),
        Show::Stats => tables::stats(&shared.times),
        Show::Slow => tables::slow(&shared.desk.slow.newest(usize::MAX)),
        Show::Hot => tables::hot(&shared.parts(RowKind::Keys).await),
        Show::Big => tables::big(&shared.parts(RowKind::Keys).await),
        Show::Aof => {
            let follower = shared.follower.as_ref();
            tables::aof(&follower.map(|of| of.followed()).unwrap_or_default())
        }
    };
    put_table(out, &table, version);
}

/// All clients of the pool, by their numbers.
pub(super) async fn clients(shared: &PoolState) -> Vec<console::rows::ClientRow> {
    let parts = shared.parts(RowKind::Clients).await;
    let mut all: Vec<_> = parts.into_iter().flat_map(|part| part.clients).collect();
    all.sort_by_key(|of| of.id);
    all
}

/// Closes those clients by their numbers; how many there were.
pub(super) async fn kill(
    shared: &PoolState,
    is_such: impl Fn(u64) -> bool + Clone + Send + 'static,
) -> i64 {
    let killed = shared.asked(move |front| front.kill(&is_such)).await;
    killed.into_iter().sum()
}

/// Puts a pause in force on all workers, or ends it.
pub(super) async fn set_pause(shared: &PoolState, pause: Option<Pause>) {
    shared.asked(move |front| front.fabric.pause(pause)).await;
}

async fn pause(front: &Rc<Front>, out: &mut Vec<u8>) {
    set_pause(&front.shared, Some(Pause { writes_only: false, until: None })).await;
    let until = Instant::now() + front.fabric.settings().timeout;
    loop {
        let busy = front.shared.asked(|front| front.fabric.figures().in_flight).await;
        let busy: usize = busy.into_iter().sum();
        if busy == 0 {
            return put_simple(out, b"OK");
        }
        if Instant::now() >= until {
            let words = format!("ERR weir: paused, but {busy} commands are under way still");
            return put_error(out, &words);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Appends a number of seconds since the epoch.
pub(super) fn put_moment(out: &mut Vec<u8>, at: std::time::SystemTime) {
    let since = at.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    put_integer(out, i64::try_from(since.as_secs()).unwrap_or(i64::MAX));
}
