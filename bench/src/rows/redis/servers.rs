//! SET over four servers and over one, both through Weir: what it costs to spread keys, since on
//! the same few cores more servers bring nothing.

use super::client::Load;
use super::{Beside, of, servers, setup};
use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::FigureTarget;
use crate::report::{Row, unit};
use crate::rows::turns::{ClientRoute, series, take_turns};

const CLIENTS: usize = 500;

/// The row.
///
/// # Errors
/// When anything can't be started, or a command fails.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let [mut one, mut four] = [1, 4].map(servers);
    let (mut over_one, mut over_four) = (setup(&one).start(), setup(&four).start());
    let ways = [of(&mut over_one, "one server"), of(&mut over_four, "four servers")];
    let load = Load::new(CLIENTS, scale.duration, "SET key:__rand_int__ xxx");
    let mut beside = Beside::of(&ways);
    let run = |way: ClientRoute| {
        let servers = if way.name == ways[0].name { &mut one } else { &mut four };
        Beside::run(&mut beside, servers, &load, way)
    };
    let seen = take_turns(&ways, scale, run)?;
    let ratio = seen[1].rate() / seen[0].rate();
    let figure = format!("SET, {CLIENTS} clients, four servers behind / one");
    let row = Row::judged(figure, ratio, unit::RATIO, FigureTarget::at_least(0.9, 1.0));
    let notes = Beside::notes(&beside, &seen);
    Ok(vec![row.of(series(&seen)).noted(notes).repeat(load.repeat())])
}
