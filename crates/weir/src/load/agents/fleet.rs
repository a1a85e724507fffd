//! A coordinator's agents: their connections, and the runs that it has them send.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use meter::engine::{self, FinishedWindow, Load, Outcome, Plan, Stop};
use meter::part::RunPart;
use meter::window::Timeline;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::timeout;

use super::ledgers::ReceivedLedger;
use super::link::{Link, LinkEvent, NumberedEvent};
use super::message::{Assignment, OF_COORDINATOR, Order, Report};
use super::progress::{PartAgent, RunInProgress};
use super::secret;
use crate::exit::Failure;
use crate::load::ended::EndedPiece;
use crate::load::inputs::Inputs;
use crate::load::merge;
use crate::load::run::LoadSource;

/// Reports that wait; agents have to wait for room.
const EVENTS_MAX: usize = 256;
/// How often the run looks whether somebody has stopped it.
const CHECK_EVERY: Duration = Duration::from_millis(100);
/// How long an order to start may be on its way.
const START_LEAD: Duration = Duration::from_millis(500);

/// How long an agent may say nothing of a run that is over, behind the timeout of its requests.
const ENDING_MAX: Duration = Duration::from_secs(30);
/// The same once it was told to wait for nothing.
const STOPPING_MAX: Duration = Duration::from_secs(5);

/// The agents of a coordinator.
pub struct Fleet {
    links: Vec<Link>,
    events: Receiver<NumberedEvent>,
    /// What each of them is to send, apart from the number of its part.
    assignment: Assignment,
    /// The moment from which this machine's clock counts.
    epoch: Instant,
    /// Where ledgers are until they are put together, where they are kept.
    scratch: Option<TempDir>,
    /// The ledgers of the last run's parts.
    ledgers: Vec<ReceivedLedger>,
    /// What the connections are served by.
    runtime: Runtime,
}

impl Fleet {
    /// Connects to agents that know the secret in that file; they are to send loads as they are in
    /// `source`, under that id, with a ledger of that number where there is one.
    ///
    /// # Errors
    /// One of them is not there, or refuses.
    pub fn connect(
        names: &[String],
        secret_file: &Path,
        (source, inputs): (&LoadSource, &Inputs),
        (run_id, ledger): (&str, Option<u64>),
    ) -> Result<Self, Failure> {
        let secret = secret::read(secret_file)?;
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(Failure::other)?;
        let scratch = ledger.map(|_| TempDir::with_prefix("weir-load-")).transpose();
        let scratch = scratch.map_err(Failure::other)?;
        let (tell, events) = channel(EVENTS_MAX);
        let epoch = Instant::now();
        let links = runtime.block_on(async {
            let mut links = Vec::new();
            for (number, name) in names.iter().enumerate() {
                links.push(Link::open(number, name, &secret, epoch, tell.clone()).await?);
            }
            Ok::<_, Failure>(links)
        })?;
        let assignment = Assignment {
            run_id: run_id.to_owned(),
            part: RunPart::WHOLE,
            text: source.text_without(&OF_COORDINATOR).map_err(Failure::other)?,
            over: source.over_without(&OF_COORDINATOR),
            inputs: inputs.to_send(),
            rate: None,
            ledger,
        };
        Ok(Self { links, events, assignment, epoch, scratch, ledgers: Vec::new(), runtime })
    }

    /// Has the next run be at this rate, for as long as a step of a search.
    pub fn at_rate(&mut self, rate: f64) {
        self.assignment.rate = Some(rate);
    }

