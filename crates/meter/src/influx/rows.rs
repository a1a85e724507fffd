//! What a point looks like.

use std::io::Write as _;
use std::str::FromStr;

use crate::chance::Chance;

/// A kind of points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// Two integers and 24 characters, none of them ASCII: the row of a field report.
    Report,
    /// As JMeter's InfluxDB backend listener writes them.
    Jmeter,
    /// A host's CPU, as TSBS's use case cpu-only has it: 10 tags and 10 fields.
    CpuOnly,
}

/// TSBS's regions, in each of which there are three data centres.
const REGIONS: [&str; 9] = [
    "us-east-1",
    "us-west-1",
    "us-west-2",
    "eu-west-1",
    "eu-central-1",
    "ap-southeast-1",
    "ap-southeast-2",
    "ap-northeast-1",
    "sa-east-1",
];
const SYSTEMS: [&str; 3] = ["Ubuntu16.10", "Ubuntu16.04LTS", "Ubuntu15.10"];
const TEAMS: [&str; 4] = ["SF", "NYC", "LON", "CHI"];
const ENVIRONMENTS: [&str; 3] = ["production", "staging", "test"];
/// TSBS's fields of a CPU.
const USAGES: [&str; 10] =
    ["user", "system", "idle", "nice", "iowait", "irq", "softirq", "steal", "guest", "guest_nice"];

impl FromStr for Rows {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "report" => Ok(Self::Report),
            "jmeter" => Ok(Self::Jmeter),
            "cpu-only" => Ok(Self::CpuOnly),
            _ => Err(format!("{text:?} is not a kind of rows: report, jmeter or cpu-only is")),
        }
    }
}

impl Rows {
    pub fn name(self) -> &'static str {
        match self {
            Self::Report => "report",
            Self::Jmeter => "jmeter",
            Self::CpuOnly => "cpu-only",
        }
    }

    /// What its points are written to.
    pub(crate) fn measurement(self) -> &'static str {
        match self {
            Self::Report => "stress",
            Self::Jmeter => "jmeter",
            Self::CpuOnly => "cpu",
        }
    }

    /// The number of a series by its tags, of which `tag` gives each by its name.
    pub(crate) fn series<'a>(self, tag: impl Fn(&str) -> Option<&'a str>) -> Option<u64> {
        match self {
            Self::Report => tag("series").map_or(Some(0), |text| text.parse().ok()),
            Self::Jmeter => tag("transaction")?.strip_prefix('t')?.parse().ok(),
            Self::CpuOnly => tag("hostname")?.strip_prefix("host_")?.parse().ok(),
        }
    }

    /// A point without its time. The tags say of which series it is.
    pub(super) fn put(self, point: u64, series: u64, chance: &mut Chance, out: &mut Vec<u8>) {
        match self {
            Self::Report => put_report(point, series, chance, out),
            Self::Jmeter => put_jmeter(series, chance, out),
            Self::CpuOnly => put_cpu(series, chance, out),
        }
    }
}

// Writing to memory does not fail.

fn put_report(point: u64, series: u64, chance: &mut Chance, out: &mut Vec<u8>) {
    // InfluxDB 1 has no unsigned integers, and the report's row no tag: one is there where series
    // are to be told apart.
    let value = point & i64::MAX.unsigned_abs();
    let _ = match series {
        0 => write!(out, "stress int={value}i,uint={value}i,str=\""),
        more => write!(out, "stress,series={more} int={value}i,uint={value}i,str=\""),
    };
    for _ in 0..24 {
        // Two bytes or three; none needs an escape, and there are no surrogates among them.
        let code = 0xa1 + chance.below(0xd7ff - 0xa1) as u32;
        let character = char::from_u32(code).unwrap_or('\u{a1}');
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    }
    out.push(b'"');
}

fn put_jmeter(series: u64, chance: &mut Chance, out: &mut Vec<u8>) {
    let count = 1 + chance.below(1000);
    let min = 1 + chance.below(20);
    let percentiles = [90, 95, 99].map(|share| min + chance.below(share * 10));
    let max = percentiles.iter().max().copied().unwrap_or(min) + chance.below(100);
    let (received, sent) = (count * (200 + chance.below(800)), count * (100 + chance.below(100)));
    let _ = write!(
        out,
        "jmeter,application=weir,statut=ok,transaction=t{series} \
         avg={}.5,count={count}i,hit={count}i,max={max}.0,min={min}.0,\
         pct90.0={}.0,pct95.0={}.0,pct99.0={}.0,rb={received}i,sb={sent}i",
        min + (max - min) / 3,
        percentiles[0],
        percentiles[1],
        percentiles[2],
    );
}

fn put_cpu(series: u64, chance: &mut Chance, out: &mut Vec<u8>) {
    // The tags of a host are the same in each of its points.
    let mut of_host = Chance::of(0, series);
    let region = of_host.below(9) as usize;
    let _ = write!(
        out,
        "cpu,hostname=host_{series},region={},datacenter={}{},rack={},os={},arch={},team={},\
         service={},service_version={},service_environment={} ",
        REGIONS[region],
        REGIONS[region],
        ["a", "b", "c"][of_host.below(3) as usize],
        of_host.below(100),
        SYSTEMS[of_host.below(3) as usize],
        ["x64", "x86"][of_host.below(2) as usize],
        TEAMS[of_host.below(4) as usize],
        of_host.below(20),
        of_host.below(2),
        ENVIRONMENTS[of_host.below(3) as usize],
    );
    for (at, usage) in USAGES.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let _ = write!(out, "{comma}usage_{usage}={}i", chance.below(101));
    }
}
