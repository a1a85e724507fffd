//! Prometheus' text format, as much of it as a test asks for.

use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub value: f64,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scrape {
    /// Every sample in order.
    pub samples: Vec<Sample>,
    /// The names that have a help text.
    pub helped: Vec<String>,
}

impl Scrape {
    /// Reads the text format.
    ///
    /// # Panics
    /// When a line can't be read, which a scraper could not either.
    pub fn parse(text: &str) -> Self {
        let mut scrape = Self::default();
        for line in text.lines().filter(|line| !line.is_empty()) {
            if let Some(help) = line.strip_prefix("# HELP ") {
                scrape.helped.push(help.split(' ').next().unwrap_or_default().to_owned());
            } else if !line.starts_with('#') {
                scrape.samples.push(sample(line));
            }
        }
        scrape
    }

    /// The sum over all samples of that name which have these labels.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let fits = |sample: &&Sample| {
            let has = |(k, v): &(&str, &str)| sample.labels.get(*k).is_some_and(|have| have == v);
            sample.name == name && labels.iter().all(has)
        };
        self.samples.iter().filter(fits).map(|sample| sample.value).sum()
    }

    /// What so great a share of a histogram's values is at most: the upper end of a bucket. The
    /// histogram has no labels.
    pub fn bound(&self, histogram: &str, share: f64) -> f64 {
        let wanted = self.sum(&format!("{histogram}_count"), &[]) * share;
        let name = format!("{histogram}_bucket");
        let mut buckets = self.samples.iter().filter(|sample| sample.name == name);
        let bucket = buckets.find(|bucket| bucket.value >= wanted);
        bucket.and_then(|bucket| bucket.labels.get("le")?.parse().ok()).unwrap_or(f64::INFINITY)
    }

    /// Whether there is any sample of that name.
    pub fn has(&self, name: &str) -> bool {
        self.samples.iter().any(|sample| sample.name == name)
    }
}

fn sample(line: &str) -> Sample {
    let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value: {line}"));
    let value = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
    let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
    let labels = labels.strip_suffix('}').unwrap_or_else(|| panic!("no end of labels: {line}"));
    // No label value of Weir's holds a comma within quotes; one would fail here.
    let pair = |pair: &str| {
        let (key, value) = pair.split_once('=').unwrap_or_else(|| panic!("no label: {line}"));
        (key.to_owned(), value.trim_matches('"').to_owned())
    };
    let labels = labels.split(',').filter(|pair| !pair.is_empty()).map(pair).collect();
    Sample { name: name.to_owned(), labels, value }
}
