//! What is asked of a server before a load: one request after the other on one connection.

use std::time::Duration;

use flow::dial::{Socket, Target};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::{Builder, Runtime};
use tokio::task::LocalSet;

use super::opening::{OpenError, open};
use crate::recorder::Kind;
use crate::workload::{Answer, Greeting, Reader, Workload};

/// Bytes that are read at once.
const PIECE: usize = 16 * 1024;

/// A server did not do what it was asked before a load.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// It can't be reached.
    #[error("can't reach the server: {0}")]
    Open(#[from] OpenError),
    /// It answered with a failure.
    #[error("the server refused it: {0}")]
    Refused(String),
    /// The answer did not come.
    #[error("the server gave no answer: {0}")]
    Broken(String),
    /// This machine can't do it.
    #[error("the injector can't run: {0}; the server is not at fault")]
    Injector(std::io::Error),
}

/// One connection on which one request after the other is asked; it is opened when it is needed,
/// and anew where the server has closed it.
pub struct Conversation<'a> {
    runtime: Runtime,
    target: &'a Target,
    timeout: Duration,
    socket: Option<Socket>,
}

impl<'a> Conversation<'a> {
    /// With that server.
    ///
    /// # Errors
    /// This machine can't do it.
    pub fn new(target: &'a Target, timeout: Duration) -> Result<Self, AskError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(AskError::Injector)?;
        Ok(Self { runtime, target, timeout, socket: None })
    }

    /// Whether the next request goes out on the connection of the last one.
    pub fn is_open(&self) -> bool {
        self.socket.is_some()
    }

    /// Sends a request, for whose answer the reader is prepared, and waits for the answer.
    ///
    /// # Errors
    /// There is no answer, or it is none.
    pub fn ask<R: Reader>(
        &mut self,
        greeting: impl FnOnce() -> Option<Box<dyn Greeting>>,
        out: &mut Vec<u8>,
        reader: &mut R,
    ) -> Result<Answer, AskError> {
        let Self { runtime, target, timeout, socket } = self;
        LocalSet::new().block_on(runtime, async {
            let mut open_socket = match socket.take() {
                Some(socket) => socket,
                None => open(target, greeting()).await?.0,
            };
            let exchanged = exchange(&mut open_socket, reader, out);
            let answer = tokio::time::timeout(*timeout, exchanged).await;
            let late = |_| AskError::Broken(format!("not within {timeout:?}"));
            let answer = answer.map_err(late)??;
            *socket = answer.reusable.then_some(open_socket);
            Ok(answer)
        })
    }
}

/// Sends the first `count` requests of a workload; each has its answer before the next one.
///
/// # Errors
/// One of them failed; those behind it were not sent.
pub fn ask<W: Workload>(
    target: &Target,
    timeout: Duration,
    workload: &mut W,
    count: u64,
) -> Result<(), AskError> {
    let mut conversation = Conversation::new(target, timeout)?;
    let mut reader = workload.reader();
    for number in 0..count {
        if !conversation.is_open() {
            reader = workload.reader();
        }
        let mut out = Vec::new();
        reader.number(number);
        reader.begin(workload.request(number, &mut out));
        let answer = conversation.ask(|| workload.greeting(), &mut out, &mut reader)?;
        if answer.kind != Kind::Succeeded {
            return Err(AskError::Refused(reader.failure(&answer)));
        }
    }
    Ok(())
}

async fn exchange<R: Reader>(
    socket: &mut Socket,
    reader: &mut R,
    out: &mut Vec<u8>,
) -> Result<Answer, AskError> {
    let broken = |error: std::io::Error| AskError::Broken(error.to_string());
    let (mut piece, mut sent, mut has_begun) = (vec![0; PIECE], 0, false);
    loop {
        let allowed = reader.go_on(out, sent);
        if allowed > sent {
            socket.write_all(&out[sent..allowed]).await.map_err(broken)?;
            socket.flush().await.map_err(broken)?;
            sent = allowed;
        }
        let len = socket.read(&mut piece).await.map_err(broken)?;
        let answer = match len {
            0 => Some(reader.ended().ok_or_else(|| {
                let begun = reader.begun().filter(|_| has_begun);
                let begun = begun.map(|begun| format!(" in the middle of an answer: {begun} came"));
                AskError::Broken(format!("it hung up{}", begun.unwrap_or_default()))
            })?),
            len => reader.read(&piece[..len]).map_err(|bad| AskError::Broken(bad.to_string()))?,
        };
        if let Some(answer) = answer {
            return Ok(answer);
        }
        has_begun = true;
    }
}
