//! Acknowledgements without a journal: the test is the journal thread.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use watch::metrics::Registry;

use super::Acks;
use super::queue::{AppendQueue, NewRecord};
use super::waiters::PERIODS;
use crate::buffers::BufferPool;
use crate::error::{AckError, AppendError};
use crate::format::group;
use crate::format::record::{self, Label};
use crate::log::gate::{Gate, Room};

const SALT: u32 = 7;
const PATIENCE: Duration = Duration::from_secs(60);
/// What a record of four bytes takes.
const RECORD_LEN: u64 = record::HEADER_LEN as u64 + 4;

/// Acknowledgements that are waited for as long as a loaded machine may take.
fn acks() -> Arc<Acks> {
    acks_within(PATIENCE)
}

fn acks_within(timeout: Duration) -> Arc<Acks> {
    let gate = Arc::new(Gate::new());
    gate.set_limit(1 << 20);
    let timeouts = Registry::new().counter("timeouts", "Those who waited too long.", &[]);
    Arc::new(Acks::new(gate, SALT, timeout, timeouts, Arc::new(BufferPool::default())))
}

fn record<'a>(payload: &'a [&'a [u8]]) -> NewRecord<'a> {
    let len = payload.iter().map(|part| part.len() as u32).sum();
    let label = Label { kind: 1, items: 2, control: false };
    NewRecord { label, len, payload, placed: None }
}

fn append(acks: &Acks, queue: &AppendQueue) -> u64 {
    acks.append(queue, &record(&[b"abcd"]), || true).unwrap().unwrap()
}

/// A waker that writes down whom it woke.
struct LoggedWaker(u64, Arc<Mutex<Vec<u64>>>);

impl Wake for LoggedWaker {
    fn wake(self: Arc<Self>) {
        self.1.lock().unwrap().push(self.0);
    }
}

/// Those who wait in one queue, polled by hand.
struct PolledWaiters {
    acks: Arc<Acks>,
    queue: Arc<AppendQueue>,
    woken: Arc<Mutex<Vec<u64>>>,
}

impl PolledWaiters {
    fn of(acks: &Arc<Acks>, queue: &Arc<AppendQueue>) -> PolledWaiters {
        PolledWaiters { acks: acks.clone(), queue: queue.clone(), woken: Arc::default() }
    }

    fn poll(&self, number: u64, since: &mut Option<u64>) -> Poll<Result<(), AckError>> {
        let waker = self.waker(number);
        self.acks.poll(&self.queue, number, since, &Context::from_waker(&waker))
    }

    fn waker(&self, number: u64) -> Waker {
        Waker::from(Arc::new(LoggedWaker(number, self.woken.clone())))
    }

    /// Whom the pump has woken since this was last asked.
    async fn woken(&self) -> Vec<u64> {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        std::mem::take(&mut self.woken.lock().unwrap())
    }
}

async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("it never came")
}

async fn until(mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "it never came to be");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[test]
fn a_queue_numbers_its_records_and_sums_them_up() {
    let acks = acks();
    let (queue, other) = (acks.add_queue(), acks.add_queue());
    assert_eq!(queue.last(), 0, "none yet");
    let placed = Arc::new(AtomicU64::new(0));
    let label = Label { kind: 9, items: 3, control: true };
    let last = NewRecord { label, placed: Some(&placed), ..record(&[b"ef", b"g"]) };
    assert_eq!(append(&acks, &queue), 1);
    assert_eq!(acks.append(&queue, &last, || true), Ok(Some(2)));
    assert_eq!(append(&acks, &other), 1, "each queue for itself");
    assert_eq!(queue.last(), 2);
    assert_eq!(acks.gate.pending(), 3 * RECORD_LEN - 1);

    let mut bytes = Vec::new();
    let first = record::put(&mut bytes, SALT, record(&[]).label, 4, &[b"abcd"]);
    let offset = bytes.len();
    let second = record::put(&mut bytes, SALT, label, 3, &[b"efg"]);
    let open = queue.open();
    assert_eq!(open.bytes, bytes);
    assert_eq!(open.chain, group::link(group::link(0, first), second));
    assert_eq!((open.records, open.items, open.controls), (2, 5, 1));
    assert_eq!(open.placing.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [offset]);
    assert!(Arc::ptr_eq(&open.placing[0].1, &placed));
}

