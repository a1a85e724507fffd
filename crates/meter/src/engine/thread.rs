//! A thread of the injector, from its first connection to its last answer.

use std::cell::RefCell;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::mpsc::SyncSender;
use std::task::Poll;
use std::time::{Duration, Instant};

use flow::dial::{Address, Socket, Target};
use sched::Slice;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::task::{JoinSet, LocalSet};

use super::alarm::Alarm;
use super::collector::Window;
use super::connection::{Connection, Shared};
use super::looks::{Looks, SLEEP_MAX, TICK};
use super::opening::open;
use super::pacing::{ClosedLoop, Numbers, OpenLoop, Pacing, RequestLimit, ThinkTimes};
use super::state::{Seen, Slot, State};
use super::{EngineError, Kept, Pace, Plan, Stop};
use crate::injector::{BusyTime, Health, Spent};
use crate::ledger::Ledger;
use crate::network::Network;
use crate::window::Timeline;
use crate::workload::Workload;

/// Connections of a thread that are opened at once.
const OPENING_MAX: usize = 16;
/// Bytes that are read at once.
const SCRATCH: usize = 64 * 1024;

/// What a thread has to do.
pub struct Task<'a> {
    /// Which of its load's threads it is, and the number of its load's first operation among those
    /// of all loads.
    pub of_load: (usize, usize),
    pub plan: &'a Plan,
    pub kept: &'a Kept,
    pub addresses: &'a [SocketAddr],
    pub say: SyncSender<Said>,
    /// Where there are so many requests and no more.
    pub last: Option<RequestLimit>,
    pub started: oneshot::Receiver<Timeline>,
}

/// What threads say.
pub enum Said {
    /// All connections are open; what is known of their ways.
    Ready(Box<Network>),
    Failed(EngineError),
    Window(u64, Box<Window>),
    Ended(Box<Part>),
}

/// What came of one thread, besides its windows.
pub struct Part {
    pub measured: Duration,
    pub seen: Seen,
    pub health: Health,
    pub stood: Duration,
    /// There was nothing more to send before the time was over.
    pub used_up: bool,
}

/// Does all of it; what came of it is said.
pub fn run<W: Workload + 'static>(
    task: Task<'_>,
    busy: BusyTime,
    make: impl FnOnce() -> W,
) -> Result<(), EngineError> {
    let (parks, unparked) = (busy.clone(), busy.clone());
    let built = Builder::new_current_thread()
        .enable_all()
        .on_thread_park(move || parks.parks())
        .on_thread_unpark(move || unparked.unparked())
        .build();
    let runtime = built.map_err(|error| EngineError::Injector(error.to_string()))?;
    sched::set_slice(Slice::Short);
    LocalSet::new().block_on(&runtime, conduct(task, busy, make()))
}

