//! Sees a thread whose loop stands still, and says in which stage it stands.
//!
//! A thread beats its [`Pulse`] on every turn of its loop; the watchdog looks from a thread of its
//! own. What a worker does between two beats blocks every client of that worker. Work whose length
//! a client decides is measured by itself, in CPU time, however short ([`Pulse::enter_sized`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};

use crate::metrics::{Counter, Gauge, Histogram, Registry};

/// CPU time of one piece of work past which it has held its thread for too long.
const HELD: Duration = Duration::from_millis(10);
/// Work on fewer bytes is not measured, since that would cost more than it can show.
const MEASURED_BYTES: usize = 16 << 10;

/// What a thread may be doing, for the watchdog's reports: a static of whoever does it.
#[derive(Debug)]
pub struct Stage {
    name: &'static str,
}

/// Anything that has no stage of its own.
pub static LOOP: Stage = Stage::new("loop");
/// A thread that waits for work and is not expected to beat.
pub static WAITING: Stage = Stage::new("waiting");

impl Stage {
    /// A stage that metrics and logs call `name`.
    pub const fn new(name: &'static str) -> Self {
        Self { name }
    }

    /// The stage's name in metrics and logs.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Its address, which no other static has.
    #[inline]
    fn id(&'static self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

/// A thread's sign of life. Written by one thread, read by the watchdog; both calls cost a relaxed
/// store. Clones are the same pulse.
#[derive(Clone, Debug)]
pub struct Pulse(Arc<Beats>);

#[derive(Debug)]
#[repr(align(64))]
struct Beats {
    name: String,
    count: AtomicU64,
    /// The `id` of its stage.
    stage: AtomicUsize,
    /// Pieces of work that held the thread for too long since the watchdog looked last.
    held: Mutex<Vec<(&'static Stage, u64)>>,
}

impl Beats {
    /// Rare, so that a lock costs nothing that matters.
    fn note_held(&self, stage: &'static Stage) {
        let mut held = self.held.lock();
        match held.iter_mut().find(|(known, _)| known.id() == stage.id()) {
            Some((_, times)) => *times += 1,
            None => held.push((stage, 1)),
        }
    }

    fn take_held(&self) -> Vec<(&'static Stage, u64)> {
        std::mem::take(&mut *self.held.lock())
    }
}

impl Pulse {
    /// The pulse of the thread that reports call `name`, as `worker-0`.
    pub fn new(name: impl Into<String>) -> Self {
        Self(Arc::new(Beats {
            name: name.into(),
            count: AtomicU64::new(0),
            stage: AtomicUsize::new(LOOP.id()),
            held: Mutex::default(),
        }))
    }

    /// The name of the thread in reports.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Says that the loop has turned. Only the pulse's own thread calls this.
    #[inline]
    pub fn beat(&self) {
        let count = self.0.count.load(Ordering::Relaxed);
        self.0.count.store(count.wrapping_add(1), Ordering::Relaxed);
    }

    /// Says what the thread does from now until the guard goes, which brings the former stage
    /// back. Held over an `.await` it would name the stage of another task.
    #[inline]
    #[must_use = "the stage ends when the guard goes"]
    pub fn enter(&self, stage: &'static Stage) -> Entered<'_> {
        let former = self.0.stage.load(Ordering::Relaxed);
        self.0.stage.store(stage.id(), Ordering::Relaxed);
        Entered { pulse: self, former, since: None }
    }

    /// As [`enter`](Self::enter), for work on so many bytes: where it takes more than 10 ms of the
    /// thread's CPU time until the guard goes, it is counted as having held the thread. Time for
    /// which other threads had the CPU does not count.
    #[inline]
    #[must_use = "the stage ends when the guard goes"]
    pub fn enter_sized(&self, stage: &'static Stage, bytes: usize) -> Entered<'_> {
        let mut entered = self.enter(stage);
        if bytes >= MEASURED_BYTES {
            entered.since = Some((stage, cpu_time()));
        }
        entered
    }

    /// Runs `work`, in `stage` whenever it is polled: [`enter`](Self::enter) for what awaits.
    pub async fn during<F: Future>(&self, stage: &'static Stage, work: F) -> F::Output {
        let mut work = std::pin::pin!(work);
        std::future::poll_fn(|cx| {
            let _entered = self.enter(stage);
            work.as_mut().poll(cx)
        })
        .await
    }

    /// Says that the loop has ended: no further beat is expected.
    pub fn end(&self) {
        self.0.stage.store(WAITING.id(), Ordering::Relaxed);
    }

    /// Whether the thread is in this stage.
    fn is_in(&self, stage: &'static Stage) -> bool {
        self.0.stage.load(Ordering::Relaxed) == stage.id()
    }
}

/// A stage under way; see [`Pulse::enter`].
#[derive(Debug)]
pub struct Entered<'a> {
    pulse: &'a Pulse,
    former: usize,
    /// The stage that is measured, and the CPU time when it began.
    since: Option<(&'static Stage, Duration)>,
}

/// The CPU time that this thread has used.
fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

impl Drop for Entered<'_> {
    #[inline]
    fn drop(&mut self) {
        self.pulse.0.stage.store(self.former, Ordering::Relaxed);
        if let Some((stage, since)) = self.since
            && cpu_time().saturating_sub(since) > HELD
        {
            self.pulse.0.note_held(stage);
        }
    }
}

/// The thread that looks after pulses; it ends when this goes.
#[derive(Debug)]
pub struct Watchdog {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Watches `pulses` and reports one that does not beat for longer than `limit`: a warning with
    /// its stage when that is seen, another with its length when it ends, and in metrics
    /// `weir_worker_stalls_total{worker,stage}`, `weir_worker_stall_seconds{worker}` and
    /// `weir_worker_stalled{worker}`. A pulse in [`WAITING`] never stalls. Work that held a
    /// thread for more than 10 ms is counted in `weir_worker_held_total{worker,stage}`.
    ///
    /// `stages` are those that the threads may enter. Another one is shown as `loop`.
    ///
    /// # Errors
    /// The thread could not be started.
    pub fn start(
        limit: Duration,
        registry: &Registry,
        pulses: Vec<Pulse>,
        stages: impl IntoIterator<Item = &'static Stage>,
    ) -> std::io::Result<Self> {
        let (stop, stopped) = channel();
        let now = Instant::now();
        let stages: Arc<[_]> = [&LOOP, &WAITING].into_iter().chain(stages).collect();
        let patient = |pulse| Patient::new(pulse, Arc::clone(&stages), registry, now);
        let mut patients: Vec<_> = pulses.into_iter().map(patient).collect();
        let registry = registry.clone();
        let every = (limit / 4).clamp(Duration::from_millis(1), Duration::from_secs(1));
        let thread = std::thread::Builder::new().name("watchdog".to_owned()).spawn(move || {
            let mut last = Instant::now();
            while stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                let now = Instant::now();
                // Late itself: the whole process stood still, so no pulse can be blamed.
                let excused = now.duration_since(last) > every + limit / 2;
                last = now;
                for patient in &mut patients {
                    patient.look(now, limit, excused, &registry);
                }
            }
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // A watchdog that panicked has nothing more to say.
            let _ = thread.join();
        }
    }
}

/// A pulse as the watchdog saw it last.
struct Patient {
    pulse: Pulse,
    count: u64,
    changed: Instant,
    stalled: Option<&'static Stage>,
    gauge: Gauge,
    stages: Arc<[&'static Stage]>,
}

impl Patient {
    fn new(pulse: Pulse, stages: Arc<[&'static Stage]>, registry: &Registry, now: Instant) -> Self {
        // From 0 on: a counter that begins with its first event has not risen by it.
        for stage in &*stages {
            held(registry, &pulse, stage);
            stalls(registry, &pulse, stage);
        }
        stall_seconds(registry, &pulse);
        let gauge = registry.gauge(
            "weir_worker_stalled",
            "Whether the worker's loop stands still now.",
            &[("worker", pulse.name())],
        );
        Self {
            count: pulse.0.count.load(Ordering::Relaxed),
            pulse,
            changed: now,
            stalled: None,
            stages,
            gauge,
        }
    }

    fn look(&mut self, now: Instant, limit: Duration, excused: bool, registry: &Registry) {
        self.count_held(registry);
        let count = self.pulse.0.count.load(Ordering::Relaxed);
        let stage = self.stage();
        let stood = now.duration_since(self.changed);
        if count != self.count || self.pulse.is_in(&WAITING) {
            self.count = count;
            self.changed = now;
            self.ended(stood, registry);
        } else if excused && self.stalled.is_none() {
            self.changed = now;
        } else if stood > limit && self.stalled.is_none() {
            self.began(stage, stood, registry);
        }
    }

    /// The stage the thread is in.
    fn stage(&self) -> &'static Stage {
        self.stages.iter().find(|stage| self.pulse.is_in(stage)).copied().unwrap_or(&LOOP)
    }

    fn count_held(&self, registry: &Registry) {
        for (stage, times) in self.pulse.0.take_held() {
            held(registry, &self.pulse, stage).add(times);
        }
    }

    fn began(&mut self, stage: &'static Stage, stood: Duration, registry: &Registry) {
        self.stalled = Some(stage);
        self.gauge.set(1);
        let worker = self.pulse.name();
        stalls(registry, &self.pulse, stage).inc();
        let stood_ms = stood.as_millis() as u64;
        tracing::warn!(worker, stage = stage.name(), stood_ms, "worker stands still");
    }

    fn ended(&mut self, stood: Duration, registry: &Registry) {
        let Some(stage) = self.stalled.take() else {
            return;
        };
        self.gauge.set(0);
        let worker = self.pulse.name();
        stall_seconds(registry, &self.pulse).observe(stood);
        let stood_ms = stood.as_millis() as u64;
        tracing::warn!(worker, stage = stage.name(), stood_ms, "worker goes on");
    }
}

fn held(registry: &Registry, pulse: &Pulse, stage: &Stage) -> Counter {
    registry.counter(
        "weir_worker_held_total",
        "Pieces of a client's work that took more than 10 ms of a worker's CPU time.",
        &[("worker", pulse.name()), ("stage", stage.name())],
    )
}

fn stalls(registry: &Registry, pulse: &Pulse, stage: &Stage) -> Counter {
    registry.counter(
        "weir_worker_stalls_total",
        "Times a worker's loop stood still for longer than the limit, by what it did.",
        &[("worker", pulse.name()), ("stage", stage.name())],
    )
}

fn stall_seconds(registry: &Registry, pulse: &Pulse) -> Histogram {
    registry.histogram(
        "weir_worker_stall_seconds",
        "How long a worker's loop stood still, once it turned again.",
        &[("worker", pulse.name())],
    )
}

#[cfg(test)]
mod tests {
    use super::{LOOP, Patient, Pulse, Stage, WAITING, Watchdog};
    use crate::metrics::Registry;
    use std::time::{Duration, Instant};

    static PARSE: Stage = Stage::new("parse");
    static APPEND: Stage = Stage::new("append");
    static STAGES: [&Stage; 2] = [&PARSE, &APPEND];

    const LIMIT: Duration = Duration::from_millis(100);
    const LONG: Duration = Duration::from_secs(60);

    /// Beats until `until` holds.
    fn beat_until(pulse: &Pulse, until: impl Fn() -> bool) -> bool {
        let deadline = Instant::now() + LONG;
        while !until() && Instant::now() < deadline {
            pulse.beat();
            std::thread::sleep(Duration::from_millis(2));
        }
        until()
    }

    fn stand_until(until: impl Fn() -> bool) -> bool {
        let deadline = Instant::now() + LONG;
        while !until() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
        until()
    }

    #[test]
    fn a_thread_that_stands_still_is_reported_once_with_its_stage() {
        let registry = Registry::new();
        let pulse = Pulse::new("worker-7");
        let shows = |line: &str| registry.render().contains(line);
        let watchdog;
        {
            // Entered first, since this thread may stand still at any place.
            let _entered = pulse.enter(&PARSE);
            watchdog = Watchdog::start(LIMIT, &registry, vec![pulse.clone()], STAGES).unwrap();
            assert!(stand_until(|| shows("weir_worker_stalled{worker=\"worker-7\"} 1")));
        }
        std::thread::sleep(3 * LIMIT);
        let stalls = "weir_worker_stalls_total{stage=\"parse\",worker=\"worker-7\"}";
        assert!(shows(&format!("{stalls} 1")), "{}", registry.render());
        // It may be kept from beating for a moment, which is another one.
        let ended = "weir_worker_stall_seconds_count{worker=\"worker-7\"} 0";
        let goes_on = "weir_worker_stalled{worker=\"worker-7\"} 0";
        assert!(beat_until(&pulse, || !shows(ended) && shows(goes_on)));
        drop(watchdog);
    }

    #[test]
    fn one_that_waits_for_work_or_has_ended_never_stalls() {
        let registry = Registry::new();
        let [waits, ended] = ["journal", "worker-0"].map(Pulse::new);
        let _waiting = waits.enter(&WAITING);
        ended.end();
        let pulses = vec![waits.clone(), ended];
        let _watchdog = Watchdog::start(LIMIT, &registry, pulses, STAGES).unwrap();
        std::thread::sleep(4 * LIMIT);
        let text = registry.render();
        let mut stalls = text.lines().filter(|line| line.starts_with("weir_worker_stalls_total{"));
        assert!(stalls.clone().count() >= 2 && stalls.all(|line| line.ends_with(" 0")), "{text}");
    }

    #[test]
    fn work_that_holds_a_thread_is_counted_by_its_cpu_time() {
        let registry = Registry::new();
        let pulse = Pulse::new("worker-8");
        let _watchdog = Watchdog::start(LIMIT, &registry, vec![pulse.clone()], STAGES).unwrap();
        let held = "weir_worker_held_total{stage=\"parse\",worker=\"worker-8\"}";
        let shows = |count: u64| registry.render().contains(&format!("{held} {count}\n"));
        {
            let _entered = pulse.enter_sized(&PARSE, 1 << 20);
            std::thread::sleep(Duration::from_millis(30));
        }
        {
            let _entered = pulse.enter_sized(&PARSE, 1 << 20);
            let begun = super::cpu_time();
            while super::cpu_time() < begun + Duration::from_millis(11) {}
        }
        assert!(stand_until(|| shows(1)), "{}", registry.render());
    }

    #[test]
    fn stages_nest() {
        let pulse = Pulse::new("worker-0");
        assert!(pulse.is_in(&LOOP));
        {
            let _outer = pulse.enter(&PARSE);
            {
                let _inner = pulse.enter(&APPEND);
                assert!(pulse.is_in(&APPEND));
            }
            assert!(pulse.is_in(&PARSE));
        }
        assert!(pulse.is_in(&LOOP));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_stage_of_a_task_is_not_that_of_another() {
        let pulse = Pulse::new("worker-0");
        let work = pulse.during(&PARSE, async {
            assert!(pulse.is_in(&PARSE));
            tokio::task::yield_now().await;
            assert!(pulse.is_in(&PARSE));
        });
        let other = async { assert!(pulse.is_in(&LOOP)) };
        tokio::join!(work, other);
    }

    #[test]
    fn every_stage_is_shown_from_the_start_and_read_back() {
        let registry = Registry::new();
        let pulse = Pulse::new("worker-9");
        let _watchdog = Watchdog::start(LIMIT, &registry, vec![pulse.clone()], STAGES).unwrap();
        for stage in ["loop", "waiting", "parse", "append"] {
            let held = format!("weir_worker_held_total{{stage=\"{stage}\",worker=\"worker-9\"}} 0");
            assert!(registry.render().contains(&held), "{}", registry.render());
        }
        static UNTOLD: Stage = Stage::new("untold");
        let stages = [&LOOP, &WAITING, &PARSE, &APPEND];
        let patient = Patient::new(pulse.clone(), stages.into(), &registry, Instant::now());
        for (stage, name) in
            stages.map(|stage| (stage, stage.name())).into_iter().chain([(&UNTOLD, "loop")])
        {
            let _entered = pulse.enter(stage);
            assert_eq!(patient.stage().name(), name);
        }
    }
}
