//! A thread of the injector, from its first connection to its last answer.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use flow::dial::{Address, Socket, Target};
use sched::Slice;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::task::{JoinSet, LocalSet};

use super::alarm::Alarm;
use super::channel::Channel;
use super::channel_task;
use super::collector::Window;
use super::connection::{Connection, ThreadState};
use super::line::{Line, SharedLine};
use super::looks::{Looks, TICK};
use super::opening::{AT_ONCE_MAX, open};
use super::pacer::{end, keep_looking, pace, wait_until};
use super::pacing::{ClosedLoop, Numbers, OpenLoop, Pacing, RequestLimit, ThinkTimes};
use super::record::{RecordSums, SendAccount, ThreadRecord, Windows};
use super::sending::Sending;
use super::servers::{NoServer, ThreadServers};
use super::{EngineError, IdleConnections, Pace, Plan};
use crate::discovery::ServerList;
use crate::injector::{BusyTime, Health, Spent};
use crate::ledger::Ledger;
use crate::network::Network;
use crate::window::Timeline;
use crate::workload::{Channels, Workload};

/// Bytes that are read at once.
const SCRATCH: usize = 64 * 1024;

/// What a thread has to do.
pub struct Task<'a> {
    /// Which of its load's threads it is, and the number of its load's first operation among those
    /// of all loads.
    pub of_load: (usize, usize),
    pub plan: &'a Plan,
    pub kept: &'a IdleConnections,
    pub addresses: &'a [SocketAddr],
    /// In the place of addresses, where a registry says which servers there are.
    pub servers: Option<ServerList>,
    pub say: SyncSender<ThreadMessage>,
    /// Where there are so many requests and no more.
    pub last: Option<RequestLimit>,
    pub started: oneshot::Receiver<Timeline>,
}

pub enum ThreadMessage {
    /// All connections are open; what is known of their ways.
    Ready(Box<Network>),
    Failed(EngineError),
    Window(u64, Box<Window>),
    Ended(Box<ThreadResult>),
}

/// What came of one thread, besides its windows.
pub struct ThreadResult {
    pub sums: RecordSums,
    pub health: Health,
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
    let Task { of_load: (number, first_operation), plan, kept, say, last, started, .. } = task;
    let alarm = Alarm::new().map_err(|error| EngineError::Injector(error.to_string()))?;
    let ledger = ledger(number, plan)?;
    let (lines, shared_lines, network) =
        open_lines(number, (plan, kept), (task.addresses, task.servers), &workload).await?;
    let _ = say.send(ThreadMessage::Ready(Box::new(network)));
    // Whoever no longer waits has heard of an error elsewhere.
    let Ok(timeline) = started.await else { return Ok(()) };
    let pacing = pacing(number, plan, &timeline, lines.len(), last);
    let sending = Sending::new(pacing, lines.len(), plan.stop.clone(), timeline.begin);
    let sends = if plan.is_closed() { SendAccount::closed() } else { SendAccount::default() };
    let looks = Looks::new(timeline.begin, busy.clone());
    let windows = Windows::new(busy.clone(), say.clone());
    let record = ThreadRecord::new(timeline, looks, windows, sends, ledger);
    let shared = Rc::new(ThreadState {
        workload: RefCell::new(workload),
        first_operation,
        sending: RefCell::new(sending),
        record: RefCell::new(record),
        scratch: RefCell::new(vec![0; SCRATCH].into()),
    });
    wait_until(&alarm, timeline.begin).await?;
    // The tasks of shared connections end with this one, once all answers are there.
    let (mut connections, _channel_tasks) =
        begin_all(plan.timeout, timeline.begin, lines, shared_lines, &shared);
    let before = Rc::new(RefCell::new(None));
    let (seen, swept) = (Rc::clone(&before), Rc::clone(&shared));
    let (spent, timeout) = (busy.clone(), plan.timeout);
    let sweeper = tokio::task::spawn_local(async move {
        sweep(&swept, timeout, || {
            seen.borrow_mut().get_or_insert_with(|| Spent::now(&spent));
        })
        .await;
    });
    let paced = pace(&shared, &alarm, timeline.end).await;
    let now = Spent::now(&busy);
    end(&shared, Instant::now());
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
    let used_up = shared.sending.borrow().pacing.is_used_up();
    let part = ThreadResult { sums: shared.record.borrow_mut().finish(), health, used_up };
    let _ = say.send(ThreadMessage::Ended(Box::new(part)));
    Ok(())
}

/// Has all users begin, and the connections that they share.
fn begin_all<W: Workload + 'static>(
    timeout: Duration,
    free: Instant,
    lines: Vec<(Target, Line)>,
    shared_lines: SharedLines,
    shared: &Rc<ThreadState<W>>,
) -> (JoinSet<Option<(Target, Socket)>>, JoinSet<()>) {
    let (mut connections, mut channel_tasks) = (JoinSet::new(), JoinSet::new());
    match shared_lines {
        SharedLines::OfOneServer(channels) => {
            for (target, channel) in channels {
                channel_tasks.spawn_local(channel_task::serve(channel, target, Rc::clone(shared)));
            }
        }
        SharedLines::OfServers(servers) => {
            channel_tasks.spawn_local(servers.follow(Rc::clone(shared)));
        }
    }
    for (at, (target, line)) in lines.into_iter().enumerate() {
        let (shared, moved) = (Rc::clone(shared), (0, 0));
        let connection =
            Connection { at, target, line, free, timeout, shared, moved, last_calls: 0 };
        connections.spawn_local(connection.serve());
    }
    (connections, channel_tasks)
}

