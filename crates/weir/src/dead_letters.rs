//! `weir dead-letters`: what a backend refused for good, to look at, send again or give up.

use std::collections::HashSet;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{ArgGroup, Args, Subcommand};
use influx::cluster;
use influx::delivery::dead_letters::{self as letters, Id, Letter, Selection, Summary};
use influx::delivery::replay;
use influx::settings::BackendTable;
use watch::words::{self, count, harmless, seconds};

use crate::config::ConfigFile;
use crate::config::{self, Settings};
use crate::exit::{BAD_NEWS, DONE, Failure};

/// How long the members of a cluster may take to say which table they have.
const TIMEOUT: Duration = Duration::from_secs(5);

/// What can be done with dead letters.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// How many there are of each backend, and since when
    List {
        /// Print them as JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: LettersPlace,
    },
    /// Show a backend's dead letters: each point's id, the backend's words, and the line
    #[command(after_help = "\
Examples:
  weir dead-letters show a
  weir dead-letters show a --json | jq -r .reason | sort | uniq -c")]
    Show {
        /// The name of the backend
        backend: String,
        /// Print each as a line of JSON
        #[arg(long)]
        json: bool,
        /// At most this many
        #[arg(long, value_name = "COUNT")]
        limit: Option<usize>,
        #[command(flatten)]
        place: LettersPlace,
    },
    /// Send them to their backend again; what it takes is removed, what it refuses stays
    #[command(after_help = "\
Examples:
  weir dead-letters replay a --all
  weir dead-letters replay a 40960:0 40960:7")]
    Replay {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        config: ConfigFile,
    },
    /// Remove them for good
    #[command(after_help = "\
Examples:
  weir dead-letters drop a 40960:0
  weir dead-letters drop a --all")]
    Drop {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        place: LettersPlace,
    },
}

/// Where the dead letters are.
#[derive(Debug, Args)]
pub struct LettersPlace {
    /// The journal's directory; without it the configuration says
    #[arg(long)]
    dir: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigFile,
}

/// Which dead letters of a backend.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("letters").args(["ids", "all"]).required(true)))]
pub struct Which {
    /// The name of the backend
    backend: String,
    /// The ids, as `weir dead-letters show` prints them
    ids: Vec<Id>,
    /// All letters of the backend
    #[arg(long)]
    all: bool,
}

impl Which {
    fn selection(&self) -> Selection {
        if self.all {
            return Selection::All;
        }
        Selection::These(self.ids.iter().copied().collect::<HashSet<_>>())
    }
}

impl LettersPlace {
    fn dir(&self) -> Result<PathBuf, Failure> {
        let mut settings = match &self.dir {
            Some(_) => Settings::default(),
            None => config::load_places(&self.config)?,
        };
        if let Some(dir) = &self.dir {
            settings.journal.dir.clone_from(dir);
        }
        let journal = &settings.journal.dir;
        // Else a command that is called in another directory would find that all is well.
        if !journal.is_dir() {
            return Err(Failure::other(format!(
                "there is no journal in {}; call this in the directory that Weir runs in, or name \
                 the journal's with --dir",
                journal.display()
            )));
        }
        Ok(letters::dir_of(&settings.influx_dir()))
    }
}

/// Does what was asked of the dead letters.
pub fn run(command: Command, out: &mut dyn Write) -> Result<u8, Failure> {
    match command {
        Command::List { json, place } => {
            let summaries = letters::list(&place.dir()?).map_err(Failure::other)?;
            list(&summaries, json, out)?;
            Ok(DONE)
        }
        Command::Show { backend, json, limit, place } => {
            let all = letters::read(&place.dir()?, &backend).map_err(Failure::other)?;
            for letter in all.take(limit.unwrap_or(usize::MAX)) {
                show(&letter.map_err(Failure::other)?, json, out)?;
            }
            Ok(DONE)
        }
        Command::Replay { which, config } => send_again(&which, &config, out),
        Command::Drop { which, place } => {
            let dir = place.dir()?;
            let dropped = letters::drop(&dir, &which.backend, &which.selection());
            let dropped = dropped.map_err(Failure::other)?;
            writeln!(out, "dropped {dropped} dead letters of {}", which.backend)?;
            Ok(DONE)
        }
    }
}

