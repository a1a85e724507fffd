//! `weir load agent`: waits for coordinators, and sends one run at a time for them.

use std::convert::Infallible;
use std::io::Write;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use clap::Args;
use flow::dial::{AllowedAddresses, fence};
use meter::engine::{StartAgreement, Stop};
use meter::window::AgreedStart;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{Sender, channel};
use tokio::time::timeout;

use super::handshake::AgentAcceptor;
use super::injection::Injection;
use super::limits::Limits;
use super::message::{
    Assignment, GREETING_MAX, MESSAGE_MAX, Order, PORT, Report, receive, send_all,
};
use super::secret;
use crate::exit::{Failure, note};

/// Connections at a time, of those that have proved nothing, too.
const CONNECTIONS_MAX: usize = 32;
/// How long answers are waited for once the coordinator is gone.
const ANSWERS_MAX: Duration = Duration::from_secs(5);
/// How long a run may take to end whose end was said, or for which nothing more is waited.
const ENDED_MAX: Duration = Duration::from_secs(2);
/// Reports that wait for the coordinator.
const REPORTS_MAX: usize = 1024;

/// Where an agent listens, and what it sends at most.
#[derive(Debug, Args)]
pub struct AgentCommand {
    /// Where coordinators connect to
    #[arg(long, value_name = "ADDRESS", default_value_t = SocketAddr::from(([127, 0, 0, 1], PORT)))]
    listen: SocketAddr,
    /// A file whose first line is the secret that coordinators know, of 16 characters or more
    #[arg(long, value_name = "FILE")]
    secret_file: PathBuf,
    /// The addresses that may be loaded, as 10.1.0.0/16,10.2.0.7:8086; without it this machine's
    /// own
    #[arg(long, value_name = "NETWORK[:PORT],...")]
    targets: Option<AllowedAddresses>,
    /// The most requests a second that are sent
    #[arg(long, value_name = "N")]
    max_rate: Option<f64>,
    /// The longest run that is sent, warm-up and all
    #[arg(long, value_name = "TIME", default_value = "1h")]
    max_duration: units::Duration,
    /// The directory in which each run leaves its results
    #[arg(long, value_name = "DIR", default_value = "weir-load")]
    out: PathBuf,
}

/// What all connections of an agent share.
struct Agent {
    limits: Limits,
    out: PathBuf,
    /// The moment from which its clock counts.
    epoch: Instant,
    busy: Mutex<Option<ClaimedRun>>,
}

/// The run that an agent sends.
#[derive(Clone)]
struct ClaimedRun {
    name: String,
    stop: Stop,
}

