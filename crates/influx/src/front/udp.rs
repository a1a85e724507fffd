//! Line protocol over UDP, as InfluxDB takes it: no answer, so what is lost is counted.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use arc_swap::Guard;
use journal::Ticket;
use wire::line::{self, Precision};

use super::Front;
use super::answer::Answer;
use super::append::NotAdmitted;
use super::destination::{Destination, Resolved, create_database};
use super::gateway::Live;
use super::settings::UdpSettings;
use super::stamp::Stamp;

/// Points gathered before they are appended, also when more datagrams wait.
const GATHERED_MAX: usize = 1 << 20;

/// Gathers that wait at once for a database to be made, or to be checked elsewhere; what comes
/// beyond is refused.
const LATER_MAX: usize = 16;

/// Takes the datagrams of one UDP port on one worker.
pub struct Receiver {
    port: Rc<Port>,
    precision: Precision,
    /// The settings that the stamp is by.
    live: Arc<Live>,
    stamp: Stamp,
    /// It differs from one sender to another.
    by_peer: bool,
    gathered: Gathered,
}

/// What a task that makes the database needs too.
struct Port {
    front: Rc<Front>,
    settings: UdpSettings,
    creating: tokio::sync::Mutex<()>,
}

/// Points of several datagrams.
#[derive(Default)]
struct Gathered {
    bytes: Vec<u8>,
    points: u32,
    datagrams: u64,
}

impl Receiver {
    /// A receiver that has gathered nothing.
    pub fn new(front: Rc<Front>, settings: UdpSettings) -> Self {
        let live = Guard::into_inner(front.gateway.live());
        Self {
            precision: Precision::parse_v1(&settings.precision).unwrap_or(Precision::Nanosecond),
            stamp: Stamp::of(&live.settings.stamp, settings.listen),
            by_peer: Stamp::is_by_peer(&live.settings.stamp),
            live,
            port: Rc::new(Port { front, settings, creating: tokio::sync::Mutex::default() }),
            gathered: Gathered::default(),
        }
    }

    /// Makes the tags for a sender, where they are not those of the last datagram.
    fn stamp_for(&mut self, peer: SocketAddr) {
        let live = self.port.front.gateway.live();
        let changed = !Arc::ptr_eq(&live, &self.live);
        if changed {
            self.live = Guard::into_inner(live);
            self.by_peer = Stamp::is_by_peer(&self.live.settings.stamp);
        }
        if changed || self.by_peer {
            self.stamp = Stamp::of(&self.live.settings.stamp, peer);
        }
    }

    /// Appends what was gathered as one record; makes the database first where it is missing, as
    /// InfluxDB does.
    fn append(&mut self) {
        if self.gathered.points == 0 {
            return;
        }
        let port = &self.port;
        match port.lookup() {
            Ok(Resolved::To(destination)) => {
                if port.append(&destination, &mut self.gathered) {
                    self.gathered.clear();
                } else {
                    let append = |port: Rc<Port>, gathered| async move {
                        port.append_aside(&destination, gathered).await;
                    };
                    self.later(append);
                }
            }
            Ok(Resolved::NoDatabase) => {
                self.later(|port, gathered| async move { port.create_and_append(gathered).await });
            }
            _ => {
                port.refuse(&self.gathered);
                self.gathered.clear();
            }
        }
    }

    /// Does something with what was gathered, in a task of its own.
    fn later<F: Future<Output = ()> + 'static>(
        &mut self,
        what: impl FnOnce(Rc<Port>, Gathered) -> F,
    ) {
        let gathered = std::mem::take(&mut self.gathered);
        if Rc::strong_count(&self.port) <= LATER_MAX {
            tokio::task::spawn_local(what(Rc::clone(&self.port), gathered));
        } else {
            self.port.refuse(&gathered);
        }
    }
}

impl Gathered {
    fn clear(&mut self) {
        self.bytes.clear();
        self.points = 0;
        self.datagrams = 0;
    }
}