#[test]
fn the_wait_is_measured_from_the_first_record_of_a_buffer() {
    let acks = acks();
    let queue = acks.add_queue();
    append(&acks, &queue);
    let since = queue.open().since;
    assert!(since.is_some());
    append(&acks, &queue);
    assert_eq!(queue.open().since, since);
    acks.take();
    assert_eq!(queue.open().since, None);
}

#[test]
fn nothing_of_a_refused_record_is_kept() {
    let refused = |prepare: fn(&Gate), stands: bool| {
        let acks = acks();
        let queue = acks.add_queue();
        prepare(&acks.gate);
        let answer = acks.append(&queue, &record(&[b"abcd"]), || stands);
        assert_eq!((acks.gate.pending(), queue.last(), acks.has_open()), (0, 0, false));
        assert!(queue.open().bytes.is_empty());
        answer
    };
    assert_eq!(refused(Gate::close, true), Err(AppendError::Closed));
    assert_eq!(
        refused(|gate| assert!(gate.poison(String::new())), true),
        Err(AppendError::Poisoned)
    );
    assert_eq!(refused(|gate| gate.set_limit(RECORD_LEN - 1), true), Err(AppendError::Busy));
    assert_eq!(refused(|gate| gate.set_limit(RECORD_LEN), false), Ok(None));
}

