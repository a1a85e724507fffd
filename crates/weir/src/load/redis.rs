//! What a load of Redis is made of.

use clap::Args;
use meter::keys::Order;
use meter::redis::{Mix, Options, Redis, Sizes};
use meter::url::Url;
use serde::Deserialize;

use super::values;
use crate::exit::Failure;

/// What of Redis is asked.
#[derive(Debug, Clone, Args, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[command(next_help_heading = "Redis")]
pub struct RedisOptions {
    /// Commands with their shares, as get=9,set=1
    #[arg(long, value_name = "NAME=N,...", default_value = "get=9,set=1")]
    #[serde(deserialize_with = "values::text")]
    mix: Mix,
    /// How many keys of each type there are
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    keys: u64,
    /// Bytes of a value, as 100 or from 10-1000
    #[arg(long, value_name = "N", default_value = "100")]
    #[serde(deserialize_with = "values::text")]
    size: Sizes,
    /// Commands of a request
    #[arg(long, value_name = "N", default_value_t = 1)]
    pipeline: u32,
    // Its text is that of PostgreSQL's option, which has the same name.
    #[arg(long, value_name = "ORDER", default_value = "uniform")]
    #[arg(help_heading = "Redis and PostgreSQL")]
    #[serde(deserialize_with = "values::text")]
    key_order: Order,
}

impl RedisOptions {
    /// The workload for that server.
    pub fn workload(&self, url: &Url, seed: u64, run: Option<u64>) -> Result<Redis, Failure> {
        let options = Options {
            keys: self.keys,
            order: self.key_order,
            sizes: self.size,
            pipeline: self.pipeline,
            seed,
            run,
        };
        Redis::new(url, self.mix.clone(), options).map_err(Failure::other)
    }
}
