//! What a coordinator and an agent say to each other: JSON behind its length, over TLS.

use std::io;
use std::time::{Duration, SystemTime};

use meter::merge::PartFile;
use meter::part::RunPart;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc::Receiver;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::load::inputs::SentInputs;

/// The port that agents listen on where nobody names another.
pub const PORT: u16 = 8094;
/// How often each side says that it is there.
pub const HEARTBEAT: Duration = Duration::from_millis(500);
/// After what silence the other side is gone. With it an agent whose coordinator has died stops
/// within 5 s.
pub const SILENCE: Duration = Duration::from_secs(3);
/// How long a connection to an agent, and the proofs on it, may take.
pub const GREETING_MAX: Duration = Duration::from_secs(5);
/// Bytes of a message: files of 64 MiB in base64 fit in.
pub const MESSAGE_MAX: usize = 96 << 20;
/// Bytes of one before the other side has proved that it knows the secret.
pub const GREETING_BYTES_MAX: usize = 1024;

/// Keys of a run file that are the coordinator's alone: it judges and streams the whole run.
pub const OF_COORDINATOR: [&str; 11] = [
    "abort",
    "agent-secret-file",
    "agents",
    "find-limit",
    "out",
    "prepare",
    "require",
    "run-id",
    "stream",
    "stream-application",
    "stream-schema",
];
/// What each side says first.
#[derive(Debug, Serialize, Deserialize)]
pub struct Greeting {
    /// The version of the program: both have the same.
    pub version: String,
    /// What proves that it knows the secret, in base64.
    pub proof: String,
    /// What its machine is called.
    pub host: String,
}

/// How an agent answers a greeting.
#[derive(Debug, Serialize, Deserialize)]
pub enum GreetingAnswer {
    Welcome(Greeting),
    /// Why it does not take orders from there.
    Refused(String),
}

/// What a coordinator says.
#[derive(Debug, Serialize, Deserialize)]
pub enum Order {
    /// Asks for the time, and says that the coordinator is there.
    Clock(u64),
    /// Opens the connections of a part of a run.
    Prepare(Box<Assignment>),
    /// Begins to send at the same moment as all others.
    Start {
        /// When what is measured begins, by the agent's own clock.
        at: Duration,
        /// What the coordinator's wall clock shows then.
        wall: SystemTime,
    },
    /// Sends nothing more, and waits for answers; at the second time it does not wait.
    Stop,
}

/// A part of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Assignment {
    /// What all parts are known by.
    pub run_id: String,
    pub part: RunPart,
    /// The text of the run file.
    pub text: String,
    /// What stands in place of what the file has above its loads, as TOML.
    pub over: String,
    /// What the load takes from outside its options.
    pub inputs: SentInputs,
    /// The rate of a step of a search, in place of that of the file.
    pub rate: Option<f64>,
    /// What the rows of a ledger are known by, where one is kept.
    pub ledger: Option<u64>,
}

/// What an agent says.
#[derive(Debug, Serialize, Deserialize)]
pub enum Report {
    /// Its clocks, as it was asked.
    Clock {
        number: u64,
        /// Since the agent was started, by its monotonic clock.
        at: Duration,
        wall: SystemTime,
    },
    /// It is there, whatever else there is to say.
    Alive,
    /// All connections of its part are open.
    Ready,
    /// A window has ended: its line, and its histograms.
    Window { row: String, histograms: String },
    /// The next bytes of a file of its ledger, in base64.
    Ledger { name: String, bytes: String },
    /// Its part has ended; `rest` has the histograms behind the last whole window.
    Ended { file: Box<PartFile>, rest: String },
    /// It can't send its part, or can't go on.
    Failed(String),
}

/// A message as it is sent: its length, and JSON.
///
/// # Errors
/// It is too long.
fn encode(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, message)?;
    let len = bytes.len() - 4;
    if len > MESSAGE_MAX {
        return Err(io::Error::other(format!("a message of {len} bytes is too long")));
    }
    let len = u32::try_from(len).unwrap_or(u32::MAX);
    bytes[..4].copy_from_slice(&len.to_be_bytes());
    Ok(bytes)
}

/// Sends a message.
///
/// # Errors
/// It is too long, or the connection is gone.
pub async fn send(
    stream: &mut (impl AsyncWrite + Unpin),
    message: &impl Serialize,
) -> io::Result<()> {
    stream.write_all(&encode(message)?).await?;
    stream.flush().await
}

/// Sends what comes until nothing more does, and between that, twice a second, what `beat` says.
///
/// # Errors
/// A message is too long, or the connection is gone.
pub async fn send_all<T: Serialize>(
    mut stream: impl AsyncWrite + Unpin,
    mut messages: Receiver<T>,
    mut beat: impl FnMut() -> T,
) -> io::Result<()> {
    let mut due = interval(HEARTBEAT);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let message = tokio::select! {
            message = messages.recv() => match message {
                Some(message) => message,
                None => return stream.shutdown().await,
            },
            _ = due.tick() => beat(),
        };
        send(&mut stream, &message).await?;
    }
}

/// Reads a message of at most so many bytes.
///
/// # Errors
/// It is longer, or not one; the connection is gone, or silent for longer than [`SILENCE`].
pub async fn receive<T: DeserializeOwned>(
    stream: &mut (impl AsyncRead + Unpin),
    bytes_max: usize,
) -> io::Result<T> {
    let len = in_time(stream.read_u32()).await? as usize;
    if len > bytes_max {
        return Err(io::Error::other(format!("a message of {len} bytes is over {bytes_max}")));
    }
    // What is announced and does not come costs nothing.
    let mut bytes = Vec::with_capacity(len.min(64 << 10));
    while bytes.len() < len {
        let mut rest = (&mut *stream).take((len - bytes.len()) as u64);
        // A large message may take longer, as long as some of it comes.
        if in_time(rest.read_buf(&mut bytes)).await? == 0 {
            return Err(hung_up());
        }
    }
    Ok(serde_json::from_slice(&bytes)?)
}

/// What is read, unless the other side is silent for too long or gone, in words for people.
async fn in_time<T>(read: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let silent = |_| {
        let words = format!("nothing was heard of it for {SILENCE:?}");
        Err(io::Error::new(io::ErrorKind::TimedOut, words))
    };
    match timeout(SILENCE, read).await.unwrap_or_else(silent) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(hung_up()),
        read => read,
    }
}

fn hung_up() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "it hung up")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(bytes: &[u8], bytes_max: usize) -> io::Result<Order> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(receive(&mut &bytes[..], bytes_max))
    }

    #[test]
    fn what_is_sent_is_received_and_nothing_else() {
        let bytes = encode(&Order::Clock(7)).unwrap();
        assert!(matches!(received(&bytes, 100), Ok(Order::Clock(7))));
        for len in 0..bytes.len() {
            assert!(received(&bytes[..len], 100).is_err(), "{len}");
        }
        assert!(received(&bytes, 5).is_err());
        assert!(received(&[255, 255, 255, 255, b'{'], MESSAGE_MAX).is_err());
        assert!(received(b"\0\0\0\x02{}", 100).is_err());
        for (bit, byte) in (0..bytes.len() * 8).map(|bit| (bit, bit / 8)) {
            let mut other = bytes.clone();
            other[byte] ^= 1 << (bit % 8);
            let _ = received(&other, 100);
        }
    }
}
