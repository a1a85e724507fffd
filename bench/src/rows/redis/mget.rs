//! MGET of 100 keys that lie on four servers.

use super::client::Load;
use super::{NUTCRACKER, Stand, WEIR};
use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::Wanted;
use crate::report::{Row, unit};
use crate::rows::turns::{Seen, series, take_turns};

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
    let mut stand = Stand::start(SERVERS)?;
    // Both place a key on the same server, so that either finds what came by the other.
    let [_, ways @ ..] = stand.ways();
    let fill = Load::new(CLIENTS, scale.duration, "SET key:__rand_int__ xxx");
    let fill = Load { numbers: NUMBERS, ..fill };
    fill.so_many(ways[WEIR - 1], NUMBERS * 5)?;
    let words = format!("MGET{}", " key:__rand_int__".repeat(KEYS));
    let load = Load::new(CLIENTS, scale.duration, &words);
    let load = Load { numbers: NUMBERS, ..load };
    let seen = take_turns(&ways, scale, |way| Ok(load.run(way)?.run))?;
    let ratio = seen[WEIR - 1].rate() / seen[NUTCRACKER - 1].rate();
    let figure = format!("MGET of {KEYS} keys over {SERVERS} servers / nutcracker");
    let row = Row::judged(figure, ratio, unit::RATIO, Wanted::at_least(1.2, 2.0));
    let notes = seen.iter().map(Seen::line).collect();
    Ok(vec![row.of(series(&seen)).noted(notes).repeat(load.repeat())])
}
