//! Connections to backends for `hyper`, dialled and watched as all of Weir's are.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use flow::dial::{Address, DialError, Socket, Target};
use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tower_service::Service;

/// Dials a backend by its URL.
#[derive(Debug, Clone)]
pub struct Dialling {
    connect_timeout: Duration,
}

/// A connection to a backend.
#[derive(Debug)]
pub struct Dialled(TokioIo<Socket>);

impl Dialling {
    /// With a limit on how long a connection may take.
    pub fn new(connect_timeout: Duration) -> Self {
        Self { connect_timeout }
    }
}

impl Service<Uri> for Dialling {
    type Response = Dialled;
    type Error = DialError;
    type Future = Pin<Box<dyn Future<Output = Result<Dialled, DialError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), DialError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let usual = if uri.scheme_str() == Some("https") { 443 } else { 80 };
        let host = uri.host().unwrap_or_default();
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let address = Address::Tcp { host: host.to_owned(), port: uri.port_u16().unwrap_or(usual) };
        // TLS is begun by whoever asks for the connection.
        let target = Target { address, tls: None, connect_timeout: self.connect_timeout };
        Box::pin(async move {
            let socket = target.in_time(target.connect_in_clear()).await?;
            Ok(Dialled(TokioIo::new(socket)))
        })
    }
}

impl Connection for Dialled {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Dialled {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl Write for Dialled {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, bufs)
    }
}
