//! The servers of one machine: asked in turn, and told one thing at a time.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{MissedTickBehavior, interval};
use wire::resp::{Value, value};

use super::asked::look;
use super::copied::CopyTracker;
use super::decide::{Act, CopyState, GuardedServer, Rule, decide};
use super::device::{Processes, Writing, is_here};
use super::findings::{Finding, ServerContext, findings, unasked};
use super::history::History;
use super::key::{Key, KeyHolder};
use super::seen::ServerReport;
use super::shown::{self, HostStatuses, key_words};
use crate::replica::Stop;
use crate::replica::state::State;
use crate::server::{ControlConnection, said};
use crate::settings::{GuardSettings, Mode};

/// A server of a host has come, or is one no more.
pub enum Change {
    /// The server is to be asked from the next look on.
    Come(Box<WatchedServer>),
    /// The one of this name.
    Gone(String),
}

/// What goes on with a master whose file Weir keeps, and that file's directory.
type FollowedFile = (Arc<State>, PathBuf);

/// A server that is watched.
pub struct WatchedServer {
    name: String,
    url: String,
    asked: ControlConnection,
    kept: Option<FollowedFile>,
    /// Its processes may be seen from here.
    is_here: bool,
    /// It is known which host it is on.
    is_placed: bool,
    seen: Result<ServerReport, String>,
    history: History,
    tracked: CopyTracker,
    copied: Option<CopyState>,
    /// So many of its replicas were this Weir's connections when it was asked.
    own: u64,
    told: Vec<(Act, SystemTime)>,
    told_words: Option<String>,
}

impl WatchedServer {
    /// A server that was not asked yet.
    pub fn new(
        name: String,
        url: String,
        asked: ControlConnection,
        kept: Option<FollowedFile>,
        is_here: bool,
    ) -> Self {
        Self {
            name,
            url,
            asked,
            kept,
            is_here,
            is_placed: true,
            seen: Err(String::new()),
            history: History::default(),
            tracked: CopyTracker::default(),
            copied: None,
            own: 0,
            told: Vec::new(),
            told_words: None,
        }
    }

    /// The same of which it is not known which host it is on: nothing is done there.
    #[must_use]
    pub fn of_unknown_host(self) -> Self {
        Self { is_placed: false, ..self }
    }

    async fn look(&mut self, now: Duration) {
        let joined = |of: &Self| of.kept.as_ref().map_or(0, |(state, _)| state.joins.count());
        let before = joined(self);
        self.seen = look(&mut self.asked).await;
        // One that came or went meanwhile may be among what it said.
        self.own = before.max(joined(self));
        let Ok(seen) = &self.seen else { return };
        self.history.note(seen, now);
        let file = self.kept.as_ref().map(|(state, _)| state.followed());
        self.copied = file.map(|file| self.tracked.note(seen, &file, now));
    }

    /// The devices of its append-only files that are of this machine: where, and whose they are.
    fn devices(&self) -> Vec<(PathBuf, Vec<u32>)> {
        let kept = self.kept.as_ref().map(|(_, dir)| (dir.clone(), vec![std::process::id()]));
        let of_server = self.seen.as_ref().ok().filter(|seen| self.is_here && seen.aof.is_some());
        let of_server = of_server.and_then(|seen| {
            let (process, settings) = (seen.process?, seen.settings.as_ref()?);
            is_here(process, &settings.dir).then(|| (settings.dir.clone(), vec![process]))
        });
        kept.into_iter().chain(of_server).collect()
    }

    fn is_busy(&self) -> bool {
        self.seen.as_ref().is_ok_and(ServerReport::is_busy)
    }

    fn guarded(&self) -> GuardedServer<'_> {
        GuardedServer { seen: self.seen.as_ref().ok(), copied: self.copied, told: &self.told }
    }
}

