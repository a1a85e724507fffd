//! What a master says of itself, asked on a connection of its own: for how long its buffers last at
//! the present rate, and whether they are to be made larger.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::{MissedTickBehavior, interval, timeout};
use wire::resp::put_command;

use super::answers::{Limit, config, keys_of, limit_of_replicas, output_limit};
use super::lines::Id;
use super::link::Stop;
use super::state::{Lasts, State};
use crate::info;
use crate::server::{Connection, Server};
use crate::settings::AofSettings;

/// The settings of a master that decide how long it keeps what Weir does not take.
const BACKLOG: &str = "repl-backlog-size";
const OUTPUT: &str = "client-output-buffer-limit";
/// What Weir sets is a multiple of this, so that it is seldom set.
const STEP_BYTES: u64 = 1 << 20;

/// Asks one master again and again.
pub struct Surveyor {
    server: Server,
    state: Arc<State>,
    every: Duration,
    patience: Duration,
    plan: Plan,
    connection: Option<Connection>,
    /// When the stream was where.
    before: Option<(Instant, u64)>,
}

/// For how long a master is to keep what Weir does not take, and whether Weir sees to that.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// At the highest rate that was seen.
    pub outage: Duration,
    /// The most that is set.
    pub most: u64,
    /// Whether it is set, or only said.
    pub tunes: bool,
}

/// How a master is set now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limits {
    backlog: u64,
    output: Limit,
}

impl Surveyor {
    /// Nothing is asked yet.
    pub fn new(server: Server, settings: &AofSettings, tunes: bool, state: Arc<State>) -> Self {
        let (every, patience) = (settings.ask_every.get(), settings.timeout.get());
        let most = settings.tune_max.bytes();
        let plan = Plan { outage: settings.outage.get(), most, tunes };
        Self { server, state, every, patience, plan, connection: None, before: None }
    }

    /// Asks until the process stops.
    pub async fn run(mut self, mut stop: Stop) {
        let mut ticks = interval(self.every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
            let asked = timeout(self.patience, self.survey()).await;
            let asked = asked.unwrap_or_else(|_| Err("it does not answer".to_owned()));
            let advice = asked.unwrap_or_else(|words| {
                self.connection = None;
                vec![format!("it cannot be asked how it is set: {words}")]
            });
            for words in self.state.advise(advice) {
                tracing::warn!(master = &*self.server.name, "{words}");
            }
        }
    }

    /// Asks once; gives what an operator should hear.
    async fn survey(&mut self) -> Result<Vec<String>, String> {
        let mut out = Vec::new();
        put_command(&mut out, ["INFO", "replication"].iter());
        put_command(&mut out, ["INFO", "keyspace"].iter());
        put_command(&mut out, ["CONFIG", "GET", BACKLOG].iter());
        put_command(&mut out, ["CONFIG", "GET", OUTPUT].iter());
        let replies = self.ask(&out, 4).await?;
        let [replication, keyspace, backlog, output] = &replies[..] else { return Ok(Vec::new()) };
        let number = |text: Option<&str>| text.and_then(|text| text.parse().ok());
        let offset: Option<u64> = number(info::field(replication, "master_repl_offset"));
        let id = info::field(replication, "master_replid").and_then(|id| Id::read(id.as_bytes()));
        self.state.counted(id.zip(keys_of(keyspace)));
        let backlog = number(config(backlog, BACKLOG));
        let output = config(output, OUTPUT).and_then(output_limit);
        let (Some(offset), Some(backlog), Some(output)) = (offset, backlog, output) else {
            return Err("its answer has neither offset nor limits".to_owned());
        };
        let limits = Limits { backlog, output };
        let rate = self.rate(offset);
        let Some(peak) = self.state.lasts(limits.last(rate)) else { return Ok(Vec::new()) };
        let wanted = self.plan.bytes(peak);
        let changes = limits.changes(wanted);
        if self.plan.tunes && !changes.is_empty() {
            self.set(&changes).await?;
            return Ok(Vec::new());
        }
        Ok(self.plan.advice(&changes))
    }

    /// Bytes of the stream a second since it was asked before.
    fn rate(&mut self, offset: u64) -> Option<f64> {
        let now = Instant::now();
        let (at, before) = self.before.replace((now, offset))?;
        let seconds = now.duration_since(at).as_secs_f64();
        Some(offset.saturating_sub(before) as f64 / seconds.max(1e-3))
    }

    async fn set(&mut self, changes: &[(&str, String)]) -> Result<(), String> {
        let mut out = Vec::new();
        let master = &*self.server.name;
        for (key, value) in changes {
            put_command(&mut out, ["CONFIG", "SET", key, value].iter());
            tracing::info!(master, key, value, "the master's limit is set");
        }
        self.ask(&out, changes.len()).await.map(drop)
    }

