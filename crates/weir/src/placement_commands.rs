//! `weir placement`: the table that says which servers of a cluster have which points.

use std::io::Write;
use std::time::Duration;

use clap::Subcommand;
use influx::cluster::{self, Difference, Extent, Mode, Rebuild, TimeSpan, Verification};

use crate::config::{self, ConfigFile};
use crate::exit::{BAD_NEWS, DONE, Failure};
use crate::remote;

/// How long a member may take to tell what it has.
const TIMEOUT: Duration = Duration::from_secs(5);

/// What can be done with a cluster's table.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show the table, and whether each member has it. Exit code 3 where one does not, or where
    /// points wait for a period that is not complete
    #[command(after_help = "Example:\n  weir placement show --config /etc/weir/weir.toml")]
    Show {
        #[command(flatten)]
        config: ConfigFile,
    },
    /// Tell where the point of a line lies, or how each statement of a query goes and why; asks
    /// nobody
    #[command(after_help = "Examples:\n  \
        weir placement explain --db sensors 'air,host=a t=21.5 1796083200000000000'\n  \
        weir placement explain --db sensors \"SELECT mean(t) FROM air WHERE host = 'a'\"")]
    Explain {
        #[command(flatten)]
        config: ConfigFile,
        /// The database of the point or the query
        #[arg(long)]
        db: String,
        /// A line with its time in nanoseconds, or statements of InfluxQL
        #[arg(value_name = "LINE|QUERY")]
        what: String,
    },
    /// Put the table of the configuration on all members, and have it used by all gateways whose
    /// files say the same. Give every gateway its file first; killed at any step, run it again
    #[command(after_help = "\
Examples:
  weir placement apply --dry-run
  weir placement apply --config /etc/weir/weir.toml

Where periods are added it waits for influx.cluster.check-interval and the longest timeout of a
member, so that no gateway still writes by the table of before.")]
    Apply {
        #[command(flatten)]
        config: ConfigFile,
        /// Look at all members and say what would be done; write nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Give up a gateway that will not come back: statements no longer wait for it, and should it
    /// return it writes nothing. What its journal still holds is not on the members. Every member
    /// has to answer
    #[command(after_help = "Example:\n  \
        weir placement forget 3f0c8a1be5d24e7f9a60b7d1c2e3f405")]
    Forget {
        #[command(flatten)]
        config: ConfigFile,
        /// The gateway's name, as `weir placement show` prints it
        gateway: String,
    },
    /// Have a gateway that was forgotten take part again, by another name: all that its journal
    /// still holds for a set is delivered to each of its members; Weir must be stopped
    #[command(after_help = "Example:\n  weir placement rejoin --config /etc/weir/weir.toml")]
    Rejoin {
        #[command(flatten)]
        config: ConfigFile,
    },
    /// Fill a member whose disk was lost, that was put back to a state of before, or that is new in
    /// a set with points, from another member of its set. Gateways hold their points for it
    /// meanwhile, and it is not asked; then it is in force. Stopped at any step, run it again. Exit
    /// code 3 where members differ in the slice that was copied
    #[command(after_help = "\
Examples:
  weir placement rebuild b
  weir placement rebuild b --rate 50000
  weir placement rebuild b --from 2026-12-01T00:00:00Z --to 2026-12-02T00:00:00Z
  weir placement rebuild lonely --empty

Every gateway that takes part has to run and have the member in its file; who has not yet noted
that it holds its points is named. With --from or --to the member stays in force, and what another
one has of that time is copied over what it has.")]
    Rebuild {
        #[command(flatten)]
        config: ConfigFile,
        /// The member, as [[influx.set]] names it
        member: String,
        /// Copy from this time on only, and leave the member in force
        #[arg(long, value_name = "TIME", value_parser = cluster::time_ns)]
        from: Option<i64>,
        /// Copy up to this time only, and leave the member in force
        #[arg(long, value_name = "TIME", value_parser = cluster::time_ns)]
        to: Option<i64>,
        /// Rows that are copied in a second at most
        #[arg(long, value_name = "ROWS", default_value_t = 0, hide_default_value = true)]
        rate: u64,
        /// Put a member that is alone in its set in force as it is, without points
        #[arg(long, conflicts_with_all = ["from", "to", "rate"])]
        empty: bool,
    },
    /// Compare the members of each set, slice by slice, and list what differs: by how many values
    /// each field has, with --deep by all that they have. Exit code 3 where something differs. What
    /// still waits for a member differs, too
    #[command(after_help = "Examples:\n  \
        weir placement verify\n  \
        weir placement verify --deep --slice 1h")]
    Verify {
        #[command(flatten)]
        config: ConfigFile,
        /// Read and compare all points, which takes as long as a copy of them
        #[arg(long)]
        deep: bool,
        /// How long a slice is
        #[arg(long, value_name = "DURATION", default_value = "1d")]
        slice: units::Duration,
    },
}