fn list(summaries: &[Summary], json: bool, out: &mut dyn Write) -> io::Result<()> {
    if json {
        return writeln!(out, "{}", serde_json::to_string(summaries).map_err(io::Error::other)?);
    }
    if summaries.iter().all(|summary| summary.letters + summary.damaged == 0) {
        return writeln!(out, "there are no dead letters");
    }
    for Summary { backend, letters, damaged, bytes, oldest_ns, .. } in summaries {
        write!(out, "{backend}: {} dead letters, {}", count(*letters), words::bytes(*bytes))?;
        if let Some(oldest) = oldest_ns {
            let age = SystemTime::now().duration_since(UNIX_EPOCH + Duration::from_nanos(*oldest));
            write!(out, ", the oldest {} ago", seconds(age.unwrap_or_default().as_secs_f64()))?;
        }
        if *damaged > 0 {
            write!(out, ", {damaged} lines that can't be read")?;
        }
        writeln!(out, "; `weir dead-letters show {backend}` says why")?;
    }
    Ok(())
}

fn show(letter: &Letter, json: bool, out: &mut dyn Write) -> io::Result<()> {
    if json {
        return writeln!(out, "{}", serde_json::to_string(letter).map_err(io::Error::other)?);
    }
    let Letter { id, db, rp, reason, line, .. } = letter;
    let policy = if rp.is_empty() { String::new() } else { format!(".{rp}") };
    let (reason, line) = (harmless(reason), harmless(&String::from_utf8_lossy(line)));
    writeln!(out, "{id} {db}{policy}: {reason}\n    {line}")
}

fn send_again(which: &Which, config: &ConfigFile, out: &mut dyn Write) -> Result<u8, Failure> {
    let settings = config::load(config)?.settings;
    let backend = named(&settings, &which.backend)?;
    let wanted = backend.settings().map_err(Failure::other)?;
    let Some(server) = wanted.server() else {
        let name = &backend.name;
        return Err(Failure::other(format!(
            "{name:?} is the store within Weir: set right what it says of the points, and write \
             them to Weir again; `weir dead-letters show {name} --json` has each as a line"
        )));
    };
    let dir = letters::dir_of(&settings.influx_dir());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::other(format!("can't begin: {error}")))?;
    let selection = which.selection();
    let replaying = async {
        let greeting = cluster::greeting(&settings.influx, &backend.name, TIMEOUT).await;
        let greeting = greeting.map_err(Failure::other)?;
        replay::replay(&dir, server, greeting, &selection).await.map_err(Failure::other)
    };
    let replayed = runtime.block_on(replaying)?;
    writeln!(
        out,
        "{} has taken {} points; {} it refuses again and they stay",
        backend.name, replayed.delivered, replayed.refused
    )?;
    Ok(if replayed.refused == 0 { DONE } else { BAD_NEWS })
}

fn named<'a>(settings: &'a Settings, name: &str) -> Result<&'a BackendTable, Failure> {
    let backends = &settings.influx.backend;
    backends.iter().find(|backend| backend.name == name).ok_or_else(|| {
        let known: Vec<_> = backends.iter().map(|backend| backend.name.as_str()).collect();
        Failure::other(format!("there is no backend {name:?}; there is {}", known.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::{Id, Letter, Summary, list, show};

    fn text(print: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> String {
        let mut out = Vec::new();
        print(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_point_can_not_speak_to_the_terminal() {
        let letter = Letter {
            id: Id { position: 4096, index: 7 },
            time_ns: 0,
            db: "db".to_owned(),
            rp: "week".to_owned(),
            reason: "field type conflict".to_owned(),
            line: b"cpu v=\"\x1b[2J\xff\" 1".to_vec(),
        };
        assert_eq!(
            text(|out| show(&letter, false, out)),
            "4096:7 db.week: field type conflict\n    cpu v=\"\\u{1b}[2J\u{fffd}\" 1\n"
        );
    }

    #[test]
    fn the_list_says_where_to_look() {
        let summary = Summary {
            backend: "a".to_owned(),
            letters: 1200,
            bytes: 2048,
            damaged: 1,
            ..Summary::default()
        };
        assert_eq!(
            text(|out| list(&[summary], false, out)),
            "a: 1,200 dead letters, 2.0 KiB, 1 lines that can't be read; \
             `weir dead-letters show a` says why\n"
        );
        assert_eq!(text(|out| list(&[], false, out)), "there are no dead letters\n");
    }
}
