//! What a master's clients wait for while a base is taken from a replica of it, and while that
//! replica saves by itself.

use rig::redis::{Redis, RedisClient};
use rig::wait;

use super::paced::{Paced, Report};
use super::{Following, LONG, info, master, populate, replica};
use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::{FigureTarget, Series};
use crate::report::{Row, median, unit};

const DATA_MIB: u64 = 2 << 10;
const LOAD: Paced = Paced { rate: 5_000.0, clients: 50, value: 100, keys: 100_000 };

/// The row.
///
/// # Errors
/// When anything can't be started, a write fails, or the master forks.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let master = master(&[]);
    populate(&mut master.client(), DATA_MIB / scale.one_in)?;
    let replica = replica(&master, &[]);
    let following = Following::of(&master.url(), &format!("replicas = [\"{}\"]", replica.url()));
    following.wait_following();
    let forks = || info(&mut master.client(), "stats", "total_forks");
    let before = forks()?;
    let [mut saves, mut bases] = [(); 2].map(|()| Vec::new());
    let mut notes = Vec::new();
    for _ in 0..scale.pairs {
        let (alone, save_s) = beside(&master, || save(&replica))?;
        let (meanwhile, base_s) = beside(&master, || following.rewrite().map(|_| ()))?;
        notes.push(format!(
            "BGSAVE alone, {save_s:.1} s: p99 {:.2} ms, longest {:.1} ms; a base, {base_s:.1} s: \
             p99 {:.2} ms, longest {:.1} ms; {}",
            alone.ms_at(0.99),
            alone.longest_ms(),
            meanwhile.ms_at(0.99),
            meanwhile.longest_ms(),
            meanwhile.behind()
        ));
        saves.push(alone.ms_at(0.99));
        bases.push(meanwhile.ms_at(0.99));
    }
    if forks()? != before {
        return Err("the master has forked: the base did not come from its replica".into());
    }
    let figure = "master's p99 while a base of 2 GB comes from a replica / it does BGSAVE alone";
    let ratio = median(&bases) / median(&saves);
    let row = Row::judged(figure, ratio, unit::RATIO, FigureTarget::within(1.1))
        .of(vec![
            Series::new("BGSAVE alone", unit::MS, &saves),
            Series::new("base", unit::MS, &bases),
        ])
        .noted(notes);
    Ok(vec![row.repeat("make bench ARGS=\"--only aof-base\"")])
}

/// What the master's clients see while something is done, and how many seconds that takes.
fn beside(master: &Redis, done: impl FnOnce() -> Outcome<()>) -> Outcome<(Report, f64)> {
    let (report, ()) = LOAD.beside(master.address, done)?;
    let seconds = report.took.as_secs_f64();
    Ok((report, seconds))
}

fn save(replica: &Redis) -> Outcome<()> {
    let mut client = replica.client();
    // It may not have noticed yet that the child which made a base has ended.
    until_none_saves(&mut client);
    let said = client.line("BGSAVE");
    if !said.starts_with('+') {
        return Err(said.into());
    }
    until_none_saves(&mut client);
    Ok(())
}

fn until_none_saves(client: &mut RedisClient) {
    wait::until("it has saved", LONG, || {
        info(client, "persistence", "rdb_bgsave_in_progress").is_ok_and(|of| of == "0")
    });
}
