//! Redis: a mix of commands over a space of keys, one by one or in pipelines. A pipeline is one
//! request; its commands are counted beside.

mod login;
mod mix;
mod replies;
mod settings;
#[cfg(test)]
mod tests;

pub use mix::{Mix, names};
pub use replies::Pipeline;
pub use settings::{Options, RedisError, Sizes};

use std::sync::Arc;

use wire::resp::put_bulk;

use crate::chance::Chance;
use crate::keys::Keys;
use crate::url::Url;
use crate::workload::{Greeting, Workload};
use login::Login;
use mix::Part;

/// Digits of a key's number.
const DIGITS: usize = 12;
/// Where in the block of values' bytes one may begin.
const STARTS: u64 = 1024;

/// The workload.
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
    /// The URL's path is no database, or the options are beyond a limit.
    pub fn new(url: &Url, mix: Mix, options: Options) -> Result<Self, RedisError> {
        options.check(&mix)?;
        let keys = Keys::new(options.keys, options.order);
        let mut chance = Chance::of(options.seed, u64::MAX);
        let letters = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";
        let letter = |_| letters[chance.below(letters.len() as u64) as usize];
        let block = (0..options.sizes.most() + STARTS as usize).map(letter).collect();
        Ok(Self { mix, options, keys, block, login: Login::new(url)? })
    }

    fn put(&self, command: usize, mut in_sequence: u64, chance: &mut Chance, out: &mut Vec<u8>) {
        for part in self.mix.parts(command) {
            match part {
                Part::Text(text) => out.extend_from_slice(text),
                Part::Number => {
                    let key = self.keys.draw(in_sequence, chance);
                    in_sequence = in_sequence.wrapping_add(1);
                    put_digits(key, out);
                }
                Part::Value => {
                    let len = self.options.sizes.draw(chance);
                    let from = chance.below(STARTS) as usize;
                    put_bulk(out, &self.block[from..from + len]);
                }
            }
        }
    }
}

/// A number with zeros in front, as redis-benchmark writes keys.
fn put_digits(mut number: u64, out: &mut Vec<u8>) {
    let mut digits = [b'0'; DIGITS];
    for digit in digits.iter_mut().rev() {
        *digit += (number % 10) as u8;
        number /= 10;
    }
    out.extend_from_slice(&digits);
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