/// The servers of a machine.
pub struct Host {
    name: String,
    /// In the order of their names.
    servers: Vec<WatchedServer>,
    changes: mpsc::UnboundedReceiver<Change>,
    key: Key,
    /// Who may have a server of this host fork, shared with whoever takes bases from them.
    turn: Arc<Semaphore>,
    /// Held while a server rewrites or saves that was told to.
    taken: Option<OwnedSemaphorePermit>,
    settings: GuardSettings,
    processes: Arc<Mutex<Processes>>,
    shown: Arc<HostStatuses>,
    begun: Instant,
    /// The first server, which the key is asked for at, since when; where servers come and go.
    first: Option<(String, Instant)>,
    settles: bool,
}

impl Host {
    /// Nothing is asked yet, and there is no server yet.
    pub fn new(
        name: String,
        changes: mpsc::UnboundedReceiver<Change>,
        key: Key,
        settings: &GuardSettings,
        processes: Arc<Mutex<Processes>>,
        shown: Arc<HostStatuses>,
    ) -> Self {
        let (settings, begun) = (settings.clone(), Instant::now());
        Self {
            name,
            servers: Vec::new(),
            changes,
            key,
            turn: Arc::new(Semaphore::new(1)),
            taken: None,
            settings,
            processes,
            shown,
            begun,
            first: None,
            settles: false,
        }
    }

    /// The same that has its servers rewrite and save in turns with others who ask there.
    #[must_use]
    pub fn in_turns(self, turn: Arc<Semaphore>) -> Self {
        Self { turn, ..self }
    }

    /// The same that does nothing for as long as a key lasts after another server has become the
    /// host's first: another Weir may hold the key on the one before.
    #[must_use]
    pub fn settling(self, settles: bool) -> Self {
        Self { settles, ..self }
    }

    /// Takes in which servers have come and gone.
    fn change(&mut self) {
        let mut is_changed = false;
        while let Ok(change) = self.changes.try_recv() {
            is_changed = true;
            match change {
                Change::Gone(name) => self.servers.retain(|of| of.name != name),
                Change::Come(watched) => {
                    if self.settings.mode == Mode::Act {
                        self.shown.acts_on(&watched.name);
                    }
                    self.servers.push(*watched);
                }
            }
        }
        if !is_changed {
            return;
        }
        self.servers.sort_by(|one, other| one.name.cmp(&other.name));
        let first = self.servers.first().map(|of| of.name.clone());
        if first.as_ref() != self.first.as_ref().map(|(name, _)| name) {
            self.first = first.map(|name| (name, Instant::now()));
        }
        let acts = self.settings.mode == Mode::Act;
        let held = acts.then(|| KeyHolder::Unknown("it was not asked for yet".to_owned()));
        self.show(vec![Vec::new(); self.servers.len()], held.as_ref());
    }

    fn show(&self, found: Vec<Vec<Finding>>, held: Option<&KeyHolder>) {
        let servers = self.servers.iter().zip(found).map(|(server, findings)| shown::Server {
            name: server.name.clone(),
            url: server.url.clone(),
            findings,
            memory: self.shown.memories.of(&server.asked.known_as()),
            told: server.told_words.clone(),
        });
        self.shown.put(shown::Host {
            host: self.name.clone(),
            key: held.map(key_words),
            servers: servers.collect(),
        });
    }

