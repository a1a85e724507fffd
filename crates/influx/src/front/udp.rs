//! Line protocol over UDP, as InfluxDB takes it: no answer, so what is lost is counted.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use arc_swap::Guard;
use wire::line::{self, Precision};

use super::Front;
use super::answer::Answer;
use super::destination::{Destination, Resolved, create_database};
use super::gateway::Live;
use super::settings::UdpSettings;
use super::stamp::Stamp;

/// Points gathered before they are appended, also when more datagrams wait.
const GATHERED_MAX: usize = 1 << 20;

/// Gathers that wait at once for a database to be made; what comes beyond is refused.
const CREATING_MAX: usize = 16;

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
                port.append(&destination, &mut self.gathered);
                self.gathered.clear();
            }
            Ok(Resolved::NoDatabase) if Rc::strong_count(port) <= CREATING_MAX => {
                let (port, gathered) = (port.clone(), std::mem::take(&mut self.gathered));
                tokio::task::spawn_local(async move { port.create_and_append(gathered).await });
            }
            _ => {
                port.refuse(&self.gathered);
                self.gathered.clear();
            }
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

    fn append(&self, to: &Destination, gathered: &mut Gathered) {
        let gateway = &self.front.gateway;
        if gateway.backends.embedded().is_some_and(|embedded| !embedded.has_room()) {
            gateway.metrics.refused.behind.inc();
            return self.refuse(gathered);
        }
        if let Some(checked) = self.front.check(to, &mut gathered.bytes) {
            gathered.points = checked.kept;
        }
        let (db, points) = (&self.settings.database, gathered.points);
        if points == 0 {
            return gateway.metrics.datagrams.taken.add(gathered.datagrams);
        }
        match self.front.append_unacknowledged(db, to, &gathered.bytes, points) {
            Err(_) => self.refuse(gathered),
            Ok(_nobody_waits) => {
                self.front.gateway.metrics.datagrams.taken.add(gathered.datagrams);
                self.front.gateway.metrics.accepted.add(u64::from(points));
            }
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
            Ok(Resolved::To(to)) => self.append(&to, &mut gathered),
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
