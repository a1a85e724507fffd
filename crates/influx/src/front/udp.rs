//! Line protocol over UDP, as InfluxDB takes it: no answer, so what is lost is counted.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use arc_swap::Guard;
use wire::line::{self, Precision};

use super::Front;
use super::live::Live;
use super::stamp::Stamp;
use crate::admission::{Destination, NameError, NotAdmitted, Points, Refusal, Room};
use crate::collisions::{Collisions, Source};
use crate::settings::UdpSettings;

/// Bytes of points gathered before they are admitted, also when more datagrams wait.
const GATHERED_MAX: usize = 1 << 20;

/// Gathers that wait at once for a database to be made, or to be checked elsewhere; what comes
/// beyond is refused.
const LATER_MAX: usize = 16;

/// Takes the datagrams of one UDP port on one worker.
pub struct Receiver {
    port: Rc<Port>,
    precision: Precision,
    /// What the stamp was made by.
    live: Arc<Live>,
    stamp: Stamp,
    /// Senders as sources of points.
    senders: HashMap<SocketAddr, Source>,
    gathered: Gathered,
}

/// Senders that a receiver remembers at once; more of them are new again.
const SENDERS_MAX: usize = 1024;

/// What a task that makes the database needs too.
struct Port {
    front: Rc<Front>,
    settings: UdpSettings,
}

/// Points of several datagrams.
struct Gathered {
    points: Points,
    datagrams: u64,
}

impl Receiver {
    /// A receiver that has gathered nothing.
    pub fn new(front: Rc<Front>, settings: UdpSettings) -> Self {
        let live = Guard::into_inner(front.gateway.live());
        let gathered = Gathered::new(&front);
        Self {
            precision: Precision::parse_v1(&settings.precision).unwrap_or(Precision::Nanosecond),
            stamp: Stamp::of(&live.stamp, settings.listen),
            live,
            port: Rc::new(Port { front, settings }),
            senders: HashMap::new(),
            gathered,
        }
    }

    /// Makes the tags for a sender, where they are not those of the last datagram.
    fn stamp_for(&mut self, peer: SocketAddr) {
        let live = self.port.front.gateway.live();
        let changed = !Arc::ptr_eq(&live, &self.live);
        if changed {
            self.live = Guard::into_inner(live);
        }
        if changed || self.live.stamp.by_peer {
            self.stamp = Stamp::of(&self.live.stamp, peer);
        }
    }

    /// Has what was gathered admitted as one record; makes the database first where it is missing,
    /// as InfluxDB does.
    fn admit(&mut self) {
        if self.gathered.points.count() == 0 {
            return;
        }
        let port = &self.port;
        match port.find() {
            Ok(to) => match port.admit_now(&to, &mut self.gathered) {
                None => self.gathered.clear(&port.front),
                Some(room) => {
                    let Destination { policy, target, .. } = to;
                    self.later(|port, gathered| async move {
                        let to = Destination { db: &port.settings.database, policy, target };
                        port.admit_aside(room, &to, gathered).await;
                    });
                }
            },
            Err(NameError::NoDatabase) => {
                self.later(|port, gathered| async move { port.create_and_admit(gathered).await });
            }
            Err(NameError::NoPolicy | NameError::Refused(_)) => {
                port.refuse(self.gathered.datagrams);
                self.gathered.clear(&port.front);
            }
        }
    }

    /// Does something with what was gathered, in a task of its own.
    fn later<F: Future<Output = ()> + 'static>(
        &mut self,
        what: impl FnOnce(Rc<Port>, Gathered) -> F,
    ) {
        let gathered = std::mem::replace(&mut self.gathered, Gathered::new(&self.port.front));
        if Rc::strong_count(&self.port) <= LATER_MAX {
            tokio::task::spawn_local(what(Rc::clone(&self.port), gathered));
        } else {
            self.port.refuse(gathered.datagrams);
        }
    }
}

/// A sender as a source of points.
fn source_of(
    peer: SocketAddr,
    senders: &mut HashMap<SocketAddr, Source>,
    collisions: &Collisions,
) -> Source {
    if senders.len() >= SENDERS_MAX && !senders.contains_key(&peer) {
        senders.clear();
    }
    *senders.entry(peer).or_insert_with(|| collisions.add_source(peer, None))
}

