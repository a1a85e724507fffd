//! An echo of a real provider of Dubbo, 64 calls in flight: what a call costs its injector beside
//! JMeter, and what JMeter shows where its sampler makes its reference anew for each sample.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rig::process::Process;
use rig::{clients, places, wait};

use super::speed::{Pairs, SpeedRun, weir};
use crate::arguments::Scale;
use crate::figures::{FigureTarget, Series};
use crate::report::{Row, unit};
use crate::{Outcome, measure};

/// The version that both call.
const VERSION: &str = "2.7.23";
const CALLS_IN_FLIGHT: u32 = 64;
/// How long JMeter runs before its figures count: until its code is compiled.
const WARM_UP: Duration = Duration::from_secs(30);
/// What a script ends with where the registry does not serve what it needs.
const NOT_SERVED: i32 = 77;

const COST: &str = "CPU time a request of the injector, Dubbo echo, 64 in flight / JMeter";
const ANEW: &str = "Dubbo calls a second, JMeter with its reference anew for each sample / kept";

/// The rows.
///
/// # Errors
/// The provider can't be started, or a call fails.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    if let Some(why) = missing()? {
        return Ok(vec![Row::no_peer(COST, &*why), Row::no_peer(ANEW, why)]);
    }
    let provider = Provider::start();
    let (url, seconds) = (provider.url(), scale.duration.as_secs());
    let line = format!(
        "{url} --method echo --types java.lang.String --arguments [\"hello\"] --closed \
         --connections {CALLS_IN_FLIGHT} --channels 1 --duration {seconds}s --warmup 1s"
    );
    let pairs = Pairs {
        what: "Dubbo echo, 64 in flight",
        peer: "JMeter",
        unit: unit::REQUESTS,
        wanted: FigureTarget::at_most(0.2, 0.1),
        repeat: "make bench ARGS=\"--only load-dubbo\"".to_owned(),
    };
    let cost =
        pairs.measure(scale, || weir(&line, 1.0), || jmeter(&provider, true, scale.duration))?;
    let anew = jmeter(&provider, false, scale.duration)?;
    let kept = jmeter(&provider, true, scale.duration)?;
    let ratio = anew.per_second / kept.per_second;
    let (mut notes, mut series) = (Vec::new(), Vec::new());
    for (name, run) in [("reference anew", &anew), ("reference kept", &kept)] {
        let apart_ms = f64::from(CALLS_IN_FLIGHT) / run.per_second * 1e3;
        let shown_ms = run.latency_ms.unwrap_or_default();
        notes.push(format!(
            "{name}: {:.0} calls a second, {shown_ms:.1} ms shown as latency, {apart_ms:.1} ms \
             from sample to sample of a thread",
            run.per_second
        ));
        series.push(Series::new(name, unit::REQUESTS, &[run.per_second]));
        series.push(Series::new(format!("{name}, latency shown"), unit::MS, &[shown_ms]));
        series.push(Series::new(format!("{name}, sample to sample"), unit::MS, &[apart_ms]));
    }
    let anew = Row::beside(ANEW, ratio, unit::RATIO).of(series).noted(notes);
    Ok(vec![cost, anew.repeat(&*pairs.repeat)])
}

/// Why there is no peer; nothing where there is.
fn missing() -> Outcome<Option<String>> {
    let dubbo = clients::script("dubbo").args(["install", VERSION]).output()?;
    let jmeter = clients::script("jmeter").arg("install").output()?;
    for (name, output) in [("Dubbo", dubbo), ("JMeter", jmeter)] {
        if output.status.code() == Some(NOT_SERVED) {
            return Ok(Some(format!("the registry does not serve {name}")));
        }
        if !output.status.success() {
            return Err(clients::said(&output).into());
        }
    }
    Ok(None)
}

/// A provider of an echo.
struct Provider {
    _process: Process,
    port: u16,
    dir: tempfile::TempDir,
}

impl Provider {
    fn start() -> Self {
        let (dir, port) = (places::directory(), places::free_address().port());
        let mut script = clients::script("dubbo");
        script.args(["provide", VERSION, &port.to_string(), "N/A"]);
        let log = dir.path().join("provider");
        let mut process = Process::start("a provider of Dubbo", &mut script, &log);
        wait::until("the provider is ready", wait::LONG, || {
            assert!(process.ended().is_none(), "{}", process.log());
            process.log().lines().any(|line| line == "ready")
        });
        Self { _process: process, port, dir }
    }

