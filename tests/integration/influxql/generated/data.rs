//! A schema and its points.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};

const SECOND: i64 = 1_000_000_000;
const TEXTS: [&str; 6] = ["red", "green", "blue", "light blue", "", "r<e>d"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Integer,
    Float,
    Text,
    Boolean,
}

/// A field: its name, its type, and in how many of 100 points it is.
#[derive(Debug, Clone)]
pub struct Field {
    pub name: &'static str,
    pub kind: Kind,
    share: u32,
}

/// A tag: its key, its values, and in how many of 100 series it is.
#[derive(Debug, Clone)]
pub struct Tag {
    pub key: &'static str,
    pub values: Vec<&'static str>,
    share: u32,
}

#[derive(Debug, Clone)]
pub struct Measurement {
    pub name: &'static str,
    pub tags: Vec<Tag>,
    pub fields: Vec<Field>,
}

/// A schema, and lines of it in the order in which they are written.
#[derive(Debug, Clone)]
pub struct World {
    pub measurements: Vec<Measurement>,
    pub start_ns: i64,
    /// Between two points of a series, most of the time.
    pub step_ns: i64,
    /// How many steps there are.
    pub steps: i64,
    pub lines: Vec<String>,
}

impl World {
    pub fn made(chance: &mut StdRng) -> Self {
        let names: &[&str] = &["m", "n", "other"];
        let count = chance.random_range(1..=names.len());
        let measurements = names[..count].iter().map(|name| measurement(chance, name)).collect();
        let starts = [1_577_836_800, 0, -1_000_000_000, 1_420_070_400, -100, 1_585_440_000];
        let start = *starts.choose(chance).unwrap();
        let step = *[1, 7, 10, 60, 3_600].choose(chance).unwrap();
        let steps = chance.random_range(5..60);
        let (start_ns, step_ns) = (start * SECOND, step * SECOND);
        let mut world = Self { measurements, start_ns, step_ns, steps, lines: Vec::new() };
        world.lines = world.points(chance);
        world
    }

    fn points(&self, chance: &mut StdRng) -> Vec<String> {
        let mut lines = Vec::new();
        for measurement in &self.measurements {
            // A field that nobody has written is none.
            let fields: Vec<_> = measurement.fields.iter().map(|f| put(chance, f)).collect();
            let series = series_of(chance, measurement);
            lines.push(format!("{series} {} {}\n", fields.join(","), self.start_ns));
            let series = chance.random_range(1..=5);
            for _ in 0..series {
                let series = series_of(chance, measurement);
                // Some series have more gaps than others.
                let share = *[100, 90, 50, 20].choose(chance).unwrap();
                for step in 0..self.steps {
                    if chance.random_range(0..100) < share {
                        let fields = fields_of(chance, measurement);
                        let ns = self.start_ns + step * self.step_ns;
                        lines.push(format!("{series} {fields} {ns}\n"));
                    }
                }
                // Off the beat, and written again.
                for _ in 0..chance.random_range(0..4) {
                    let fields = fields_of(chance, measurement);
                    let ns = self.start_ns + chance.random_range(0..self.steps * self.step_ns);
                    lines.push(format!("{series} {fields} {ns}\n"));
                }
                for _ in 0..chance.random_range(0..6) {
                    let fields = fields_of(chance, measurement);
                    let ns = self.start_ns + chance.random_range(0..self.steps) * self.step_ns;
                    lines.push(format!("{series} {fields} {ns}\n"));
                }
            }
        }
        if chance.random_bool(0.7) {
            lines.shuffle(chance);
        }
        lines
    }

    /// The lines in requests of several sizes.
    pub fn requests(&self, chance: &mut StdRng) -> Vec<Vec<String>> {
        let mut requests = Vec::new();
        let mut rest = self.lines.as_slice();
        while !rest.is_empty() {
            let (now, later) = rest.split_at(chance.random_range(1..=rest.len()));
            requests.push(now.to_vec());
            rest = later;
        }
        requests
    }

    /// Whether all of it lies in one of InfluxDB's shards, which are weeks that begin on Monday.
    pub fn is_in_one_shard(&self) -> bool {
        const DAY: i64 = 86_400 * SECOND;
        // 1970 began on a Thursday.
        let shard = |ns: i64| (ns + 3 * DAY).div_euclid(7 * DAY);
        shard(self.start_ns) == shard(self.start_ns + self.steps * self.step_ns)
    }

    /// The time after so many steps, near it or exactly there.
    pub fn time(&self, chance: &mut StdRng, from: i64, to: i64) -> i64 {
        let step = chance.random_range(from..=to);
        let off = if chance.random_bool(0.3) { self.step_ns / 3 } else { 0 };
        self.start_ns + step * self.step_ns + off
    }
}

fn measurement(chance: &mut StdRng, name: &'static str) -> Measurement {
    let tags = [
        ("host", vec!["a", "b", "c"], 100),
        ("dc", vec!["x", "y"], 60),
        ("rack", vec!["1", "2", "10"], 30),
    ];
    let fields = [
        ("i", Kind::Integer, 90),
        ("f", Kind::Float, 80),
        ("s", Kind::Text, 50),
        ("b", Kind::Boolean, 50),
        ("j", Kind::Integer, 20),
        ("g", Kind::Float, 10),
    ];
    let tags = tags.into_iter().map(|(key, values, share)| Tag { key, values, share });
    let fields = fields.into_iter().map(|(name, kind, share)| Field { name, kind, share });
    let keep = |chance: &mut StdRng| chance.random_bool(0.8);
    let tags = tags.filter(|_| keep(chance)).collect();
    // The first is in most points.
    let fields = fields.filter(|field| field.name == "i" || keep(chance)).collect();
    Measurement { name, tags, fields }
}

fn series_of(chance: &mut StdRng, measurement: &Measurement) -> String {
    let mut series = measurement.name.to_owned();
    for tag in &measurement.tags {
        if chance.random_range(0..100) < tag.share {
            let value = tag.values.choose(chance).unwrap();
            series.push_str(&format!(",{}={value}", tag.key));
        }
    }
    series
}

fn fields_of(chance: &mut StdRng, measurement: &Measurement) -> String {
    let mut fields = Vec::new();
    for field in &measurement.fields {
        if chance.random_range(0..100) < field.share {
            fields.push(put(chance, field));
        }
    }
    if fields.is_empty() {
        fields.push(format!("i={}", value_of(chance, Kind::Integer)));
    }
    fields.join(",")
}

fn put(chance: &mut StdRng, field: &Field) -> String {
    format!("{}={}", field.name, value_of(chance, field.kind))
}

/// Floats are quarters, so that their sums are the same in every order.
fn value_of(chance: &mut StdRng, kind: Kind) -> String {
    match kind {
        Kind::Integer => format!("{}i", chance.random_range(-50..50)),
        Kind::Float => format!("{}", f64::from(chance.random_range(-400..400)) / 4.0),
        Kind::Text => format!("\"{}\"", TEXTS.choose(chance).unwrap()),
        Kind::Boolean => chance.random_bool(0.5).to_string(),
    }
}
