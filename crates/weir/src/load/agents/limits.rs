//! What an agent sends at most, whoever asks.

use std::time::Duration;

use meter::engine::{Pace, Plan};

/// The most that an agent sends.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Requests a second of all loads of a run; nothing where any number is allowed.
    pub rate_max: Option<f64>,
    /// How long a run may be, warm-up and all.
    pub duration_max: Duration,
}

impl Limits {
    /// Refuses plans that go beyond, in words; each is a part of its load.
    pub fn check<'a>(&self, plans: impl Iterator<Item = &'a Plan> + Clone) -> Result<(), String> {
        let longest = plans.clone().map(|plan| plan.warm_up + plan.duration()).max();
        if let Some(longest) = longest.filter(|longest| *longest > self.duration_max) {
            return Err(format!(
                "the run takes {longest:?}, and this agent sends for {:?} at most: raise \
                 --max-duration there",
                self.duration_max
            ));
        }
        let Some(most) = self.rate_max else { return Ok(()) };
        let rates = plans.map(|plan| match &plan.pace {
            Pace::Open(schedule) => Some(schedule.rate_max() / plan.part.of() as f64),
            Pace::Closed(_) => None,
        });
        let Some(rate) = rates.sum::<Option<f64>>() else {
            return Err(format!(
                "a closed loop has no rate, and this agent sends {most} requests a second at \
                 most: give the load a rate, or leave --max-rate out there"
            ));
        };
        if rate > most {
            return Err(format!(
                "its part has {rate:.0} requests a second, and this agent sends {most} at most: \
                 raise --max-rate there, or take more agents"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use flow::dial::{Address, Target};
    use meter::engine::{Pace, Plan};
    use meter::part::RunPart;
    use meter::schedule::{Arrivals, Schedule, Segment};

    use super::Limits;

    const SECOND: Duration = Duration::from_secs(1);

    fn plan(pace: Pace, part: &str) -> Plan {
        let address = Address::Tcp { host: "h".to_owned(), port: 1 };
        let target = Target { address, tls: None, connect_timeout: SECOND };
        let part: RunPart = part.parse().unwrap();
        Plan { warm_up: SECOND, part, ..Plan::new(target, pace) }
    }

    fn open(from: f64, to: f64) -> Pace {
        let segments = vec![Segment { from, to, duration: 9 * SECOND }];
        Pace::Open(Schedule::new(segments, Arrivals::Even).unwrap())
    }

    #[test]
    fn an_agent_refuses_what_is_too_long_or_too_fast() {
        let check = |rate_max, seconds, plans: &[Plan]| {
            Limits { rate_max, duration_max: SECOND * seconds }.check(plans.iter())
        };
        let of = |rate| plan(open(5.0, rate), "1/2");
        assert_eq!(check(None, 10, &[of(1e6)]), Ok(()));
        assert!(check(None, 9, &[of(1e6)]).unwrap_err().contains("--max-duration"));
        assert_eq!(check(Some(50.0), 10, &[of(100.0)]), Ok(()));
        assert!(check(Some(49.0), 10, &[of(100.0)]).unwrap_err().contains("50 requests a second"));
        // Loads add up.
        assert!(check(Some(99.0), 10, &[of(100.0), of(100.0)]).is_err());
        let closed = plan(Pace::Closed(SECOND), "1/2");
        assert_eq!(check(None, 10, std::slice::from_ref(&closed)), Ok(()));
        assert!(check(Some(1e6), 10, &[closed]).unwrap_err().contains("has no rate"));
    }
}
