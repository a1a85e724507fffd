//! Redis: a mix of commands over a space of keys, one by one or in pipelines. A pipeline is one
//! request; its commands are counted beside.

mod login;
mod mix;
mod replies;
mod settings;
#[cfg(test)]
mod tests;

pub use mix::{LedgerKind, Mix, names};
pub use replies::Pipeline;
pub use settings::{Options, RedisError, Sizes};

use std::sync::Arc;

use wire::resp::{Value, put_bulk, value};

use crate::chance::Chance;
use crate::keys::Keys;
use crate::url::Url;
use crate::workload::{Greeting, Workload};
use login::Login;
use mix::CommandPiece;

/// Digits of a key's number.
const DIGITS: usize = 12;
/// Where in the block of values' bytes one may begin.
const STARTS: u64 = 1024;
/// The bytes that say of a value whose it is: the number of its command, and a colon.
const OWN: usize = DIGITS + 1;

/// Sends commands by their mix, and reads the replies.
#[derive(Debug, Clone)]
pub struct Redis {
    mix: Mix,
    options: Options,
    keys: Keys,
    /// What values are cut from: printable, and the same in each run.
    block: Arc<[u8]>,
    login: Login,
}

impl Redis {
    /// What goes to the server and database of `url`.
    ///
    /// # Errors
    /// The URL's path is not a database, or the options are beyond a limit.
    pub fn new(url: &Url, mut mix: Mix, options: Options) -> Result<Self, RedisError> {
        options.check(&mix)?;
        if let Some(run) = options.run {
            mix.keep(run)?;
        }
        let keys = Keys::new(options.keys, options.order);
        let mut chance = Chance::of(options.seed, u64::MAX);
        let letters = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";
        let letter = |_| letters[chance.below(letters.len() as u64) as usize];
        let block = (0..options.sizes.most() + STARTS as usize).map(letter).collect();
        Ok(Self { mix, options, keys, block, login: Login::new(url)? })
    }

    fn put(&self, command: usize, number: u64, chance: &mut Chance, out: &mut Vec<u8>) {
        let mut in_sequence = number;
        for part in self.mix.parts(command) {
            match part {
                CommandPiece::Text(text) => out.extend_from_slice(text),
                CommandPiece::Number => {
                    let key = self.keys.draw(in_sequence, chance);
                    in_sequence = in_sequence.wrapping_add(1);
                    put_digits(key, out);
                }
                CommandPiece::Value => {
                    let len = self.options.sizes.draw(chance);
                    let from = chance.below(STARTS) as usize;
                    put_bulk(out, &self.block[from..from + len]);
                }
                CommandPiece::Own => put_digits(number, out),
                CommandPiece::List => put_digits(number % self.options.keys, out),
                CommandPiece::OwnValue => {
                    let len = self.options.sizes.draw(chance);
                    let from = chance.below(STARTS) as usize;
                    put_bulk(out, &self.block[from..from + len]);
                    let value = out.len() - 2 - len;
                    put_own(number, &mut out[value..value + OWN]);
                }
            }
        }
    }

    /// Calls for each command of a request of which a ledger is kept: with the number of the
    /// command, its key and its value.
    pub(crate) fn each_kept(
        &self,
        number: u64,
        mut call: impl FnMut(LedgerKind, u64, &[u8], &[u8]),
    ) {
        let mut chance = Chance::of(self.options.seed, number);
        let count = u64::from(self.options.pipeline);
        let mut bytes = Vec::new();
        for at in 0..count {
            let (command, of) =
                (self.mix.draw(&mut chance), number.wrapping_mul(count).wrapping_add(at));
            bytes.clear();
            self.put(command, of, &mut chance, &mut bytes);
            // What was put is an array of three texts.
            let Some(kept) = self.mix.kept(command) else { continue };
            if let Ok((Value::Array(words), _)) = value(&bytes)
                && let [_, Value::Bulk(key), Value::Bulk(value)] = words[..]
            {
                call(kept, of, key, value);
            }
        }
    }

    /// The number of the command that has written a value, and of its request.
    pub(crate) fn of_value(&self, value: &[u8]) -> Option<(u64, u64)> {
        let (digits, colon) = value.get(..OWN)?.split_at(DIGITS);
        let is_own = colon == b":" && digits.iter().all(u8::is_ascii_digit);
        let number = std::str::from_utf8(digits).ok()?.parse::<u64>().ok()?;
        is_own.then_some((number, number / u64::from(self.options.pipeline)))
    }

    /// What a ledger has to say of it, so that [`Redis::of_kept`] makes the same.
    pub fn kept(&self) -> serde_json::Value {
        let Options { keys, order, sizes, pipeline, seed, run } = &self.options;
        serde_json::json!({
            "redis": {
                "mix": self.mix.to_string(), "keys": keys, "size": sizes.to_string(),
                "order": order.to_string(), "pipeline": pipeline, "seed": seed, "run": run,
            },
        })
    }

    /// What such a run has written.
    ///
    /// # Errors
    /// The URL's path is not a database.
    pub fn of_kept(url: &Url, kept: &serde_json::Value) -> Result<Option<Self>, RedisError> {
        let of = &kept["redis"];
        let number = |name: &str| of[name].as_u64();
        let read = || {
            let options = Options {
                keys: number("keys")?,
                order: of["order"].as_str()?.parse().ok()?,
                sizes: of["size"].as_str()?.parse().ok()?,
                pipeline: u32::try_from(number("pipeline")?).ok()?,
                seed: number("seed")?,
                run: Some(number("run")?),
            };
            Some((of["mix"].as_str()?.parse::<Mix>().ok()?, options))
        };
        read().map(|(mix, options)| Self::new(url, mix, options)).transpose()
    }
}

/// Writes a command's number as its value begins.
fn put_own(number: u64, value: &mut [u8]) {
    let (digits, colon) = value.split_at_mut(DIGITS);
    write_digits(number, digits);
    colon.fill(b':');
}

/// A number with zeros in front, as redis-benchmark writes keys.
fn put_digits(number: u64, out: &mut Vec<u8>) {
    let mut digits = [b'0'; DIGITS];
    write_digits(number, &mut digits);
    out.extend_from_slice(&digits);
}

fn write_digits(mut number: u64, digits: &mut [u8]) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

impl Workload for Redis {
    type Reader = Pipeline;

    fn request(&mut self, number: u64, out: &mut Vec<u8>) -> usize {
        let mut chance = Chance::of(self.options.seed, number);
        let count = u64::from(self.options.pipeline);
        let mut last = 0;
        for at in 0..count {
            last = self.mix.draw(&mut chance);
            self.put(last, number.wrapping_mul(count).wrapping_add(at), &mut chance, out);
        }
        if count == 1 { last } else { 0 }
    }

    fn reader(&self) -> Pipeline {
        Pipeline::new(self.options.pipeline)
    }

    fn operation(&self, number: u64) -> usize {
        match self.options.pipeline {
            1 => self.mix.draw(&mut Chance::of(self.options.seed, number)),
            _ => 0,
        }
    }

    fn operations(&self) -> Vec<String> {
        match self.options.pipeline {
            1 => self.mix.operations().map(str::to_owned).collect(),
            more => vec![format!("pipeline of {more}")],
        }
    }

    fn greeting(&self) -> Option<Box<dyn Greeting>> {
        Some(self.login.begin())
    }
}
