//! `--ledger`: what is beside the bits of a ledger, so that `weir load verify` knows what they are
//! of.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use meter::directory::{self, LEDGER, LEDGER_BITS};
use meter::engine::Conversation;
use meter::ledger::LedgerLocation;
use meter::postgres::LedgerRows;
use meter::redis::Redis;
use meter::url::Url;
use meter::verify::{Counts, VerifyError, of_postgres, of_redis};
use serde_json::{Value, json};

use super::inputs::Inputs;
use super::run::NamedLoad;
use crate::exit::Failure;

/// What the document is; another one has another number.
const SCHEMA: u32 = 1;
/// How long a server of PostgreSQL's keeps what it has counted to itself.
const UNTOLD: Duration = Duration::from_millis(1100);

/// A ledger that is to be kept.
pub struct Ledger {
    directory: PathBuf,
    run: u64,
}

/// One that is kept.
pub struct Begun {
    directory: PathBuf,
    document: Value,
}

impl Ledger {
    /// Of a run that leaves its results there; all parts of a shared one have its number.
    pub fn new(directory: &Path, shared: Option<u64>) -> Self {
        if let Some(run) = shared {
            return Self { directory: directory.to_owned(), run };
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let nanos = u64::try_from(now.as_nanos()).unwrap_or_default();
        // Two injectors may begin at one moment. 63 bits fit in a bigint.
        let run = nanos.rotate_left(20) ^ u64::from(std::process::id());
        Self { directory: directory.to_owned(), run: run >> 1 }
    }

    /// What no other run is known by.
    pub fn run(&self) -> u64 {
        self.run
    }

    /// Where the bits of a load are.
    pub fn place(&self, load: usize) -> LedgerLocation {
        LedgerLocation { directory: self.directory.join(LEDGER_BITS), load }
    }

    /// Writes what the bits are of, with what servers have counted so far.
    pub fn begin(
        self,
        named: &[NamedLoad<'_>],
        kept: Vec<Value>,
        inputs: &Inputs,
    ) -> Result<Begun, Failure> {
        let bits = self.directory.join(LEDGER_BITS);
        fs::create_dir_all(&bits).map_err(|error| {
            Failure::other(format!("can't keep a ledger in {}: {error}", bits.display()))
        })?;
        let loads = named.iter().zip(kept).map(|((name, command), kept)| {
            let before = counted(command, &kept, inputs);
            json!({
                "name": name,
                "url": command.url.without_secrets(),
                "threads": command.means.threads,
                "kept": kept,
                "before": before,
            })
        });
        let loads = loads.collect::<Vec<_>>();
        let begun = Begun {
            directory: self.directory,
            document: json!({ "schema": SCHEMA, "loads": loads }),
        };
        begun.write().map_err(Failure::other)?;
        Ok(begun)
    }
}

impl Begun {
    fn write(&self) -> Result<(), directory::DirectoryError> {
        directory::replace(&self.directory.join(LEDGER), &format!("{:#}\n", self.document))
    }

    /// Adds what servers have counted when the run is over; says what to do with it.
    pub fn end(mut self, named: &[NamedLoad<'_>], inputs: &Inputs) -> String {
        if let Some(loads) = self.document["loads"].as_array_mut() {
            if loads.iter().any(|load| load["kept"]["postgres"].is_object()) {
                // The run is over, and nothing tells when a server has told what it counts.
                std::thread::sleep(UNTOLD);
            }
            for (load, (_, command)) in loads.iter_mut().zip(named) {
                load["after"] = counted(command, &load["kept"], inputs);
            }
        }
        let directory = self.directory.display();
        match self.write() {
            Ok(()) => format!("ledger: weir load verify {directory}"),
            Err(error) => format!("ledger: weir load verify {directory} (in part: {error})"),
        }
    }
}

/// What a load's server counts by itself; nothing where it does not tell.
fn counted(command: &super::Command, kept: &Value, inputs: &Inputs) -> Value {
    let target = command.target(inputs).ok();
    let told = target.and_then(|target| {
        let mut server = Conversation::new(&target, command.means.timeout.get()).ok()?;
        counts(&mut server, &command.url, kept, &inputs.login()).ok()?
    });
    told.map_or(Value::Null, |counts| {
        Value::Object(counts.into_iter().map(|(name, count)| (name, count.into())).collect())
    })
}

/// What a server counts by itself; nothing where nobody knows what to ask.
pub fn counts(
    server: &mut Conversation<'_>,
    url: &Url,
    kept: &Value,
    options: &meter::postgres::Options,
) -> Result<Option<Counts>, VerifyError> {
    use meter::workload::Workload as _;

    if let Ok(Some(redis)) = Redis::of_kept(url, kept) {
        return of_redis(server, || redis.greeting()).map(Some);
    }
    if let Ok(Some(kept)) = LedgerRows::read(url, kept, options) {
        return of_postgres(server, || kept.greeting()).map(Some);
    }
    Ok(None)
}
