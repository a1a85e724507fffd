//! `weir import`: line protocol from a file to a server, in batches, several of them at once.

mod cutter;
mod progress;
mod sender;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::{Args, value_parser};
use flate2::bufread::MultiGzDecoder;
use tokio::sync::mpsc;
use tokio::time::Interval;
use watch::words::{count, seconds};

use crate::exit::{BAD_NEWS, DONE, Failure};
use crate::remote::{self, Client, Server};
use cutter::{Cutter, Piece, Target};
use progress::Progress;
use sender::Sender;

/// How often the progress is shown.
const PROGRESS_EVERY: Duration = Duration::from_millis(500);
/// Pieces read ahead of those being sent.
const READ_AHEAD: usize = 2;
const READ_BYTES: usize = 256 << 10;
/// How a gzip stream begins: RFC 1952, section 2.3.1.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// What to import, and into what.
#[derive(Debug, Args)]
pub struct Command {
    /// The file, plain or gzipped; - is standard input
    file: PathBuf,
    /// The database; a `# CONTEXT-DATABASE:` line in the file comes before it
    #[arg(long, short, value_name = "NAME", default_value = "", hide_default_value = true)]
    db: String,
    /// The retention policy; a `# CONTEXT-RETENTION-POLICY:` line comes before it
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    rp: String,
    /// The unit of the file's timestamps: ns, u, ms, s, m or h
    #[arg(long, value_name = "UNIT", default_value = "ns")]
    precision: String,
    /// Batches on their way at once
    #[arg(long, value_name = "N", default_value_t = 4)]
    #[arg(value_parser = value_parser!(u16).range(1..=256))]
    in_flight: u16,
    #[command(flatten)]
    server: Server,
}

/// Imports; the result is bad news when the server refused lines.
pub fn run(command: &Command, out: &mut dyn Write) -> Result<u8, Failure> {
    remote::run(command.run(out))
}

impl Command {
    async fn run(&self, out: &mut dyn Write) -> Result<u8, Failure> {
        let client = Arc::new(Client::new(&self.server)?);
        let (input, bytes) = self.open()?;
        let read = Arc::new(AtomicU64::new(0));
        let target = Target { db: self.db.clone(), rp: self.rp.clone() };
        let mut pieces = pieces(Counted { input, read: Arc::clone(&read) }, target);
        let mut progress = Progress::new(bytes, read);
        let mut sender = Sender::new(client, &self.precision, self.in_flight.into());
        let mut tick = tokio::time::interval(PROGRESS_EVERY);
        loop {
            tokio::select! {
                piece = pieces.recv() => match piece {
                    Some(Ok(Piece::Statement(text))) => sender.statement(&text).await?,
                    Some(Ok(Piece::Points(points))) => {
                        wait(sender.room(), &mut tick, &progress).await?;
                        sender.send(points);
                    }
                    Some(Err(error)) => {
                        progress.clear();
                        return Err(Failure::other(format!("can't read {}: {error}", self.name())));
                    }
                    None => break,
                },
                _ = tick.tick() => progress.show(sender.lines()),
            }
        }
        sender.finish().await?;
        progress.clear();
        let (lines, failed) = (sender.lines(), sender.failed());
        let span = progress.elapsed().as_secs_f64();
        let rate = lines as f64 / span.max(0.001);
        let (sent, rate) = (count(lines), count(rate as u64));
        writeln!(
            out,
            "{sent} lines in {} ({rate} a second), {} failed",
            seconds(span),
            count(failed)
        )?;
        Ok(if failed > 0 { BAD_NEWS } else { DONE })
    }

    fn name(&self) -> String {
        self.file.display().to_string()
    }

    /// The input, and how long it is where that is known.
    fn open(&self) -> Result<(Box<dyn Read + Send>, Option<u64>), Failure> {
        if self.name() == "-" {
            return Ok((Box::new(io::stdin()), None));
        }
        let opened = File::open(&self.file).and_then(|file| Ok((file.metadata()?, file)));
        let (metadata, file) = opened
            .map_err(|error| Failure::other(format!("can't open {}: {error}", self.name())))?;
        Ok((Box::new(file), metadata.is_file().then_some(metadata.len())))
    }
}

/// Waits for room; the progress says so meanwhile.
async fn wait(
    room: impl Future<Output = Result<(), Failure>>,
    tick: &mut Interval,
    progress: &Progress,
) -> Result<(), Failure> {
    let mut room = std::pin::pin!(room);
    loop {
        tokio::select! {
            made = &mut room => return made,
            _ = tick.tick() => progress.show_waiting(),
        }
    }
}

/// Counts what is read, still compressed, for the estimate.
struct Counted {
    input: Box<dyn Read + Send>,
    read: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.input.read(buffer)?;
        self.read.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(bytes)
    }
}

/// Reads and cuts on a thread of its own, which files may block.
fn pieces(input: Counted, target: Target) -> mpsc::Receiver<io::Result<Piece>> {
    let (sender, receiver) = mpsc::channel(READ_AHEAD);
    std::thread::spawn(move || {
        let cutter = match plain(input) {
            Ok(input) => Cutter::new(input, target),
            Err(error) => return drop(sender.blocking_send(Err(error))),
        };
        for piece in cutter {
            let failed = piece.is_err();
            if sender.blocking_send(piece).is_err() || failed {
                break;
            }
        }
    });
    receiver
}

/// The input, unpacked where it is gzipped.
fn plain(input: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    let mut input = BufReader::with_capacity(READ_BYTES, input);
    let gzipped = input.fill_buf()?.starts_with(&GZIP_MAGIC);
    Ok(if gzipped { Box::new(MultiGzDecoder::new(input)) } else { Box::new(input) })
}
