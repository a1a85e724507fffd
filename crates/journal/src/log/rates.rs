//! How fast the journal fills.

/// The weight of a new rate in the moving average: about ten seconds of memory.
const WEIGHT: f64 = 0.01;

/// How fast the journal fills, in bytes a second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Rates {
    pub appended: f64,
    pub growth: f64,
}

impl Rates {
    /// Moves towards what was measured last.
    pub fn note(&mut self, appended: f64, growth: f64) {
        self.appended += WEIGHT * (appended - self.appended);
        self.growth += WEIGHT * (growth - self.growth);
    }
}

#[cfg(test)]
mod tests {
    use super::Rates;

    #[test]
    fn a_rate_goes_a_hundredth_of_the_way_each_time() {
        let mut rates = Rates::default();
        rates.note(1000.0, -200.0);
        assert_eq!(rates, Rates { appended: 10.0, growth: -2.0 });
        rates.note(10.0, -2.0);
        assert_eq!(rates, Rates { appended: 10.0, growth: -2.0 });
    }
}