async fn conduct<W: Workload + 'static>(
    task: Task<'_>,
    busy: BusyTime,
    workload: W,
) -> Result<(), EngineError> {
    let Task { of_load: (number, first_operation), plan, kept, addresses, say, last, started } =
        task;
    let alarm = Alarm::new().map_err(|error| EngineError::Injector(error.to_string()))?;
    let ledger = plan.ledger.as_ref().map(|place| {
        Ledger::create(place, number as u64, plan.threads as u64)
            .map_err(|error| EngineError::Injector(format!("the ledger can't be made: {error}")))
    });
    let ledger = ledger.transpose()?;
    let opened = open_all(number, (plan, kept), addresses, &workload, &say).await?;
    // Whoever no longer waits has heard of an error elsewhere.
    let Ok(timeline) = started.await else { return Ok(()) };
    let pacing = pacing(number, plan, &timeline, opened.len(), last);
    let shared = Rc::new(Shared {
        state: RefCell::new(State {
            busy_before: busy.so_far(),
            busy: busy.clone(),
            looks: Looks::new(timeline.begin, busy.clone()),
            ledger,
            first_operation,
            ..state(workload, pacing, timeline, opened.len(), plan.stop.clone(), say.clone())
        }),
        scratch: RefCell::new(vec![0; SCRATCH].into()),
    });
    wait_until(&alarm, timeline.begin).await?;
    let mut connections = JoinSet::new();
    for (at, (target, socket)) in opened.into_iter().enumerate() {
        let shared = Rc::clone(&shared);
        let (timeout, moved) = (plan.timeout, (0, 0));
        let free = timeline.begin;
        let connection =
            Connection { at, target, socket, free, timeout, shared, moved, last_calls: 0 };
        connections.spawn_local(connection.serve());
    }
    let before = Rc::new(RefCell::new(None));
    let (seen, swept) = (Rc::clone(&before), Rc::clone(&shared));
    let (spent, timeout) = (busy.clone(), plan.timeout);
    let sweeper = tokio::task::spawn_local(async move {
        sweep(&swept, timeout, || {
            seen.borrow_mut().get_or_insert_with(|| Spent::now(&spent));
        })
        .await;
    });
    let paced = pace(&shared, &alarm).await;
    let now = Spent::now(&busy);
    shared.state.borrow_mut().end(Instant::now());
    let last_answers = async {
        while let Some(served) = connections.join_next().await {
            if let Ok(Some((target, socket))) = served {
                kept.put(target.address, socket);
            }
        }
    };
    tokio::select! {
        () = last_answers => {}
        error = keep_looking(&shared, &alarm) => return Err(error),
    }
    sweeper.abort();
    paced?;
    let health = before.borrow().map(|before| now.since(&before)).unwrap_or_default();
    let said = Said::Ended(Box::new(part(&mut shared.state.borrow_mut(), health)));
    let _ = say.send(said);
    Ok(())
}

/// Opens this thread's connections, the first one alone: if nobody listens, it is told at once.
async fn open_all<W: Workload>(
    number: usize,
    (plan, kept): (&Plan, &Kept),
    addresses: &[SocketAddr],
    workload: &W,
    say: &SyncSender<Said>,
) -> Result<Vec<(Target, Socket)>, EngineError> {
    let mut targets = (number..plan.connections).step_by(plan.threads).map(|connection| {
        let mut target = plan.target.clone();
        if !addresses.is_empty() {
            let address = addresses[connection % addresses.len()];
            target.address = Address::Tcp { host: address.ip().to_string(), port: address.port() };
        }
        target
    });
    let (mut opened, mut network) = (Vec::new(), Network::default());
    loop {
        let at_once = if opened.is_empty() { 1 } else { OPENING_MAX };
        let mut opening = JoinSet::new();
        for target in targets.by_ref().take(at_once) {
            if let Some(socket) = kept.take(&target.address) {
                opened.push((target, socket));
                continue;
            }
            let greeting = workload.greeting();
            opening.spawn_local(async move { (open(&target, greeting).await, target) });
        }
        if opening.is_empty() && targets.len() == 0 {
            let _ = say.send(Said::Ready(Box::new(network)));
            return Ok(opened);
        }
        while let Some(done) = opening.join_next().await {
            let (socket, target) =
                done.map_err(|error| EngineError::Injector(error.to_string()))?;
            let (socket, way) = socket.map_err(|source| EngineError::Unreachable {
                opened: opened.len(),
                connections: plan.connections,
                source,
            })?;
            network.note(&target.address.to_string(), way.took, way.round_trip);
            opened.push((target, socket));
        }
    }
}

/// How thread `number` paces the requests of its connections.
fn pacing(
    number: usize,
    plan: &Plan,
    timeline: &Timeline,
    connections: usize,
    limit: Option<RequestLimit>,
) -> Pacing {
    let (thread, threads) = (number as u64, plan.threads as u64);
    match &plan.pace {
        Pace::Open(schedule) => {
            let due = schedule.clone().warmed_up(plan.warm_up).due(thread, threads);
            Pacing::Open(OpenLoop::new(due, timeline.begin, connections))
        }
        Pace::Closed(_) => {
            let numbers = Numbers::new(thread, threads, limit);
            let think = plan.think.map(|think| ThinkTimes::new(think, thread, timeline.begin));
            Pacing::Closed(ClosedLoop::new(connections, timeline.end, numbers, think))
        }
    }
}

