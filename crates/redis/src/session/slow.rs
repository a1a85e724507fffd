//! `SLOWLOG` and `LATENCY`: what was slow at the servers of the pool, as Weir saw it.

use wire::resp::{Command, put_array, put_bulk, put_integer, put_map, put_simple};

use super::console::{SLOW_SHOWN, put_moment};
use super::dispatch::{LatencyCommand, SlowlogCommand};
use super::{CommandResult, Session};
use crate::commands::number;
use crate::console::put_help;

/// The only event there is: a server had a command to itself for longer than `slow-command`.
const EVENT: &[u8] = b"command";

const SLOWLOG_HELP: [&str; 7] = [
    "SLOWLOG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GET [<count>]",
    "    The newest commands of this pool that were slow at their server, without values.",
    "LEN",
    "    How many are kept.",
    "RESET",
    "    Forget them.",
];

const LATENCY_HELP: [&str; 9] = [
    "LATENCY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "HISTOGRAM [command ...]",
    "    How long servers had each command to themselves since the start, in microseconds.",
    "LATEST",
    "    The last slow command, and the slowest, in milliseconds.",
    "HISTORY command",
    "    When commands were slow, and how long they took.",
    "RESET [command]",
    "    Forget them.",
];

impl Session {
    pub(super) fn slowlog(
        &self,
        what: SlowlogCommand,
        command: Command<'_>,
        out: &mut Vec<u8>,
    ) -> CommandResult {
        let log = &self.front.shared.desk.slow;
        match what {
            SlowlogCommand::Get => {
                let count = match command.get(2).map(number) {
                    None => SLOW_SHOWN,
                    Some(Some(-1)) => usize::MAX,
                    Some(count) => count
                        .and_then(|count| usize::try_from(count).ok())
                        .ok_or("ERR count should be greater than or equal to -1")?,
                };
                let newest = log.newest(count);
                put_array(out, newest.len());
                for of in &newest {
                    put_array(out, 6);
                    put_integer(out, i64::try_from(of.id).unwrap_or(i64::MAX));
                    put_moment(out, of.at);
                    put_integer(out, i64::try_from(of.ran.as_micros()).unwrap_or(i64::MAX));
                    put_array(out, of.words.len());
                    of.words.iter().for_each(|word| put_bulk(out, word.as_bytes()));
                    put_bulk(out, of.address.as_bytes());
                    put_bulk(out, of.name.as_bytes());
                }
            }
            SlowlogCommand::Len => put_integer(out, i64::try_from(log.len()).unwrap_or(i64::MAX)),
            SlowlogCommand::Reset => {
                log.clear();
                put_simple(out, b"OK");
            }
            SlowlogCommand::Help => put_help(out, &SLOWLOG_HELP),
        }
        Ok(())
    }

    pub(super) fn latency(&self, what: LatencyCommand, command: Command<'_>, out: &mut Vec<u8>) {
        let log = &self.front.shared.desk.slow;
        let is_event = |at: usize| command.get(at).is_some_and(|word| word == EVENT);
        let millis = |of: std::time::Duration| i64::try_from(of.as_millis()).unwrap_or(i64::MAX);
        match what {
            LatencyCommand::Latest => {
                let last = log.newest(1);
                put_array(out, last.len());
                for of in &last {
                    put_array(out, 4);
                    put_bulk(out, EVENT);
                    put_moment(out, of.at);
                    put_integer(out, millis(of.ran));
                    put_integer(out, millis(log.longest()));
                }
            }
            LatencyCommand::History => {
                let mut all = if is_event(2) { log.newest(usize::MAX) } else { Vec::new() };
                all.reverse();
                put_array(out, all.len());
                for of in &all {
                    put_array(out, 2);
                    put_moment(out, of.at);
                    put_integer(out, millis(of.ran));
                }
            }
            LatencyCommand::Reset => {
                let is_meant = command.len() == 2 || (2..command.len()).any(is_event);
                let had_some = is_meant && !log.is_empty();
                if is_meant {
                    log.clear();
                }
                put_integer(out, i64::from(had_some));
            }
            LatencyCommand::Histogram => self.latency_histogram(&command, out),
            LatencyCommand::Help => put_help(out, &LATENCY_HELP),
        }
    }

    /// As a server answers it, of what Weir has measured.
    fn latency_histogram(&self, command: &Command<'_>, out: &mut Vec<u8>) {
        let put_pairs = |out: &mut Vec<u8>, count: usize| put_map(out, count, self.version);
        let mut all = self.front.shared.times.by_command();
        if command.len() > 2 {
            let is_named = |name: &str| {
                let mut named = (2..command.len()).filter_map(|at| command.get(at));
                named.any(|of| of.eq_ignore_ascii_case(name.as_bytes()))
            };
            all.retain(|name, _| is_named(name));
        }
        let put_count = |out: &mut Vec<u8>, count: u64| {
            put_integer(out, i64::try_from(count).unwrap_or(i64::MAX));
        };
        put_pairs(out, all.len());
        for (name, histogram) in &all {
            put_bulk(out, name.to_ascii_lowercase().as_bytes());
            put_pairs(out, 2);
            put_bulk(out, b"calls");
            put_count(out, histogram.count());
            put_bulk(out, b"histogram_usec");
            let shown = histogram.up_to();
            put_pairs(out, shown.len());
            for (bound, count) in shown {
                put_count(out, bound);
                put_count(out, count);
            }
        }
    }
}