impl Gathered {
    fn new(front: &Front) -> Self {
        Self { points: front.gateway.admission.points(), datagrams: 0 }
    }

    fn clear(&mut self, front: &Front) {
        front.gateway.admission.restart(&mut self.points);
        self.datagrams = 0;
    }
}

impl Port {
    fn find(&self) -> Result<Destination<'_>, NameError> {
        self.front.gateway.find(&self.settings.database, &self.settings.retention_policy)
    }

    /// `None` where it is known what becomes of the points. Else they are still there, and there
    /// is room for them.
    fn admit_now(&self, to: &Destination<'_>, gathered: &mut Gathered) -> Option<Room> {
        let gateway = &self.front.gateway;
        let Some(room) = gateway.admission.room_now() else {
            gateway.metrics.refused.behind.inc();
            self.refuse(gathered.datagrams);
            return None;
        };
        match self.front.admission.admit_now(room, to, &mut gathered.points) {
            Ok(admitted) => self.admitted(gathered.datagrams, &admitted.outcome),
            Err(NotAdmitted::Refused(refusal)) => self.refuse_for(&refusal, gathered.datagrams),
            Err(NotAdmitted::NotNow) => return Some(room),
        }
        None
    }

    /// Has points admitted that can't be decided at once.
    async fn admit_aside(&self, room: Room, to: &Destination<'_>, gathered: Gathered) {
        let Gathered { points, datagrams } = gathered;
        match self.front.gateway.admission.admit_aside(room, to, points).await {
            Ok(admitted) => self.admitted(datagrams, &admitted.outcome),
            Err(refusal) => self.refuse_for(&refusal, datagrams),
        }
    }

    async fn create_and_admit(&self, mut gathered: Gathered) {
        let UdpSettings { database, retention_policy, .. } = &self.settings;
        match self.front.gateway.create_and_find(database, retention_policy).await {
            Ok(to) => {
                if let Some(room) = self.admit_now(&to, &mut gathered) {
                    self.admit_aside(room, &to, gathered).await;
                }
            }
            Err(NameError::Refused(refusal)) => self.refuse_for(&refusal, gathered.datagrams),
            Err(NameError::NoDatabase | NameError::NoPolicy) => self.refuse(gathered.datagrams),
        }
    }

    /// Counts what the journal has, for whose acknowledgement nobody waits.
    fn admitted(&self, datagrams: u64, outcome: &line::Outcome) {
        let metrics = &self.front.gateway.metrics;
        metrics.datagrams.taken.add(datagrams);
        metrics.accepted.add(u64::from(outcome.points));
    }

    fn refuse_for(&self, refusal: &Refusal, datagrams: u64) {
        self.front.gateway.metrics.refused.count(refusal);
        self.refuse(datagrams);
    }

    fn refuse(&self, datagrams: u64) {
        self.front.gateway.metrics.datagrams.refused.add(datagrams);
    }
}

impl flow::udp::Receive for Receiver {
    /// A datagram with a bad line is dropped whole (`services/udp/service.go`, `parser`).
    fn datagram(&mut self, bytes: &[u8], peer: SocketAddr) {
        self.stamp_for(peer);
        let gateway = &self.port.front.gateway;
        let (points, senders) = (&mut self.gathered.points, &mut self.senders);
        let source = || Some(source_of(peer, senders, gateway.collisions.as_ref()?));
        let options = line::Options {
            precision: self.precision,
            now_ns: super::now_ns(),
            stamp: self.stamp.tags(),
            unsigned: self.live.writes.unsigned,
        };
        if let Err(error) = points.add_whole(bytes, &options, source) {
            gateway.metrics.datagrams.bad.inc();
            tracing::debug!(%peer, error, "a datagram was dropped: bad line protocol");
            return;
        }
        self.gathered.datagrams += 1;
        if self.gathered.points.lines().len() >= GATHERED_MAX {
            self.admit();
        }
    }

    fn pause(&mut self) {
        self.admit();
    }
}