    fn url(&self) -> String {
        format!("dubbo://127.0.0.1:{}/weir.test.EchoService", self.port)
    }
}

/// What a run of JMeter came to once it was warm.
fn jmeter(provider: &Provider, keeps_reference: bool, duration: Duration) -> Outcome<SpeedRun> {
    let dir = tempfile::tempdir_in(provider.dir.path())?;
    let seconds = (WARM_UP + duration + Duration::from_secs(5)).as_secs();
    let mut script = clients::script("jmeter");
    script.arg("dubbo").env("WEIR_DIR", dir.path()).env("WEIR_URL", provider.url());
    script.env("WEIR_DUBBO", jars()).env("WEIR_CACHED", keeps_reference.to_string());
    script.env("WEIR_SECONDS", seconds.to_string());
    script.env("WEIR_THREADS", CALLS_IN_FLIGHT.to_string());
    let mut process = Process::start("JMeter", &mut script, &dir.path().join("log"));
    let samples = dir.path().join("result.jtl");
    wait::until("JMeter has begun", wait::LONG, || {
        assert!(process.ended().is_none(), "{}", process.log());
        process.log().contains("Starting standalone test")
    });
    // What is waited for is the time itself.
    std::thread::sleep(WARM_UP);
    let (from, used) = (SystemTime::now(), measure::cpu(process.id()));
    // Its figures are of this time.
    std::thread::sleep(duration);
    let (to, used_then) = (SystemTime::now(), measure::cpu(process.id()));
    wait::until("JMeter has ended", wait::LONG, || process.ended().is_some());
    let of = Samples::within(&std::fs::read_to_string(samples)?, from, to)?;
    let span = to.duration_since(from).unwrap_or_default().as_secs_f64();
    Ok(SpeedRun {
        count: of.count as f64,
        per_second: of.count as f64 / span,
        cpu: used_then.saturating_sub(used),
        latency_ms: Some(of.elapsed_ms as f64 / of.count.max(1) as f64),
        verdict: None,
    })
}

/// Where the script keeps Dubbo's jars.
fn jars() -> PathBuf {
    places::beside_the_build().join("clients").join(format!("dubbo-{VERSION}"))
}

/// Samples of a file of JMeter's that began within a time.
#[derive(Debug, Default, PartialEq)]
struct Samples {
    count: u64,
    elapsed_ms: u64,
}

impl Samples {
    fn within(jtl: &str, from: SystemTime, to: SystemTime) -> Outcome<Self> {
        let millis = |at: SystemTime| at.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let (from, to) = (millis(from), millis(to));
        let mut samples = Self::default();
        for line in jtl.lines().skip(1) {
            let mut fields = line.split(',');
            let number = |text: Option<&str>| text.and_then(|text| text.parse::<u64>().ok());
            let (began, elapsed) = (number(fields.next()), number(fields.next()));
            let Some((began, elapsed)) = began.zip(elapsed) else { continue };
            if !(from..to).contains(&u128::from(began)) {
                continue;
            }
            if !line.contains(",true,") {
                return Err(format!("a call of JMeter failed: {line}").into());
            }
            samples.count += 1;
            samples.elapsed_ms += elapsed;
        }
        Ok(samples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_a_time_are_counted_and_a_failed_one_ends_it() {
        let at = |millis| UNIX_EPOCH + Duration::from_millis(millis);
        let jtl = "timeStamp,elapsed,label,responseCode,responseMessage,threadName,dataType,ok\n\
                   999,4,echo,,,callers 1-1,text,true,\n\
                   1000,5,echo,,,callers 1-1,text,true,\n\
                   1999,7,echo,,,callers 1-2,text,true,\n\
                   2000,9,echo,,\"no, not so\",callers 1-2,text,false,\n";
        let within = |from, to| Samples::within(jtl, at(from), at(to));
        assert_eq!(within(1000, 2000).unwrap(), Samples { count: 2, elapsed_ms: 12 });
        assert!(within(1000, 2001).is_err());
    }
}
