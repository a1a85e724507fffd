//! What the gateway counts.

pub mod buckets;
pub mod errors;
pub mod times;

use watch::metrics::{Counter, Gauge, Registry};

use crate::commands::Kind;

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
    /// Logins that a server was asked to check.
    pub logins_passed: Counter,
    /// Logins that were refused.
    pub logins_refused: Counter,
    /// Those that were told late.
    pub logins_slowed: Counter,
    /// Messages that subscribers were told.
    pub messages: Counter,
    subscriptions: [Gauge; 3],
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
            logins_passed: registry.counter(
                "weir_redis_logins_passed_total",
                "Logins of Redis clients that a server was asked to check, those of clients that \
                 need none among them.",
                &[("pool", pool)],
            ),
            logins_slowed: registry.counter(
                "weir_redis_logins_slowed_total",
                "Logins of Redis clients that were told late that they had failed, since many from \
                 their address had.",
                &[("pool", pool)],
            ),
            messages: registry.counter(
                "weir_redis_messages_total",
                "Messages of Redis channels that clients were told, one for each client.",
                &[("pool", pool)],
            ),
            subscriptions: ["channel", "pattern", "shard"].map(|kind| {
                registry.gauge(
                    "weir_redis_subscriptions",
                    "Redis channels and patterns that clients are subscribed to, one for each \
                     client.",
                    &[("pool", pool), ("kind", kind)],
                )
            }),
            logins_refused: registry.counter(
                "weir_redis_logins_refused_total",
                "Logins of Redis clients that were refused.",
                &[("pool", pool)],
            ),
        }
    }

    /// Subscriptions of a kind.
    pub fn subscriptions(&self, kind: Kind) -> &Gauge {
        &self.subscriptions[kind as usize]
    }
}
