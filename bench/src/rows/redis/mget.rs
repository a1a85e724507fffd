//! MGET of 100 keys that lie on four servers.

use super::client::Load;
use super::{Beside, NUTCRACKER, RedisSetup, WEIR, rows_over_optional};
use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::FigureTarget;
use crate::report::{Row, unit};
use crate::rows::turns::{series, take_turns};

const KEYS: usize = 100;
const SERVERS: usize = 4;
const CLIENTS: usize = 50;
/// So many keys there are.
const NUMBERS: u64 = 10_000;

/// The row.
///
/// # Errors
/// When anything can't be started, or a command fails.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let mut stand = RedisSetup::start(SERVERS)?;
    let ways = &stand.ways()[NUTCRACKER..];
    let fill = Load::new(CLIENTS, scale.duration, "SET key:__rand_int__ xxx");
    let fill = Load { numbers: NUMBERS, ..fill };
    // Others may place keys otherwise than nutcracker and Weir.
    for way in ways {
        fill.so_many(*way, NUMBERS * 5)?;
    }
    let words = format!("MGET{}", " key:__rand_int__".repeat(KEYS));
    let load = Load::new(CLIENTS, scale.duration, &words);
    let load = Load { numbers: NUMBERS, ..load };
    let mut beside = Beside::of(ways);
    let run = |way| Beside::run(&mut beside, &mut stand.servers, &load, way);
    let seen = take_turns(ways, scale, run)?;
    let ratio = seen[WEIR - 1].rate() / seen[NUTCRACKER - 1].rate();
    let figure = format!("MGET of {KEYS} keys over {SERVERS} servers / nutcracker");
    let row = Row::judged(figure, ratio, unit::RATIO, FigureTarget::at_least(1.2, 2.0));
    let notes = Beside::notes(&beside, &seen);
    let mut table = vec![row.of(series(&seen)).noted(notes).repeat(load.repeat())];
    table.extend(rows_over_optional(&format!("MGET of {KEYS} keys over {SERVERS} servers"), &seen));
    Ok(table)
}