    /// Has all agents send their parts of these loads, which are checked; `each` hears of each
    /// window that all of them have ended, and of each that one has.
    ///
    /// # Errors
    /// An agent refuses, or is gone before the run begins.
    pub fn run(
        &mut self,
        loads: &[Load<'static>],
        mut each: impl FnMut(EndedPiece<'_>),
    ) -> Result<Outcome, Failure> {
        let Some(first) = loads.first() else { return Ok(Outcome::default()) };
        let agents = self.prepare()?;
        let stop = &first.plan.stop;
        self.wait_ready(stop)?;
        let wall = self.start(&first.plan)?;
        let plans = || loads.iter().map(|load| &load.plan);
        let begun = Outcome {
            closed: first.plan.is_closed(),
            connections: plans().map(|plan| plan.connections).sum(),
            threads: plans().map(|plan| plan.threads).sum(),
            measured: first.plan.duration(),
            wall,
            operations: engine::names(loads),
            thresholds: first.plan.thresholds,
            ..Outcome::default()
        };
        let agents = self.with_clocks(agents);
        let mut run = RunInProgress::new(agents, begun, first.plan.abort.clone());
        let longest = plans().map(|plan| plan.timeout).max().unwrap_or_default();
        let planned = first.plan.warm_up + first.plan.duration() + longest;
        let mut deadline = Instant::now() + START_LEAD + planned + ENDING_MAX;
        let mut told = 0;
        while !run.is_over() {
            let asked = stop.asked().max(u8::from(run.is_to_end()));
            (told..asked).for_each(|_| self.order_all(|| Order::Stop));
            if told < 2 && asked >= 2 {
                deadline = deadline.min(Instant::now() + STOPPING_MAX);
            }
            told = told.max(asked);
            let whole = match self.event() {
                None if Instant::now() < deadline => continue,
                None => self.lose_all(&mut run, "it has not ended in time"),
                Some((at, LinkEvent::Lost(why))) => run.lose(at, why),
                Some((at, LinkEvent::Report(report))) => {
                    if told < 2 {
                        deadline = deadline.max(Instant::now() + ENDING_MAX);
                    }
                    run.take(at, report, &mut each).unwrap_or_else(|error| {
                        self.links[at].cut();
                        run.lose(at, error.to_string())
                    })
                }
            };
            whole.iter().for_each(|ended| each(EndedPiece::Window(ended)));
        }
        let clocks: Vec<_> = self.links.iter().map(Link::clocks).collect();
        let (outcome, ledgers) = run.finish(&clocks);
        self.ledgers = ledgers;
        Ok(outcome)
    }

    /// What was heard last, or nothing for a while.
    fn event(&mut self) -> Option<NumberedEvent> {
        let Self { events, runtime, .. } = self;
        runtime.block_on(async { timeout(CHECK_EVERY, events.recv()).await.ok().flatten() })
    }

    /// Gives all agents up that have not ended.
    fn lose_all(&mut self, run: &mut RunInProgress, why: &str) -> Vec<FinishedWindow> {
        let running: Vec<_> = (0..self.links.len()).filter(|at| run.is_running(*at)).collect();
        let each = running.into_iter().map(|at| {
            self.links[at].cut();
            run.lose(at, why.to_owned())
        });
        each.flatten().collect()
    }

    /// Tells each agent its part.
    fn prepare(&mut self) -> Result<Vec<PartAgent>, Failure> {
        if let Some(Link { name, .. }) = self.links.iter().find(|link| link.is_gone()) {
            return Err(Failure::other(format!("agent {name} is gone")));
        }
        let count = self.links.len() as u64;
        let mut agents = Vec::new();
        for (number, link) in (1..).zip(&self.links) {
            let part = RunPart::new(number, count).unwrap_or_default();
            let assignment = Assignment { part, ..self.assignment.clone() };
            link.order(Order::Prepare(Box::new(assignment)));
            let directory = |scratch: &TempDir| scratch.path().join(number.to_string());
            let directory = self.scratch.as_ref().map(directory);
            let ledger = directory.map(ReceivedLedger::new).transpose();
            let ledger = ledger.map_err(Failure::other)?;
            agents.push(PartAgent { name: link.name.clone(), part, clocks: None, ledger });
        }
        Ok(agents)
    }

    /// Waits until all agents have their connections.
    fn wait_ready(&mut self, stop: &Stop) -> Result<(), Failure> {
        let mut ready = vec![false; self.links.len()];
        while ready.iter().any(|ready| !ready) {
            let failed = match self.event() {
                Some((at, LinkEvent::Report(Report::Ready))) => {
                    ready[at] = true;
                    continue;
                }
                None if stop.is_asked() => "the run was stopped before it began".to_owned(),
                None => continue,
                Some((at, LinkEvent::Lost(words) | LinkEvent::Report(Report::Failed(words)))) => {
                    let Link { name, host, .. } = &self.links[at];
                    format!("agent {name} ({host}): {words}")
                }
                Some((at, LinkEvent::Report(_))) => {
                    format!("agent {} says what nobody asked", self.links[at].name)
                }
            };
            self.order_all(|| Order::Stop);
            return Err(Failure::other(failed));
        }
        Ok(())
    }

    /// Tells all agents the moment at which to begin; gives what the wall clock shows then.
    fn start(&self, plan: &Plan) -> Result<SystemTime, Failure> {
        let warm_up = plan.warm_up + START_LEAD;
        let timeline = Timeline::new(Instant::now(), SystemTime::now, warm_up, plan.duration());
        let ours = timeline.measured_from.saturating_duration_since(self.epoch);
        let starts = self.links.iter().map(|link| {
            let at = link.clocks().and_then(|clocks| clocks.monotonic.theirs(ours));
            at.ok_or_else(|| Failure::other(format!("agent {} tells no time", link.name)))
        });
        let starts = starts.collect::<Result<Vec<_>, _>>()?;
        for (link, at) in self.links.iter().zip(starts) {
            link.order(Order::Start { at, wall: timeline.wall });
        }
        Ok(timeline.wall)
    }

    /// How far the clocks of agents are ahead at the start.
    fn with_clocks(&self, agents: Vec<PartAgent>) -> Vec<PartAgent> {
        let each = agents.into_iter().zip(&self.links);
        each.map(|(agent, link)| PartAgent { clocks: link.clocks(), ..agent }).collect()
    }

    fn order_all(&self, order: impl Fn() -> Order) {
        self.links.iter().for_each(|link| link.order(order()));
    }

    /// Puts the ledgers of all parts together in the directory of the run; says what to do with
    /// them. Nothing where none was kept.
    pub fn keep_ledgers(self, directory: &Path) -> Option<String> {
        self.assignment.ledger?;
        let parts: Vec<_> = self.ledgers.iter().map(ReceivedLedger::directory).collect();
        let count = self.links.len() as u64;
        Some(merge::kept_ledger(&parts, count, directory))
    }
}
