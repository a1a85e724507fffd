//! What is asked of a server before a load: one request after the other on one connection.

use std::time::Duration;

use flow::dial::{Socket, Target};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::Builder;
use tokio::task::LocalSet;

use super::opening::{OpenError, open};
use crate::recorder::Kind;
use crate::workload::{Answer, Reader, Workload};

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
    #[error("the injector can't run: {0}; this is no fault of the server's")]
    Injector(std::io::Error),
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
    let runtime = Builder::new_current_thread().enable_all().build().map_err(AskError::Injector)?;
    LocalSet::new().block_on(&runtime, async {
        let (mut socket, _) = open(target, workload.greeting()).await?;
        let mut reader = workload.reader();
        for number in 0..count {
            let mut out = Vec::new();
            reader.number(number);
            reader.begin(workload.request(number, &mut out));
            let exchanged = exchange(&mut socket, &mut reader, &mut out);
            let answer = tokio::time::timeout(timeout, exchanged).await;
            let answer =
                answer.map_err(|_| AskError::Broken(format!("not within {timeout:?}")))??;
            if answer.kind != Kind::Succeeded {
                return Err(AskError::Refused(reader.failure(&answer)));
            }
            if !answer.reusable && number + 1 < count {
                socket = open(target, workload.greeting()).await?.0;
                reader = workload.reader();
            }
        }
        Ok(())
    })
}

async fn exchange<R: Reader>(
    socket: &mut Socket,
    reader: &mut R,
    out: &mut Vec<u8>,
) -> Result<Answer, AskError> {
    let broken = |error: std::io::Error| AskError::Broken(error.to_string());
    let (mut piece, mut sent) = (vec![0; PIECE], 0);
    loop {
        let allowed = reader.go_on(out, sent);
        if allowed > sent {
            socket.write_all(&out[sent..allowed]).await.map_err(broken)?;
            socket.flush().await.map_err(broken)?;
            sent = allowed;
        }
        let len = socket.read(&mut piece).await.map_err(broken)?;
        let answer = match len {
            0 => Some(reader.ended().ok_or_else(|| AskError::Broken("it hung up".to_owned()))?),
            len => reader.read(&piece[..len]).map_err(|bad| AskError::Broken(bad.to_string()))?,
        };
        if let Some(answer) = answer {
            return Ok(answer);
        }
    }
}
