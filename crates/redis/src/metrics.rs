//! What the gateway counts.

use watch::metrics::{Counter, Registry};

/// Counters of a pool, of all workers.
#[derive(Debug, Clone)]
pub struct Metrics {
    /// Commands that rode a lane.
    pub ridden: Counter,
    /// Commands that went by a connection of their client's own.
    pub leased: Counter,
    /// Commands whose keys were on several servers, or that were for all.
    pub split: Counter,
    /// Commands that were answered here.
    pub answered: Counter,
    /// Commands that were refused here.
    pub refused: Counter,
    /// Logins that were refused.
    pub logins_refused: Counter,
}

impl Metrics {
    /// Registers those of a pool.
    pub fn new(pool: &str, registry: &Registry) -> Self {
        let way = |way: &str| {
            registry.counter(
                "weir_redis_commands_total",
                "Commands of clients by the way they went: a lane, a connection of the client's \
                 own (lease), several servers (split), answered by Weir (own), or refused by it.",
                &[("pool", pool), ("way", way)],
            )
        };
        Self {
            ridden: way("lane"),
            leased: way("lease"),
            split: way("split"),
            answered: way("own"),
            refused: way("refused"),
            logins_refused: registry.counter(
                "weir_redis_logins_refused_total",
                "Logins of Redis clients that were refused.",
                &[("pool", pool)],
            ),
        }
    }
}
