//! A recorded stream made durable, beside a replica that keeps an append-only file with everysec:
//! MB a second, and what a MB costs.

use rig::redis::Redis;
use rig::wait;

use super::origin::{Origin, Recording};
use super::{Following, info};
use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::{FigureTarget, Series};
use crate::measure::Usage;
use crate::report::{Row, Verdict, median, unit};

const BYTES: u64 = 1 << 30;
/// What is recorded, and then sent again and again.
const RECORDED_BYTES: u64 = 64 << 20;
/// A master that could send no more than so many times what was taken was the limit itself.
const ROOM: f64 = 1.2;

/// What was seen of one way.
#[derive(Default)]
struct StreamSamples {
    mb_per_second: Vec<f64>,
    cpu_us: Vec<f64>,
}

impl StreamSamples {
    fn note(&mut self, origin: &Origin, times: u64, pid: u32) {
        let usage = Usage::begin(pid);
        let (mb, took) = origin.send(times);
        self.mb_per_second.push(mb / took.as_secs_f64());
        self.cpu_us.push(usage.cpu().as_secs_f64() * 1e6 / mb);
    }

    fn series(&self, name: &str) -> [Series; 2] {
        [
            Series::new(name, unit::MB, &self.mb_per_second),
            Series::new(name, unit::CPU_US, &self.cpu_us),
        ]
    }

    fn line(&self, name: &str) -> String {
        let [rate, cpu] = [&self.mb_per_second, &self.cpu_us].map(|all| median(all));
        format!("{name}: {rate:.0} MB a second, {:.2} ms of CPU a MB", cpu / 1e3)
    }
}

/// The rows.
///
/// # Errors
/// When anything can't be started, or the recording is none.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let bytes = BYTES / scale.one_in;
    let origin = Origin::start(Recording::make(RECORDED_BYTES.min(bytes))?)?;
    let times = origin.times(bytes);
    let most = origin.mb_per_second(times)?;
    let [mut ours, mut theirs] = [(); 2].map(|()| StreamSamples::default());
    for _ in 0..scale.pairs {
        origin.begin();
        let mut replica = replica(&origin)?;
        theirs.note(&origin, times, replica.running().id());
        drop(replica);
        origin.begin();
        let mut following = Following::of(&origin.url(), "");
        following.wait_following();
        ours.note(&origin, times, following.weir.running().id());
    }
    let [our_rate, their_rate] = [&ours, &theirs].map(|seen| median(&seen.mb_per_second));
    let is_limit = most < our_rate.max(their_rate) * ROOM;
    let limited = is_limit.then(|| Verdict::Void(format!("the master sends {most:.0} MB/s")));
    let notes = vec![
        theirs.line("replica with everysec, up to what it has applied"),
        ours.line("Weir, up to what is durable"),
        format!("the master sends {most:.0} MB a second to one that does nothing with them"),
    ];
    let series: Vec<Series> =
        theirs.series("replica with everysec").into_iter().chain(ours.series("Weir")).collect();
    let row = |figure: &str, ratio, wanted| {
        Row::judged(figure, ratio, unit::RATIO, wanted).of(series.clone())
    };
    let rate = row("a stream made durable / by a replica", our_rate / their_rate, at_least());
    let cpu = median(&ours.cpu_us) / median(&theirs.cpu_us);
    let cpu = row("CPU time a MB of stream / of a replica", cpu, FigureTarget::at_most(0.5, 0.3));
    let repeat = "make bench ARGS=\"--only aof-stream\"";
    Ok(vec![rate.noted(notes).repeat(repeat).unless(limited), cpu])
}

fn at_least() -> FigureTarget {
    FigureTarget::at_least(1.0, 1.5)
}

/// A replica of the master with an append-only file, once it has the data set.
fn replica(origin: &Origin) -> Outcome<Redis> {
    let port = origin.address.port().to_string();
    let args = ["--appendonly", "yes", "--auto-aof-rewrite-percentage", "0"];
    let replica = Redis::start_with(&[&args[..], &["--replicaof", "127.0.0.1", &port]].concat());
    let mut client = replica.client();
    wait::until("the replica follows", wait::LONG, || {
        let is = |section: &str, field: &str, value: &str| {
            info(&mut replica.client(), section, field).is_ok_and(|found| found == value)
        };
        is("replication", "master_link_status", "up")
            && is("persistence", "aof_rewrite_in_progress", "0")
            && is("persistence", "aof_rewrite_scheduled", "0")
    });
    let is_on = info(&mut client, "persistence", "aof_enabled")?;
    if is_on == "1" { Ok(replica) } else { Err("the replica keeps no append-only file".into()) }
}
