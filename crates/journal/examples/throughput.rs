//! How many appends a second one worker has acknowledged, and how many bytes:
//! `cargo run --release -p weir-journal --example throughput -- DIR`.

use std::cell::Cell;
use std::error::Error;
use std::io::Write as _;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use journal::{Ack, Journal, Outcome, Settings, Start};
use tokio::task::LocalSet;
use units::Size;
use watch::metrics::Registry;

const FOR: Duration = Duration::from_secs(4);

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::args().nth(1).unwrap_or_else(|| "/var/tmp/weir-throughput".to_owned());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for (ack, waiters, len) in [
        (Ack::Durable, 512, 80),
        (Ack::Durable, 64, 80),
        (Ack::Written, 512, 80),
        (Ack::Memory, 512, 80),
        (Ack::Durable, 16, 300_000),
    ] {
        let local = LocalSet::new();
        let line = runtime.block_on(local.run_until(run(dir.as_ref(), ack, waiters, len)))?;
        writeln!(std::io::stdout(), "{line}")?;
    }
    Ok(())
}

async fn run(dir: &Path, ack: Ack, waiters: u32, len: usize) -> Result<String, Box<dyn Error>> {
    let settings =
        Settings { dir: dir.to_owned(), ack, max_size: Size::from_gib(4), ..Settings::default() };
    let (journal, _) = Journal::open(settings, &Registry::new())?;
    let mut consumer = journal.consumer("sink", Start::End)?;
    let consuming = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            while let Ok(chunk) = consumer.next(4 << 20).await {
                let done = Outcome { delivered: chunk.items(), ..Outcome::default() };
                consumer.commit(chunk.end(), done);
            }
        });
        std::io::Result::Ok(())
    });
    let appender = Rc::new(journal.appender());
    let (count, payload) = (Rc::new(Cell::new(0_u64)), Rc::new(vec![b'x'; len]));
    let cpu = cpu_time();
    let began = Instant::now();
    let mut tasks = Vec::new();
    for _ in 0..waiters {
        let (appender, count, payload) = (appender.clone(), count.clone(), payload.clone());
        tasks.push(tokio::task::spawn_local(async move {
            while began.elapsed() < FOR {
                let Ok(ticket) = appender.append(1, 1, false, &[&payload]) else {
                    tokio::task::yield_now().await;
                    continue;
                };
                if appender.acknowledged(ticket).await.is_ok() {
                    count.set(count.get() + 1);
                }
                // In `memory` nothing else lets the other tasks run.
                tokio::task::yield_now().await;
            }
        }));
    }
    for task in tasks {
        task.await?;
    }
    let (took, cpu) = (began.elapsed().as_secs_f64(), cpu_time() - cpu);
    let groups = journal.status();
    journal.close().await;
    let _ = consuming.join();
    let per_second = count.get() as f64 / took;
    Ok(format!(
        "{} with {waiters} waiters, {len} bytes: {per_second:.0} a second, {:.0} MB/s, {:.2} us of \
         CPU each, {} MiB on disk",
        ack.name(),
        per_second * len as f64 / 1e6,
        cpu * 1e6 / count.get() as f64,
        groups.bytes_used >> 20,
    ))
}

fn cpu_time() -> f64 {
    watch::process::cpu_seconds().unwrap_or_default()
}