    async fn ask(&mut self, commands: &[u8], count: usize) -> Result<Vec<Vec<u8>>, String> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.server.dial().await.map_err(|error| error.to_string())?,
        };
        let replies = connection.ask(commands, count).await.map_err(|error| error.to_string())?;
        if let Some(error) = replies.iter().find_map(|reply| reply.strip_prefix(b"-")) {
            return Err(String::from_utf8_lossy(error).trim_end().to_owned());
        }
        self.connection = Some(connection);
        Ok(replies)
    }
}

impl Limits {
    /// For how long they last at a rate; unknown before there is one.
    fn last(&self, rate: Option<f64>) -> Option<Lasts> {
        let rate = rate?;
        // A server takes none below the backlog's size for one (`checkClientOutputBufferLimits`).
        let hard = self.output.hard.max(self.backlog);
        let hard = (self.output.hard > 0).then(|| hard as f64 / rate);
        let soft = (self.output.soft > 0)
            .then(|| self.output.soft as f64 / rate + self.output.soft_seconds as f64);
        let output = [hard, soft].into_iter().flatten().reduce(f64::min);
        let finite = |seconds: f64| seconds.is_finite().then_some(seconds);
        Some(Lasts {
            rate,
            output_seconds: output.and_then(finite),
            backlog_seconds: finite(self.backlog as f64 / rate),
        })
    }

    /// What would have to be set so that so many bytes are kept.
    fn changes(&self, wanted: u64) -> Vec<(&'static str, String)> {
        let mut found = Vec::new();
        if self.backlog < wanted {
            found.push((BACKLOG, wanted.to_string()));
        }
        let raised = self.output.raised(wanted);
        if raised != self.output {
            found.push((OUTPUT, limit_of_replicas(raised)));
        }
        found
    }
}

impl Plan {
    /// How many bytes a master is to keep where its stream has had this rate.
    fn bytes(&self, peak: f64) -> u64 {
        let wanted = (peak * self.outage.as_secs_f64()) as u64;
        wanted.next_multiple_of(STEP_BYTES).min(self.most)
    }

    /// What an operator is told to set, a sentence for each change.
    fn advice(&self, changes: &[(&str, String)]) -> Vec<String> {
        let outage = self.outage;
        let say = |(key, value): &(&str, String)| {
            let what = match *key {
                BACKLOG => "a link that is gone for longer costs a full resync, a fork",
                _ => "while Weir's disk stands still for longer, the master closes the link",
            };
            format!(
                "its {key} is too small for {outage:?} at the highest rate seen: {what}. \
                 CONFIG SET {key} \"{value}\", or tune = true"
            )
        };
        changes.iter().map(say).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Limit, Limits, OUTPUT, Plan};

    const MIB: u64 = 1 << 20;

    fn limits(backlog: u64, hard: u64, soft: u64) -> Limits {
        Limits { backlog, output: Limit { hard, soft, soft_seconds: 60 } }
    }

    #[test]
    fn it_is_said_for_how_long_a_masters_buffers_last() {
        let redis_own = limits(MIB, 256 * MIB, 64 * MIB);
        assert_eq!(redis_own.last(None), None);
        let lasts = redis_own.last(Some(MIB as f64)).unwrap();
        assert_eq!((lasts.output_seconds, lasts.backlog_seconds), (Some(124.0), Some(1.0)));
        let lasts = redis_own.last(Some(16.0 * MIB as f64)).unwrap();
        assert_eq!(lasts.output_seconds, Some(16.0), "the hard limit comes first");
        let lasts = limits(8 * MIB, 2 * MIB, 0).last(Some(MIB as f64)).unwrap();
        assert_eq!(lasts.output_seconds, Some(8.0), "no limit is below the backlog");
        assert_eq!(limits(MIB, 0, 0).last(Some(1.0)).unwrap().output_seconds, None);
        let idle = redis_own.last(Some(0.0)).unwrap();
        assert_eq!((idle.output_seconds, idle.backlog_seconds), (None, None));
    }

    #[test]
    fn limits_are_raised_to_the_outage_never_lowered_and_never_beyond_the_most() {
        let plan = Plan { outage: Duration::from_secs(60), most: 512 * MIB, tunes: true };
        let wanted = plan.bytes(1.5 * MIB as f64);
        assert_eq!(wanted, 90 * MIB);
        let changes = limits(MIB, 256 * MIB, 64 * MIB).changes(wanted);
        assert_eq!(changes[0].1, "94371840");
        assert_eq!(changes[1], (OUTPUT, "replica 268435456 94371840 60".to_owned()));
        assert_eq!(plan.advice(&changes).len(), 2);
        assert!(limits(MIB * 90, 0, 0).changes(wanted).is_empty(), "0 is without a limit");
        assert_eq!(plan.bytes(1e12), 512 * MIB);
        assert!(limits(600 * MIB, 600 * MIB, 600 * MIB).changes(plan.bytes(1e12)).is_empty());
    }
}