/// The ledger of thread `number`, where one is kept.
fn ledger(number: usize, plan: &Plan) -> Result<Option<Ledger>, EngineError> {
    let Some(place) = &plan.ledger else { return Ok(None) };
    let (thread, threads) = plan.part.thread(number, plan.threads);
    let made = Ledger::create(place, thread, threads);
    made.map(Some)
        .map_err(|error| EngineError::Injector(format!("the ledger can't be made: {error}")))
}

/// The connections that users share.
enum SharedLines {
    /// None of one server where each user has its own.
    OfOneServer(Vec<(Target, Rc<Channel>)>),
    OfServers(ThreadServers),
}

/// Opens this thread's connections: what each of its users sends on, and what they share.
async fn open_lines<W: Workload>(
    number: usize,
    (plan, kept): (&Plan, &IdleConnections),
    (addresses, servers): (&[SocketAddr], Option<ServerList>),
    workload: &W,
) -> Result<(Vec<(Target, Line)>, SharedLines, Network), EngineError> {
    let channels = workload.channels();
    if let Some((Channels { count, protocol, .. }, list)) = channels.clone().zip(servers) {
        let mut servers = ThreadServers::new(number, plan, (count, protocol), list);
        let opened = servers.open_all(workload).await.map_err(|error| match error {
            NoServer::Unreachable { connections, source } => {
                EngineError::Unreachable { opened: 0, connections, source }
            }
            NoServer::Injector(words) => EngineError::Injector(words),
        });
        let network = opened?;
        return Ok((servers.lines(), SharedLines::OfServers(servers), network));
    }
    let (opened, network) = open_all(number, (plan, kept), addresses, workload).await?;
    let Some(Channels { protocol, .. }) = channels else {
        let own = opened.into_iter().map(|(target, socket)| (target, Line::Own(socket)));
        return Ok((own.collect(), SharedLines::OfOneServer(Vec::new()), network));
    };
    let opened = opened.into_iter();
    let shared: Vec<_> =
        opened.map(|(target, socket)| (target, Rc::new(Channel::new(socket, protocol)))).collect();
    // Users are dealt out in turn.
    let users = (number..plan.connections).step_by(plan.threads);
    let lines = users
        .zip(shared.iter().cycle())
        .map(|(_, (target, channel))| (target.clone(), Line::Shared(SharedLine::new(channel))));
    Ok((lines.collect(), SharedLines::OfOneServer(shared), network))
}

/// Opens this thread's connections, the first one alone: if nobody listens, it is told at once.
async fn open_all<W: Workload>(
    number: usize,
    (plan, kept): (&Plan, &IdleConnections),
    addresses: &[SocketAddr],
    workload: &W,
) -> Result<(Vec<(Target, Socket)>, Network), EngineError> {
    let count = match workload.channels() {
        Some(channels) => plan.shared_connections(channels.count),
        None => plan.connections,
    };
    let mut targets = (number..count).step_by(plan.threads).map(|connection| {
        let mut target = plan.target.clone();
        if !addresses.is_empty() {
            let address = addresses[connection % addresses.len()];
            target.address = Address::Tcp { host: address.ip().to_string(), port: address.port() };
        }
        target
    });
    let (mut opened, mut network) = (Vec::new(), Network::default());
    loop {
        let at_once = if opened.is_empty() { 1 } else { AT_ONCE_MAX };
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
            return Ok((opened, network));
        }
        while let Some(done) = opening.join_next().await {
            let (socket, target) =
                done.map_err(|error| EngineError::Injector(error.to_string()))?;
            let (socket, way) = socket.map_err(|source| EngineError::Unreachable {
                opened: opened.len(),
                connections: count,
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
    let (thread, threads) = plan.part.thread(number, plan.threads);
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

/// Looks after what no answer wakes: timeouts, windows in which nothing happens, who asks to stop.
async fn sweep<W: Workload>(shared: &ThreadState<W>, timeout: Duration, measured: impl Fn()) {
    let mut turns = tokio::time::interval(TICK);
    // Between two ticks what has come is read, however late the first was.
    turns.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut counts = false;
    loop {
        turns.tick().await;
        let mut sending = shared.sending.borrow_mut();
        let mut record = shared.record.borrow_mut();
        let now = Instant::now();
        if !counts && now >= record.measured_from() {
            counts = true;
            record.begin_measuring();
            measured();
        }
        record.roll(now);
        let stop = sending.stop.asked();
        let all = stop > 1 && sending.is_over();
        sending.expire(now, timeout, all);
        if stop > 0 {
            sending.wake_pacer();
        }
    }
}