#[test]
fn a_group_is_what_all_queues_held_at_one_moment_and_is_taken_once() {
    let acks = acks();
    let queues = [acks.add_queue(), acks.add_queue(), acks.add_queue()];
    assert!(!acks.has_open());
    for index in [2, 0, 2] {
        append(&acks, &queues[index]);
    }
    assert!(acks.has_open());
    let taken = acks.take();
    assert!(!acks.has_open());
    assert!(taken.iter().zip([0, 2]).all(|(taken, of)| Arc::ptr_eq(&taken.queue, &queues[of])));
    assert_eq!(taken.iter().map(|taken| taken.open.records).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(taken.iter().map(|taken| taken.open.last).collect::<Vec<_>>(), [1, 2]);
    assert!(acks.take().is_empty());
    assert_eq!(append(&acks, &queues[2]), 3, "the numbers go on");
    assert_eq!(acks.take()[0].open.records, 1);
}

#[test]
fn a_buffer_that_was_used_is_used_again() {
    let acks = acks();
    let queue = acks.add_queue();
    append(&acks, &queue);
    acks.recycle(Vec::with_capacity(5000));
    acks.take();
    assert_eq!(queue.open().bytes.capacity(), 5000);
}

#[test]
fn a_mark_waits_for_what_is_appended_and_not_acknowledged() {
    let acks = acks();
    let (queue, _other) = (acks.add_queue(), acks.add_queue());
    assert!(acks.unacknowledged().is_empty());
    append(&acks, &queue);
    append(&acks, &queue);
    queue.acknowledge(1);
    let waiting = acks.unacknowledged();
    assert_eq!(waiting.iter().map(|(_, last)| *last).collect::<Vec<_>>(), [2]);
    assert!(Arc::ptr_eq(&waiting[0].0, &queue));
    queue.acknowledge(2);
    assert!(acks.unacknowledged().is_empty());
}

#[test]
fn a_record_wakes_the_journal_thread() {
    let acks = acks();
    let queue = acks.add_queue();
    let (asleep, is_asleep) = mpsc::channel();
    let sleeper = std::thread::spawn({
        let acks = acks.clone();
        move || {
            acks.writer().attach();
            let began = Instant::now();
            acks.writer().sleep(Some(PATIENCE), || {
                asleep.send(()).unwrap();
                acks.has_open()
            });
            began.elapsed()
        }
    });
    is_asleep.recv().unwrap();
    append(&acks, &queue);
    assert!(sleeper.join().unwrap() < PATIENCE);
}

#[tokio::test]
async fn each_is_acknowledged_once_in_order_and_none_before_its_record() {
    let acks = acks();
    let queue = acks.add_queue();
    let waiting = PolledWaiters::of(&acks, &queue);
    for _ in 0..4 {
        append(&acks, &queue);
    }
    let mut since = [None; 5];
    // Asked out of order, as tasks may be polled.
    for number in [3, 1, 4, 2] {
        assert!(waiting.poll(number, &mut since[number as usize]).is_pending());
    }
    assert!(waiting.woken().await.is_empty(), "before anything was written");
    queue.acknowledge(3);
    assert_eq!(waiting.woken().await, [1, 2, 3]);
    for number in 1..=3 {
        let answer = waiting.poll(number, &mut since[number as usize]);
        assert_eq!(answer, Poll::Ready(Ok(())), "{number}");
    }
    assert!(waiting.poll(4, &mut since[4]).is_pending());
    queue.acknowledge(4);
    assert_eq!(waiting.woken().await, [4]);
    assert_eq!(queue.acknowledged(), 4);
    acks.wake_all();
    assert!(waiting.woken().await.is_empty(), "a second time");
}

#[tokio::test]
async fn one_that_waits_is_told_when_its_record_is_acknowledged() {
    let acks = acks();
    let queue = acks.add_queue();
    let number = append(&acks, &queue);
    let wait = tokio::spawn({
        let (acks, queue) = (acks.clone(), queue.clone());
        async move { acks.wait(&queue, number).await }
    });
    PolledWaiters::of(&acks, &queue).woken().await;
    assert!(!wait.is_finished());
    queue.acknowledge(number);
    assert_eq!(within(wait).await.unwrap(), Ok(()));
    assert_eq!(within(acks.wait(&queue, number)).await, Ok(()), "known already");
}

#[tokio::test]
async fn a_waiter_that_is_dropped_is_passed_over_and_holds_up_nobody() {
    let acks = acks();
    let queue = acks.add_queue();
    let waiting = PolledWaiters::of(&acks, &queue);
    for _ in 0..3 {
        append(&acks, &queue);
    }
    let mut since = None;
    assert!(waiting.poll(1, &mut since).is_pending());
    let mut gone = Box::pin(acks.wait(&queue, 2));
    let waker = waiting.waker(2);
    assert!(gone.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    assert!(waiting.poll(3, &mut None).is_pending());
    drop(gone);
    queue.acknowledge(3);
    assert_eq!(waiting.woken().await, [1, 3]);
}

#[tokio::test]
async fn a_failed_sync_is_told_to_all_who_wait_and_to_all_who_come() {
    let acks = acks();
    let queue = acks.add_queue();
    let waiting = PolledWaiters::of(&acks, &queue);
    for _ in 0..3 {
        append(&acks, &queue);
    }
    queue.acknowledge(1);
    assert!(waiting.poll(2, &mut None).is_pending());
    assert!(waiting.poll(3, &mut None).is_pending());
    assert!(acks.gate.poison("could not sync".to_owned()));
    acks.wake_all();
    assert_eq!(waiting.woken().await, [2, 3]);
    for number in [2, 3] {
        let answer = waiting.poll(number, &mut None);
        assert_eq!(answer, Poll::Ready(Err(AckError::Poisoned)), "{number}");
    }
    assert_eq!(waiting.poll(1, &mut None), Poll::Ready(Ok(())), "was on the disk before");
    assert!(!queue.pumping.load(std::sync::atomic::Ordering::Acquire), "nothing is left to do");
}

#[tokio::test]
async fn what_has_no_room_is_told_so_and_acknowledged_once_there_is() {
    let acks = acks();
    let queue = acks.add_queue();
    let waiting = PolledWaiters::of(&acks, &queue);
    let number = append(&acks, &queue);
    assert!(waiting.poll(number, &mut None).is_pending());
    for (room, error) in [(Room::Full, AckError::Full), (Room::DiskFull, AckError::DiskFull)] {
        acks.gate.set_stuck(room);
        acks.wake_all();
        assert_eq!(waiting.woken().await, [number]);
        assert_eq!(waiting.poll(number, &mut None), Poll::Ready(Err(error)));
        acks.gate.set_stuck(Room::Yes);
        assert!(waiting.poll(number, &mut None).is_pending());
    }
    queue.acknowledge(number);
    assert_eq!(waiting.woken().await, [number]);
}

#[tokio::test]
async fn once_the_journal_thread_has_ended_nobody_waits() {
    let acks = acks();
    let queue = acks.add_queue();
    let waiting = PolledWaiters::of(&acks, &queue);
    let number = append(&acks, &queue);
    assert!(waiting.poll(number, &mut None).is_pending());
    assert!(!acks.is_stopped());
    acks.stop();
    assert!(acks.is_stopped());
    assert_eq!(waiting.woken().await, [number]);
    assert_eq!(waiting.poll(number, &mut None), Poll::Ready(Err(AckError::Closed)));
}

#[tokio::test]
async fn one_waits_the_whole_timeout_and_is_counted() {
    let timeout = Duration::from_millis(80);
    let acks = acks_within(timeout);
    let queue = acks.add_queue();
    // The second begins when the timer has come to rest.
    for times in 1..=2 {
        let number = append(&acks, &queue);
        let began = Instant::now();
        assert_eq!(within(acks.wait(&queue, number)).await, Err(AckError::Timeout));
        assert!(began.elapsed() >= timeout, "{:?}", began.elapsed());
        assert!(began.elapsed() < 50 * timeout, "{:?}", began.elapsed());
        assert!(queue.period() > PERIODS, "each eighth of the timeout is counted");
        assert_eq!(acks.timeouts.get(), times);
        until(|| queue.waiters().idle).await;
        let period = queue.period();
        tokio::time::sleep(timeout).await;
        assert_eq!(queue.period(), period, "a timer runs and nobody waits");
    }
}

#[tokio::test]
async fn the_time_counts_from_the_first_time_that_one_asks() {
    let acks = acks_within(Duration::from_millis(80));
    let queue = acks.add_queue();
    let waiting = PolledWaiters::of(&acks, &queue);
    let number = append(&acks, &queue);
    let mut since = None;
    assert!(waiting.poll(number, &mut since).is_pending());
    let first = since.expect("the period in which it came");
    until(|| queue.period() > first).await;
    assert!(waiting.poll(number, &mut since).is_pending());
    assert_eq!(since, Some(first));
}

#[test]
fn waiting_goes_on_when_the_runtime_of_the_first_who_waited_is_gone() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let acks = acks();
    let queue = acks.add_queue();
    let waiting = PolledWaiters::of(&acks, &queue);
    let number = append(&acks, &queue);
    let first = runtime();
    first.block_on(async {
        assert!(waiting.poll(number, &mut None).is_pending());
        assert!(waiting.woken().await.is_empty());
    });
    drop(first);
    runtime().block_on(async {
        assert!(waiting.poll(number, &mut None).is_pending());
        queue.acknowledge(number);
        assert_eq!(waiting.woken().await, [number]);
    });
}

#[tokio::test]
async fn the_queue_of_a_worker_that_has_gone_is_kept_until_its_records_are_taken() {
    let acks = acks();
    let (queue, other) = (acks.add_queue(), acks.add_queue());
    let waiting = PolledWaiters::of(&acks, &queue);
    let number = append(&acks, &queue);
    assert!(waiting.poll(number, &mut None).is_pending());
    queue.abandon();
    acks.forget_abandoned();
    let taken = acks.take();
    assert_eq!(taken.len(), 1);
    acks.forget_abandoned();
    drop((taken, waiting.woken().await));
    // Neither the list has it nor the pump, but this test, twice.
    assert_eq!(Arc::strong_count(&queue), 2);
    append(&acks, &other);
    assert_eq!(acks.take().len(), 1, "the other one stays");
}

#[test]
fn memory_of_empty_buffers_is_given_back_and_records_are_not() {
    let acks = acks();
    let (empty, filled) = (acks.add_queue(), acks.add_queue());
    append(&acks, &empty);
    acks.buffers.put_back(Vec::with_capacity(100));
    acks.take();
    append(&acks, &filled);
    acks.buffers.put_back(Vec::with_capacity(100));
    acks.shrink();
    assert_eq!(empty.open().bytes.capacity(), 0);
    assert_eq!(acks.buffers.take().capacity(), 0);
    assert_eq!(filled.open().bytes.len() as u64, RECORD_LEN);
}
