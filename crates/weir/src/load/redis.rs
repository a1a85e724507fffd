//! What a load of Redis is made of.

use clap::Args;
use meter::keys::Order;
use meter::redis::{Mix, Options, Redis, Sizes};
use meter::url::Url;

use crate::exit::Failure;

/// What of Redis is asked. Each has a value where none is given, so that another workload knows
/// whether one was.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Redis")]
pub struct RedisOptions {
    /// Commands with their shares, as get=9,set=1, which is what is sent without it
    #[arg(long, value_name = "NAME=N,...")]
    mix: Option<Mix>,
    /// How many keys of each type there are; without it 100000
    #[arg(long, value_name = "N")]
    keys: Option<u64>,
    /// In which order keys come, PostgreSQL's too: uniform, which they do without it, sequence,
    /// zipf, zipf:1.2, or special as sysbench's
    #[arg(long, value_name = "ORDER")]
    key_order: Option<Order>,
    /// Bytes of a value, as 100 or from 10-1000; without it 100
    #[arg(long, value_name = "N")]
    size: Option<Sizes>,
    /// Commands of a request; without it 1
    #[arg(long, value_name = "N")]
    pipeline: Option<u32>,
}

impl RedisOptions {
    /// The first option that was given.
    pub fn given(&self) -> Option<&'static str> {
        let Self { mix, keys, key_order, size, pipeline } = self;
        let all = [
            ("--mix", mix.is_some()),
            ("--keys", keys.is_some()),
            ("--key-order", key_order.is_some()),
            ("--size", size.is_some()),
            ("--pipeline", pipeline.is_some()),
        ];
        all.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
    }

    /// In which order keys come, where somebody says it: PostgreSQL has keys, too.
    pub fn key_order(&self) -> Option<Order> {
        self.key_order
    }

    /// The workload for that server.
    pub fn workload(&self, url: &Url, seed: u64, run: Option<u64>) -> Result<Redis, Failure> {
        let usual = || "get=9,set=1".parse();
        let mix = self.mix.clone().map_or_else(usual, Ok).map_err(Failure::other)?;
        let sizes = self.size.map_or_else(|| "100".parse(), Ok).map_err(Failure::other)?;
        let options = Options {
            keys: self.keys.unwrap_or(100_000),
            order: self.key_order.unwrap_or(Order::Uniform),
            sizes,
            pipeline: self.pipeline.unwrap_or(1),
            seed,
            run,
        };
        Redis::new(url, mix, options).map_err(Failure::other)
    }
}
