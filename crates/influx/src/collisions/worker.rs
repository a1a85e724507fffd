//! Looking for collisions on a worker, which never waits.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::keys::PointDigest;
use super::{BucketBusy, Collisions, Source, WrittenPoint, WrittenTo};

/// Detection as one worker has it.
#[derive(Clone)]
pub struct WorkerCollisions(Rc<Worker>);

struct Worker {
    shared: Arc<Collisions>,
    digest: RefCell<PointDigest>,
    deferred: RefCell<Deferred>,
}

/// Points whose buckets somebody else was looking into when they came.
#[derive(Default)]
struct Deferred {
    points: Vec<DeferredPoint>,
    /// Bytes that all of them take.
    bytes: usize,
    /// The buckets of the points, a bit each.
    buckets: u64,
}

struct DeferredPoint {
    db: Box<str>,
    destination: u64,
    source: Source,
    record: Box<[u8]>,
    time_ns: i64,
    came_ms: u64,
    bucket: usize,
}

/// Bytes of points that a worker puts aside; what comes beyond is not looked at.
const DEFERRED_BYTES_MAX: usize = 256 << 10;

/// When points that were put aside are looked at again, unless a write comes before.
const PAUSE: Duration = Duration::from_millis(1);

impl WorkerCollisions {
    /// Detection on a worker's thread.
    pub fn new(shared: Arc<Collisions>) -> Self {
        Self(Rc::new(Worker { shared, digest: RefCell::default(), deferred: RefCell::default() }))
    }

    /// As [`Collisions::observe`], without waiting.
    pub fn observe<'a>(
        &self,
        db: &str,
        policy: &str,
        points: impl Iterator<Item = WrittenPoint<'a>>,
    ) {
        let Worker { shared, digest, deferred } = &*self.0;
        self.0.look_again();
        let to = shared.written_to(db, policy);
        let now_ms = shared.now_ms();
        let mut digest = digest.borrow_mut();
        for point in points {
            // Behind those of its bucket that wait.
            let lock = |bucket| match deferred.borrow().has(bucket) {
                false => shared.window_now(bucket),
                true => Err(BucketBusy(bucket)),
            };
            if let Err(BucketBusy(bucket)) = shared.look(to, &point, now_ms, &mut digest, lock) {
                self.defer(to, &point, now_ms, bucket);
            }
        }
        shared.turn(now_ms);
    }

    fn defer(&self, to: WrittenTo<'_>, point: &WrittenPoint<'_>, came_ms: u64, bucket: usize) {
        let mut deferred = self.0.deferred.borrow_mut();
        let bytes = DeferredPoint::bytes(to.db, point.record);
        if deferred.bytes + bytes > DEFERRED_BYTES_MAX {
            self.0.shared.unseen.inc();
            return;
        }
        let is_first = deferred.points.is_empty();
        deferred.push(DeferredPoint {
            db: to.db.into(),
            destination: to.destination,
            source: point.source,
            record: point.record.into(),
            time_ns: point.time_ns,
            came_ms,
            bucket,
        });
        if is_first {
            let worker = Rc::clone(&self.0);
            tokio::task::spawn_local(async move {
                while !worker.look_again() {
                    tokio::time::sleep(PAUSE).await;
                }
            });
        }
    }
}

impl Worker {
    /// Looks at what was put aside, in the order of each bucket. Whether nothing is left.
    fn look_again(&self) -> bool {
        let Self { shared, digest, deferred } = self;
        let mut deferred = deferred.borrow_mut();
        let mut digest = digest.borrow_mut();
        let waiting = std::mem::take(&mut *deferred);
        for point in waiting.points {
            let DeferredPoint { source, record, time_ns, came_ms, bucket, .. } = &point;
            let to = WrittenTo { db: &point.db, destination: point.destination };
            let written = WrittenPoint { source: *source, record, time_ns: *time_ns };
            let is_behind = deferred.has(*bucket);
            let lock = |bucket| shared.window_now(bucket);
            if is_behind || shared.look(to, &written, *came_ms, &mut digest, lock).is_err() {
                deferred.push(point);
            }
        }
        deferred.points.is_empty()
    }
}

impl DeferredPoint {
    /// Bytes that it takes in all.
    fn bytes(db: &str, record: &[u8]) -> usize {
        size_of::<Self>() + db.len() + record.len()
    }
}

impl Deferred {
    fn push(&mut self, point: DeferredPoint) {
        self.bytes += DeferredPoint::bytes(&point.db, &point.record);
        self.buckets |= bit(point.bucket);
        self.points.push(point);
    }

    /// Whether points of a bucket wait.
    fn has(&self, bucket: usize) -> bool {
        self.buckets & bit(bucket) != 0
    }
}

/// The bit of a bucket, of which there are at most 64.
fn bit(bucket: usize) -> u64 {
    1 << bucket
}