impl Port {
    fn lookup(&self) -> Result<Resolved, Answer> {
        let settings = &self.settings;
        self.front.gateway.lookup(&settings.database, &settings.retention_policy)
    }

    /// Whether it is known what becomes of the points; else they are still there.
    fn append(&self, to: &Destination, gathered: &mut Gathered) -> bool {
        let gateway = &self.front.gateway;
        if gateway.backends.embedded().is_some_and(|embedded| !embedded.has_room()) {
            gateway.metrics.refused.behind.inc();
            self.refuse(gathered);
            return true;
        }
        let mut outcome = line::Outcome { points: gathered.points, ..Default::default() };
        let db = &self.settings.database;
        match self.front.admit(db, to, &mut gathered.bytes, &mut outcome) {
            Ok(ticket) => self.appended(gathered, &outcome, ticket),
            Err(NotAdmitted::Refused(_)) => self.refuse(gathered),
            Err(NotAdmitted::Undecided) => {
                gathered.points = outcome.points;
                return false;
            }
        }
        true
    }

    /// Appends what can't be decided at once.
    async fn append_aside(&self, to: &Destination, mut gathered: Gathered) {
        let outcome = line::Outcome { points: gathered.points, ..Default::default() };
        let (gateway, bytes) = (&self.front.gateway, std::mem::take(&mut gathered.bytes));
        match gateway.admit_aside(&self.settings.database, to, bytes, outcome).await {
            Ok((outcome, ticket)) => self.appended(&gathered, &outcome, ticket),
            Err(_) => self.refuse(&gathered),
        }
    }

    /// Counts what was taken, for which nobody waits.
    fn appended(&self, gathered: &Gathered, outcome: &line::Outcome, ticket: Option<Ticket>) {
        let metrics = &self.front.gateway.metrics;
        metrics.datagrams.taken.add(gathered.datagrams);
        if ticket.is_some() {
            metrics.accepted.add(u64::from(outcome.points));
        }
    }

    fn refuse(&self, gathered: &Gathered) {
        self.front.gateway.metrics.datagrams.refused.add(gathered.datagrams);
    }

    async fn create_and_append(&self, mut gathered: Gathered) {
        let one_at_a_time = self.creating.lock().await;
        if matches!(self.lookup(), Ok(Resolved::NoDatabase)) {
            let create = create_database(&self.settings.database);
            if self.front.gateway.make(&create).await.is_err() {
                return self.refuse(&gathered);
            }
        }
        drop(one_at_a_time);
        match self.lookup() {
            Ok(Resolved::To(to)) => {
                if !self.append(&to, &mut gathered) {
                    self.append_aside(&to, gathered).await;
                }
            }
            _ => self.refuse(&gathered),
        }
    }
}

impl flow::udp::Receive for Receiver {
    /// A datagram with a bad line is dropped whole (`services/udp/service.go`, `parser`).
    fn datagram(&mut self, bytes: &[u8], peer: SocketAddr) {
        self.stamp_for(peer);
        let gateway = &self.port.front.gateway;
        let before = self.gathered.bytes.len();
        let options = line::Options {
            precision: self.precision,
            now_ns: super::now_ns(),
            stamp: self.stamp.tags(),
            unsigned: self.live.settings.unsigned_integers,
        };
        let outcome = line::normalise(bytes, &options, &mut self.gathered.bytes);
        if let Some(error) = outcome.error {
            self.gathered.bytes.truncate(before);
            gateway.metrics.datagrams.bad.inc();
            tracing::debug!(%peer, error, "a datagram was dropped: bad line protocol");
            return;
        }
        self.gathered.points += outcome.points;
        self.gathered.datagrams += 1;
        if self.gathered.bytes.len() >= GATHERED_MAX {
            self.append();
        }
    }

    fn pause(&mut self) {
        self.append();
    }
}