    /// Watches until the process stops.
    pub async fn run(mut self, mut stop: Stop) {
        let mut ticks = interval(self.settings.ask_every.get());
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
            // What was begun at a server is ended, so that no half of a change stays.
            self.look().await;
        }
    }

    async fn look(&mut self) {
        self.change();
        let now = self.begun.elapsed();
        // Until the look after the next one, so that it is nobody else's turn meanwhile.
        let holds = self.settings.ask_every.get() * 2;
        for server in &mut self.servers {
            server.look(now).await;
            let memory = server.seen.as_ref().ok().and_then(|seen| seen.memory);
            self.shown.memories.note(&server.asked.known_as(), memory, holds);
        }
        let found = self.findings().await;
        let held = match self.settings.mode {
            Mode::Act => Some(self.act().await),
            Mode::Off | Mode::Watch => None,
        };
        self.show(found, held.as_ref());
    }

    async fn findings(&self) -> Vec<Vec<Finding>> {
        let writing = self.writing().await;
        let of = |(server, writing): (&WatchedServer, Vec<Writing>)| {
            let seen = match &server.seen {
                Ok(seen) => seen,
                Err(why) => return vec![unasked(why)],
            };
            let others = self.servers.iter().filter(|other| other.name != server.name);
            let busy: Vec<&str> =
                others.filter(|other| other.is_busy()).map(|other| other.name.as_str()).collect();
            let around = ServerContext {
                history: &server.history,
                is_followed: server.kept.is_some(),
                own: server.own,
                is_acted_on: self.settings.mode == Mode::Act,
                fork_max: self.settings.fork_max.get(),
                busy: &busy,
                writing: &writing,
            };
            findings(seen, &around)
        };
        self.servers.iter().zip(writing).map(of).collect()
    }

    /// Who else writes to the devices of each server. The system may take its time to say so.
    async fn writing(&self) -> Vec<Vec<Writing>> {
        let devices: Vec<_> = self.servers.iter().map(WatchedServer::devices).collect();
        if devices.iter().all(Vec::is_empty) {
            return vec![Vec::new(); devices.len()];
        }
        let (processes, count) = (Arc::clone(&self.processes), devices.len());
        let (most, every) = (self.settings.other_writes_max.bytes(), self.settings.ask_every.get());
        let looked = tokio::task::spawn_blocking(move || {
            let mut processes = processes.lock();
            processes.look(most, every / 2);
            let of = |devices: &Vec<(PathBuf, Vec<u32>)>| {
                let found = devices.iter().map(|(path, own)| processes.on_device_of(path, own));
                found.flatten().collect()
            };
            devices.iter().map(of).collect()
        });
        looked.await.unwrap_or_else(|_| vec![Vec::new(); count])
    }

    /// Whether another server was the first a while ago, where a key may lie still.
    fn is_settling(&self) -> bool {
        let since = self.first.as_ref().map(|(_, since)| since.elapsed());
        self.settles && since.is_some_and(|since| since < self.settings.key_expiry.get())
    }

    /// Has one server do what is due, if this Weir holds the key.
    async fn act(&mut self) -> KeyHolder {
        if !self.servers.iter().any(WatchedServer::is_busy) {
            self.taken = None;
        }
        if self.servers.iter().any(|of| !of.is_placed) {
            let why = "its Sentinels have not said yet where it is";
            return KeyHolder::Unknown(why.to_owned());
        }
        if self.is_settling() {
            let why = "another server of this host was the first just now";
            return KeyHolder::Unknown(why.to_owned());
        }
        let Some(first) = self.servers.first_mut() else {
            return KeyHolder::Unknown("there is no server".to_owned());
        };
        let held = self.key.hold(&mut first.asked).await;
        let now = SystemTime::now();
        let rule = Rule {
            appendonly: self.settings.appendonly,
            behind_max: self.settings.behind_max.get(),
            opened: self.settings.window.opened(now),
            now,
        };
        let guarded: Vec<_> = self.servers.iter().map(WatchedServer::guarded).collect();
        let Some((number, act)) = decide(&guarded, &rule).filter(|_| held == KeyHolder::Own) else {
            return held;
        };
        let Some(first) = self.servers.first_mut() else { return held };
        let held = self.key.confirm(&mut first.asked).await;
        if held != KeyHolder::Own {
            return held;
        }
        if matches!(act, Act::Rewrite | Act::Save) {
            // Somebody takes a base of a server of this host.
            let Ok(turn) = Arc::clone(&self.turn).try_acquire_owned() else { return held };
            self.taken = Some(turn);
        }
        if let Some(server) = self.servers.get_mut(number) {
            let done = server.tell(act, self.settings.min_replicas, now).await;
            self.shown.count(&server.name, act, done);
        }
        held
    }
}

