//! A connection as a row of requests: what may stand between two of them, and how the last one's
//! answer gets through.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use flow::progress::Phase;
use flow::stream::Stream;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::time::timeout;

/// How long is read on behind the last answer, and how long for nothing.
const LINGER: Duration = Duration::from_secs(5);
const LINGER_PAUSE: Duration = Duration::from_secs(1);

/// A connection on which empty lines between two requests begin none.
pub struct Requests(Stream);

impl Requests {
    /// The requests of a connection.
    pub fn of(stream: Stream) -> Self {
        Self(stream)
    }

    /// Reads what the client still sends behind the last answer, until it ends its side: to close
    /// with bytes unread would reset the connection, and the answer would be lost with it
    /// (RFC 9112, section 9.6).
    pub async fn linger(self) {
        let mut stream = self.0;
        // No limit of a client's speed but those here.
        stream.progress().serving();
        let _ = timeout(LINGER, async {
            stream.shutdown().await?;
            let mut sink = vec![0; 16 << 10];
            while let Ok(read) = timeout(LINGER_PAUSE, stream.read(&mut sink)).await
                && read? > 0
            {}
            Ok::<_, io::Error>(())
        })
        .await;
    }
}

/// Whether all of it is empty lines, which a server passes over where a request would begin
/// (RFC 9112, section 2.2): small devices send one behind each body.
pub fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| matches!(byte, b'\r' | b'\n'))
}

impl AsyncRead for Requests {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let between = self.0.progress().phase() == Phase::Idle;
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.0).poll_read(cx, buf))?;
        // They have not begun the time that a head may take. What is to be read stays as it is:
        // it may be the rest of a body that nobody wanted.
        if between && is_blank(&buf.filled()[before..]) {
            self.0.progress().idle();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Requests {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