/// Waits for coordinators until somebody ends the process.
///
/// # Errors
/// It can't listen, or has no secret.
pub fn serve(command: &AgentCommand, out: &mut dyn Write) -> Result<u8, Failure> {
    let acceptor =
        AgentAcceptor::new(secret::read(&command.secret_file)?).map_err(Failure::other)?;
    let targets = command.targets.clone().unwrap_or_else(AllowedAddresses::loopback);
    let agent = Agent {
        limits: Limits { rate_max: command.max_rate, duration_max: command.max_duration.get() },
        out: command.out.clone(),
        epoch: Instant::now(),
        busy: Mutex::default(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(Failure::other)?;
    let Err(failure) = runtime.block_on(async {
        let listener = TcpListener::bind(command.listen).await.map_err(|error| {
            Failure::other(format!("can't listen on {}: {error}", command.listen))
        })?;
        let address = listener.local_addr().map_err(Failure::other)?;
        writeln!(out, "agent on {address}, for loads of {targets}")?;
        out.flush()?;
        // From here on it connects to nothing else.
        fence(targets);
        Ok(accept(&listener, agent.into(), acceptor.into()).await)
    });
    Err(failure)
}

/// Takes connections, up to [`CONNECTIONS_MAX`] at a time.
async fn accept(
    listener: &TcpListener,
    agent: Arc<Agent>,
    acceptor: Arc<AgentAcceptor>,
) -> Infallible {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            // Descriptors are short: others have to end first.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Ok(permit) = Arc::clone(&room).try_acquire_owned() else { continue };
        let (agent, acceptor) = (Arc::clone(&agent), Arc::clone(&acceptor));
        tokio::spawn(async move {
            session(agent, &acceptor, stream, peer).await;
            drop(permit);
        });
    }
}

/// Hears one coordinator until it is gone; a run of its ends with it.
async fn session(agent: Arc<Agent>, acceptor: &AgentAcceptor, stream: TcpStream, peer: SocketAddr) {
    let _ = stream.set_nodelay(true);
    let greeted = timeout(GREETING_MAX, acceptor.accept(stream)).await;
    let (stream, name) = match greeted {
        Ok(Ok(greeted)) => greeted,
        Ok(Err(error)) => return note(format!("coordinator {peer} was refused: {error}")),
        Err(_) => return note(format!("coordinator {peer} was refused: it proved nothing")),
    };
    let (mut reading, writing) = tokio::io::split(stream);
    let (tell, told) = channel(REPORTS_MAX);
    let writer = tokio::spawn(send_all(writing, told, || Report::Alive));
    let mut under_way: Option<UnderWay> = None;
    let why = loop {
        let order = match receive(&mut reading, MESSAGE_MAX).await {
            Ok(order) => order,
            Err(error) => break error.to_string(),
        };
        match order {
            Order::Clock(number) => {
                let (at, wall) = (agent.epoch.elapsed(), SystemTime::now());
                if tell.try_send(Report::Clock { number, at, wall }).is_err() {
                    break "it does not listen".to_owned();
                }
            }
            Order::Prepare(assignment) => {
                let of = format!("run {} for {name} ({peer})", assignment.run_id.escape_debug());
                if let Some(last) = under_way.take() {
                    last.ended().await;
                }
                let begun = match BusyAgent::claim(&agent, &of).await {
                    Ok(busy) => UnderWay::begin(busy, *assignment, &of, &tell),
                    Err(words) => Err(words),
                };
                match begun {
                    Ok(begun) => under_way = Some(begun),
                    Err(words) => drop(tell.try_send(Report::Failed(words))),
                }
            }
            Order::Start { at, wall } => {
                // A moment beyond what any run may last is none.
                let measured_from = agent.epoch.checked_add(at);
                let start = under_way.as_mut().and_then(|of| of.start.take());
                if let Some((start, measured_from)) = start.zip(measured_from) {
                    let _ = start.try_send(AgreedStart { measured_from, wall });
                }
            }
            Order::Stop => under_way.iter_mut().for_each(UnderWay::stop),
        }
    };
    // Nobody reads what is left to say.
    writer.abort();
    let Some(mut of) = under_way.filter(|of| !of.thread.is_finished()) else { return };
    of.stop();
    note(format!("the coordinator is gone: {why}; {} is stopped", of.name));
    tokio::time::sleep(ANSWERS_MAX).await;
    of.stop();
}

/// A run that is being sent, or has been.
struct UnderWay {
    name: String,
    stop: Stop,
    /// Takes the moment at which it begins, once.
    start: Option<SyncSender<AgreedStart>>,
    thread: std::thread::JoinHandle<()>,
}

impl UnderWay {
    /// Begins a run on an agent that was claimed for it.
    fn begin(
        busy: BusyAgent,
        assignment: Assignment,
        name: &str,
        tell: &Sender<Report>,
    ) -> Result<Self, String> {
        let stop = busy.stop.clone();
        let (start, started) = sync_channel(1);
        let started = Mutex::new(started);
        let injection_stop = stop.clone();
        let tell = tell.clone();
        let body = move || {
            let telling = tell.clone();
            let agreement = StartAgreement::new(move |_| {
                let _ = telling.blocking_send(Report::Ready);
                started.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
            });
            let injection = Injection {
                limits: busy.agent.limits,
                out: &busy.agent.out,
                stop: injection_stop,
                start: agreement,
                tell: &tell,
            };
            // Whatever happens, the coordinator hears that it is over.
            let ended = catch_unwind(AssertUnwindSafe(|| injection.run(assignment)));
            let broke = |_| Err(Failure::other("the injector broke: its own log says where"));
            let report = ended.unwrap_or_else(broke);
            let report = report.unwrap_or_else(|failure| Report::Failed(failure.to_string()));
            let _ = tell.blocking_send(report);
            drop(busy);
        };
        let thread = std::thread::Builder::new().name("injection".to_owned()).spawn(body);
        let thread = thread.map_err(|error| error.to_string())?;
        note(format!("sends {name}"));
        Ok(Self { name: name.to_owned(), stop, start: Some(start), thread })
    }

    /// Waits for the end of a run that has said its last.
    async fn ended(self) {
        let begun = Instant::now();
        while !self.thread.is_finished() && begun.elapsed() < ENDED_MAX {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Ends it, or calls it off where it has not begun.
    fn stop(&mut self) {
        self.start = None;
        self.stop.ask();
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The agent while it sends a run.
struct BusyAgent {
    agent: Arc<Agent>,
    stop: Stop,
}

impl BusyAgent {
    /// Waits for the end of a run that was stopped, as one is whose coordinator has failed;
    /// refuses, in words, where one is being sent.
    async fn claim(agent: &Arc<Agent>, name: &str) -> Result<Self, String> {
        let begun = Instant::now();
        loop {
            match agent.claim(name) {
                Ok(stop) => return Ok(Self { agent: Arc::clone(agent), stop }),
                Err(other)
                    if other.stop.is_asked() && begun.elapsed() < ANSWERS_MAX + ENDED_MAX =>
                {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                Err(ClaimedRun { name, .. }) => {
                    return Err(format!("it is busy: it sends {name}, and one run at a time"));
                }
            }
        }
    }
}

impl Drop for BusyAgent {
    fn drop(&mut self) {
        *self.agent.busy.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Agent {
    /// Notes the next run, unless there is one.
    fn claim(&self, name: &str) -> Result<Stop, ClaimedRun> {
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(other) = &*busy {
            return Err(other.clone());
        }
        let run = busy.insert(ClaimedRun { name: name.to_owned(), stop: Stop::default() });
        Ok(run.stop.clone())
    }
}