fn state<W>(
    workload: W,
    pacing: Pacing,
    timeline: Timeline,
    connections: usize,
    stop: Stop,
    say: SyncSender<Said>,
) -> State<W> {
    let slot = || Slot { job: None, sent: None, expired: false, waker: None };
    State {
        workload,
        timeline,
        pacing,
        slots: (0..connections).map(|_| slot()).collect(),
        pacer: None,
        alarm: timeline.begin,
        over: false,
        stop,
        say,
        window: Window::default(),
        window_number: 0,
        looks: Looks::new(timeline.begin, BusyTime::default()),
        busy: BusyTime::default(),
        busy_before: Duration::ZERO,
        seen: Seen::default(),
        ledger: None,
        first_operation: 0,
    }
}

/// Hands out what is due until nothing more is sent.
async fn pace<W: Workload>(shared: &Shared<W>, alarm: &Alarm) -> Result<(), EngineError> {
    loop {
        let at = {
            let mut state = shared.state.borrow_mut();
            let now = Instant::now();
            let next = state.hand_out(now);
            let end = state.timeline.end;
            if now >= end || state.stop.asked() > 0 || state.pacing.is_used_up() {
                return Ok(());
            }
            // It looks before anything is due, so that it knows of its own pauses.
            let at = next.unwrap_or(end).min(end).min(Instant::now() + SLEEP_MAX);
            state.looks.expect(at);
            state.alarm = at;
            at
        };
        alarm.set(at).map_err(|error| EngineError::Injector(error.to_string()))?;
        let rung = poll_fn(|cx| {
            let mut state = shared.state.borrow_mut();
            state.pacer = Some(cx.waker().clone());
            let is_called = state.pacing.has_work_before(at) || state.pacing.is_used_up();
            if is_called || state.stop.asked() > 0 {
                return Poll::Ready(Ok(()));
            }
            alarm.poll(cx)
        });
        rung.await.map_err(|error| EngineError::Injector(error.to_string()))?;
    }
}

/// Looks again and again while the last answers come, so that the thread knows of its pauses; ends
/// only where it can't.
async fn keep_looking<W: Workload>(shared: &Shared<W>, alarm: &Alarm) -> EngineError {
    let failed = |error: std::io::Error| EngineError::Injector(error.to_string());
    loop {
        let now = Instant::now();
        {
            let mut state = shared.state.borrow_mut();
            state.roll(now);
            state.looks.expect(now + SLEEP_MAX);
        }
        if let Err(error) = alarm.set(now + SLEEP_MAX) {
            return failed(error);
        }
        if let Err(error) = poll_fn(|cx| alarm.poll(cx)).await {
            return failed(error);
        }
    }
}

async fn wait_until(alarm: &Alarm, at: Instant) -> Result<(), EngineError> {
    let failed = |error: std::io::Error| EngineError::Injector(error.to_string());
    while Instant::now() < at {
        alarm.set(at).map_err(failed)?;
        poll_fn(|cx| alarm.poll(cx)).await.map_err(failed)?;
    }
    Ok(())
}

/// Looks after what no answer wakes: timeouts, windows in which nothing happens, who asks to stop.
async fn sweep<W: Workload>(shared: &Shared<W>, timeout: Duration, measured: impl Fn()) {
    let mut turns = tokio::time::interval(TICK);
    // Between two ticks what has come is read, however late the first was.
    turns.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut counts = false;
    loop {
        turns.tick().await;
        let mut state = shared.state.borrow_mut();
        let now = Instant::now();
        if !counts && now >= state.timeline.measured_from {
            counts = true;
            state.busy_before = state.busy.so_far();
            measured();
        }
        state.roll(now);
        let stop = state.stop.asked();
        let all = stop > 1 && state.over;
        state.expire(now, timeout, all);
        if stop > 0 {
            state.wake_pacer();
        }
    }
}

fn part<W: Workload>(state: &mut State<W>, health: Health) -> Part {
    let whole = state.timeline.whole_windows();
    while state.window_number < whole {
        state.hand_on();
    }
    // What is left ended behind the last whole window.
    state.window_number = u64::MAX - 1;
    state.hand_on();
    Part {
        measured: state.timeline.end.saturating_duration_since(state.timeline.measured_from),
        seen: std::mem::take(&mut state.seen),
        health,
        stood: state.looks.stood,
        used_up: state.pacing.is_used_up(),
    }
}