/// Does what was asked.
pub fn run(command: Command, out: &mut dyn Write) -> Result<u8, Failure> {
    match command {
        Command::Show { config } => show(&config, out),
        Command::Explain { config, db, what } => explain(&config, &db, &what, out),
        Command::Apply { config, dry_run } => apply(&config, dry_run, out),
        Command::Forget { config, gateway } => forget(&config, &gateway, out),
        Command::Rejoin { config } => rejoin(&config, out),
        Command::Rebuild { config, member, from, to, rate, empty } => {
            let extent = match (empty, from, to) {
                (true, ..) => Extent::Empty,
                (false, None, None) => Extent::Whole,
                (false, from, to) => Extent::Slice(TimeSpan {
                    from_ns: from.unwrap_or(i64::MIN),
                    to_ns: to.unwrap_or(i64::MAX),
                }),
            };
            rebuild(&config, Rebuild { member, extent, rate, journal_max: 0 }, out)
        }
        Command::Verify { config, deep, slice } => {
            verify(&config, Verification { slice: slice.get(), is_deep: deep }, out)
        }
    }
}

fn show(config: &ConfigFile, out: &mut dyn Write) -> Result<u8, Failure> {
    let settings = config::load(config)?.settings.influx;
    let view = cluster::view(&settings, TIMEOUT);
    let view = remote::run(async { view.await.map_err(Failure::other) })?;
    for line in &view.table {
        writeln!(out, "{line}")?;
    }
    for (name, fit) in &view.members {
        let words = fit.as_ref().map_or_else(String::as_str, |()| "has the table");
        writeln!(out, "member {name}: {words}")?;
    }
    for line in &view.gateways {
        writeln!(out, "{line}")?;
    }
    if let Some(awaited) = &view.awaited {
        writeln!(out, "{awaited}")?;
    }
    let is_well = view.awaited.is_none() && view.members.values().all(Result::is_ok);
    Ok(if is_well { DONE } else { BAD_NEWS })
}

fn explain(config: &ConfigFile, db: &str, what: &str, out: &mut dyn Write) -> Result<u8, Failure> {
    let settings = config::load(config)?.settings.influx;
    let first = what.split_whitespace().next().unwrap_or_default().to_ascii_uppercase();
    let is_query = matches!(first.as_str(), "SELECT" | "SHOW" | "EXPLAIN");
    let lines = match is_query {
        true => cluster::explain_query(&settings, db, what),
        false => cluster::explain_line(&settings, db, what).map(|line| vec![line]),
    };
    for line in lines.map_err(Failure::other)? {
        writeln!(out, "{line}")?;
    }
    Ok(DONE)
}

fn apply(config: &ConfigFile, dry_run: bool, out: &mut dyn Write) -> Result<u8, Failure> {
    let settings = config::load(config)?.settings.influx;
    let mode = if dry_run { Mode::DryRun } else { Mode::Apply };
    // Whoever reads it may be gone, which is no reason to leave off half way.
    let mut say = |line: &str| drop(writeln!(out, "{line}"));
    let applying = cluster::apply(&settings, mode, &mut say);
    remote::run(async { applying.await.map_err(Failure::other) })?;
    Ok(DONE)
}

fn forget(config: &ConfigFile, gateway: &str, out: &mut dyn Write) -> Result<u8, Failure> {
    let settings = config::load(config)?.settings.influx;
    let forgetting = cluster::forget(&settings, gateway);
    remote::run(async { forgetting.await.map_err(Failure::other) })?;
    writeln!(out, "gateway {gateway} is forgotten on every member")?;
    Ok(DONE)
}

fn rejoin(config: &ConfigFile, out: &mut dyn Write) -> Result<u8, Failure> {
    let settings = config::load(config)?.settings;
    let dir = settings.influx_dir();
    let rejoined = cluster::rejoin(&settings.influx, &settings.journal.dir, &dir);
    let name = rejoined.map_err(Failure::other)?;
    writeln!(out, "this gateway takes part as {name} from its next start on")?;
    Ok(DONE)
}

fn rebuild(config: &ConfigFile, wanted: Rebuild, out: &mut dyn Write) -> Result<u8, Failure> {
    let settings = config::load(config)?.settings;
    let wanted = Rebuild { journal_max: settings.journal.max_size.bytes(), ..wanted };
    // Whoever reads it may be gone, which is no reason to leave off half way.
    let mut say = |line: &str| drop(writeln!(out, "{line}").and_then(|()| out.flush()));
    let rebuilding = cluster::rebuild(&settings.influx, &wanted, &mut say);
    let are_alike = remote::run(async { rebuilding.await.map_err(Failure::other) })?;
    Ok(if are_alike { DONE } else { BAD_NEWS })
}

fn verify(config: &ConfigFile, wanted: Verification, out: &mut dyn Write) -> Result<u8, Failure> {
    let settings = config::load(config)?.settings.influx;
    let mut differing = 0_u64;
    let mut tell = |difference: &Difference| {
        differing += 1;
        drop(writeln!(out, "{difference}"));
    };
    let verifying = cluster::verify(&settings, wanted, &mut tell);
    let compared = remote::run(async { verifying.await.map_err(Failure::other) })?;
    writeln!(out, "{compared} slices compared, {differing} differ")?;
    Ok(if differing == 0 { DONE } else { BAD_NEWS })
}
