//! How fast a member is rebuilt from another one of its set, beside how fast that was loaded.

use rig::weir::Setup;

use super::{start_applied, tables};
use crate::Outcome;
use crate::arguments::Scale;
use crate::figures::{FigureTarget, Series};
use crate::report::{Row, unit};
use crate::rows::store::disk::host_rows;
use crate::rows::store::{influxdb, load, settled};

const COUNT: &str = "SELECT count(f0) FROM node";

/// The rows a second that a rebuild says.
fn said_rate(said: &str) -> Option<f64> {
    let line = said.lines().find(|line| line.ends_with("are copied"))?;
    let rate = line.split(" rows, ").nth(1)?.split(" a second").next()?;
    rate.replace(',', "").parse().ok()
}

/// The row.
///
/// # Errors
/// When anything can't be started, rows are missing, or the rebuild fails.
pub fn measure(scale: &Scale) -> Outcome<Vec<Row>> {
    let (bodies, rows) = host_rows(scale);
    let (source, target) = (influxdb(&[]), influxdb(&[]));
    let setup = |members: &[&str]| {
        let mut setup = Setup::new().top("").default_segments().backend("a", &source.url());
        if members.contains(&"b") {
            setup = setup.backend("b", &target.url());
        }
        let members = members.iter().map(|name| (*name).to_owned()).collect();
        setup.table(&tables(&[members], ""))
    };
    let mut weir = start_applied(setup(&["a"]));
    weir.wait_catalogue();
    let pid = weir.running().id();
    let loaded = load((weir.http, pid), &bodies, COUNT, rows)?.per_second(rows);
    drop(bodies);
    let pids = [source.id(), target.id(), Some(pid)];
    settled(&pids.into_iter().flatten().collect::<Vec<_>>());
    weir.configure(|_| setup(&["a", "b"]));
    weir.reload();
    weir.wait_log("the configuration was reloaded");
    let said = weir.must_run(&["placement", "rebuild", "b"]);
    let copied = said_rate(&said).ok_or_else(|| format!("no rate in {said}"))?;
    let figure = "rebuild of a member, rows/s / loading in batches of 5,000";
    let row = Row::judged(figure, copied / loaded, unit::RATIO, FigureTarget::at_least(0.4, 0.8))
        .of(vec![
            Series::new("loaded", unit::ROWS, &[loaded]),
            Series::new("rebuilt", unit::ROWS, &[copied]),
        ])
        .noted(vec![format!(
            "{rows} rows of 100 hosts; the rate is what the command says, the counts by which a \
             slice is compared included"
        )])
        .repeat("make bench ARGS=\"--only cluster-rebuild\"");
    Ok(vec![row])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_read_of_what_the_command_says() {
        let said = "3 slices are copied from a\n864,000 rows, 123,456 a second, are copied\nb: is";
        assert_eq!(said_rate(said), Some(123_456.0));
        assert_eq!(said_rate("3 slices are copied from a\n"), None);
    }
}