impl WatchedServer {
    /// Has it do something; says whether it did.
    async fn tell(&mut self, act: Act, min_replicas: u32, now: SystemTime) -> bool {
        let before = self.seen.as_ref().ok().and_then(|seen| seen.settings.as_ref());
        let before = before.map_or(0, |settings| settings.min_replicas);
        let done = match act {
            Act::Rewrite => self.asked.tell(&["BGREWRITEAOF"]).await,
            Act::Save => self.asked.tell(&["BGSAVE"]).await,
            Act::FileOff => self.file_off(before, min_replicas).await,
            Act::FileOn => self.file_on(before, min_replicas).await,
        };
        self.told.retain(|(told, _)| *told != act);
        self.told.push((act, now));
        let words = match &done {
            Ok(()) => act.word().to_owned(),
            Err(why) => format!("{}, and it did not: {why}", act.word()),
        };
        if done.is_ok() || self.told_words.as_ref() != Some(&words) {
            tracing::info!(server = self.name, "the guard has told a server: {words}");
        }
        self.told_words = Some(words);
        done.is_ok()
    }

    /// Turns its append-only file off, in the file of its settings, too: a restart that found `yes`
    /// there would load what the file had at the time.
    async fn file_off(&mut self, before: u64, min_replicas: u32) -> Result<(), String> {
        // One that can't write its settings is left as it is.
        self.asked.tell(&["CONFIG", "REWRITE"]).await?;
        let wanted = min_replicas.to_string();
        let mut commands: Vec<&[&str]> = vec![&["CONFIG", "SET", "appendonly", "no"]];
        let refuse = ["CONFIG", "SET", "min-replicas-to-write", &wanted];
        let sets_replicas = min_replicas > 0 && before == 0;
        if sets_replicas {
            commands.push(&refuse);
        }
        commands.push(&["CONFIG", "REWRITE"]);
        let done = self.all(&commands).await;
        if let Err(why) = done {
            self.file_on(u64::from(min_replicas), min_replicas).await?;
            return Err(why);
        }
        Ok(())
    }

    /// Turns its append-only file on, and takes back what was set when it was turned off.
    async fn file_on(&mut self, before: u64, min_replicas: u32) -> Result<(), String> {
        let mut commands: Vec<&[&str]> = vec![&["CONFIG", "SET", "appendonly", "yes"]];
        if min_replicas > 0 && before == u64::from(min_replicas) {
            commands.push(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
        }
        commands.push(&["CONFIG", "REWRITE"]);
        self.all(&commands).await
    }

    /// Has all commands done or none, also where the connection breaks meanwhile; the first refusal
    /// is the error.
    async fn all(&mut self, commands: &[&[&str]]) -> Result<(), String> {
        let (multi, exec): (&[&str], &[&str]) = (&["MULTI"], &["EXEC"]);
        let all: Vec<&[&str]> =
            [multi].into_iter().chain(commands.iter().copied()).chain([exec]).collect();
        let replies = self.asked.ask(&all).await?;
        let refused = all.iter().zip(&replies).find_map(|(command, reply)| {
            let error = reply.strip_prefix(b"-")?;
            Some(format!("{}: {}", command.join(" "), said(error)))
        });
        if let Some(refused) = refused {
            return Err(refused);
        }
        match replies.last().map(|reply| value(reply)) {
            Some(Ok((Value::Array(done), _))) => {
                done.iter().zip(commands).try_for_each(|(done, command)| match done {
                    Value::Error(error) => Err(format!("{}: {}", command.join(" "), said(error))),
                    _ => Ok(()),
                })
            }
            _ => Err("EXEC: it was not done".to_owned()),
        }
    }
}
