//! Asking the admin port of a running Weir.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use clap::Args;
use http::header::{AUTHORIZATION, HOST, HeaderValue};
use http::uri::Authority;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::config;
use crate::config::ConfigFile;
use crate::exit::Failure;

/// How long a question may take until its answer begins.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The longest refusal that is shown.
const REFUSAL_BYTES_MAX: usize = 4096;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Which admin port, and as whom.
#[derive(Debug, Args)]
pub struct Server {
    /// The admin port to ask, as ADDRESS:PORT or https://NAME:PORT; without it admin.listen of the
    /// configuration, with its token and its certificate
    #[arg(long, value_name = "ADDRESS:PORT")]
    admin: Option<String>,
    /// A user of [[admin.user]]
    #[arg(long, value_name = "NAME", requires = "password_file")]
    user: Option<String>,
    /// A file whose first line is the user's password
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,
    /// A file whose first line is the token of [admin]
    #[arg(long, value_name = "FILE", conflicts_with = "user")]
    token_file: Option<PathBuf>,
    /// A file of certificate authorities to trust instead of this machine's
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigFile,
}

/// Where to ask, and what to show there.
pub struct Target {
    authority: Authority,
    tls: Option<Arc<ClientConfig>>,
    authorization: Option<HeaderValue>,
}

impl Server {
    /// Whom to ask.
    ///
    /// # Errors
    /// The configuration or a secret can't be read, or the address is none.
    pub fn target(&self) -> Result<Target, Failure> {
        let mut target = match &self.admin {
            Some(text) => self.written(text)?,
            None => self.configured()?,
        };
        if let Some(file) = &self.token_file {
            target.authorization = Some(bearer(&first_line(file)?)?);
        } else if let (Some(user), Some(file)) = (&self.user, &self.password_file) {
            let pair = BASE64_STANDARD.encode(format!("{user}:{}", first_line(file)?));
            target.authorization = Some(secret(format!("Basic {pair}"))?);
        }
        Ok(target)
    }

    fn written(&self, text: &str) -> Result<Target, Failure> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
        let authority = rest.trim_end_matches('/').parse::<Authority>().ok();
        let authority = authority.filter(|of| of.port_u16().is_some());
        let (Some(authority), "http" | "https") = (authority, scheme) else {
            let what = "write 127.0.0.1:8088 or https://weir.example.com:8088";
            return Err(Failure::other(format!("--admin {text:?} is not an address: {what}")));
        };
        let tls = match scheme {
            "https" => Some(flow::tls::client_config(self.ca.as_deref(), false)),
            _ => None,
        };
        let tls = tls.transpose().map_err(Failure::other)?;
        Ok(Target { authority, tls: tls.map(Arc::new), authorization: None })
    }

    /// The port of the file, whose certificate is the one that the port must show.
    fn configured(&self) -> Result<Target, Failure> {
        let admin = config::load_places(&self.config)?.admin;
        let Some(mut address) = admin.address().map_err(Failure::other)? else {
            return Err(Failure::other("admin.listen is \"\", so there is nothing to ask"));
        };
        match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
            IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
            _ => {}
        }
        let tls = admin.tls.as_ref().map(|tls| match &self.ca {
            Some(ca) => flow::tls::client_config(Some(ca), false),
            None => flow::tls::pinned_client(&tls.certificate),
        });
        let tls = tls.transpose().map_err(Failure::other)?;
        let is_given = self.user.is_some() || self.token_file.is_some();
        let token = if is_given { None } else { admin.bearer().map_err(Failure::other)? };
        Ok(Target {
            authority: Authority::try_from(address.to_string()).map_err(Failure::other)?,
            tls: tls.map(Arc::new),
            authorization: token.map(|token| bearer(token.reveal())).transpose()?,
        })
    }
}

fn first_line(file: &Path) -> Result<String, Failure> {
    let text = fs::read_to_string(file);
    let text = text.map_err(|e| Failure::other(format!("can't read {}: {e}", file.display())))?;
    Ok(text.lines().next().unwrap_or_default().trim_end().to_owned())
}

fn bearer(token: &str) -> Result<HeaderValue, Failure> {
    secret(format!("Bearer {token}"))
}

fn secret(text: String) -> Result<HeaderValue, Failure> {
    let mut value = HeaderValue::try_from(text).map_err(Failure::other)?;
    value.set_sensitive(true);
    Ok(value)
}

impl Target {
    /// What is asked, for messages.
    pub fn name(&self) -> &str {
        self.authority.as_str()
    }

    /// `GET path`, whose answer has begun.
    ///
    /// # Errors
    /// There is no answer, or it is a refusal; in words.
    pub async fn get(&self, path: &str) -> Result<Response<Incoming>, Failure> {
        let asked = tokio::time::timeout(TIMEOUT, self.try_get(path)).await;
        let unanswered = |why: &dyn std::fmt::Display| {
            Failure::other(format!(
                "{} can't be asked: {why}; is `weir serve` running, and is that its admin.listen?",
                self.authority
            ))
        };
        match asked {
            Ok(Ok(answer)) if answer.status().is_success() => Ok(answer),
            Ok(Ok(answer)) => Err(self.refused(path, answer).await),
            Ok(Err(why)) => Err(unanswered(&why)),
            Err(_) => Err(unanswered(&format!("no answer within {} s", TIMEOUT.as_secs()))),
        }
    }

    async fn refused(&self, path: &str, answer: Response<Incoming>) -> Failure {
        let status = answer.status();
        let read = Limited::new(answer.into_body(), REFUSAL_BYTES_MAX).collect().await;
        let words = read.map(|read| String::from_utf8_lossy(&read.to_bytes()).trim().to_owned());
        let remedy = match status {
            StatusCode::UNAUTHORIZED => "; give --token-file, or --user and --password-file",
            _ => "",
        };
        let words = words.unwrap_or_default();
        Failure::other(format!("{} answers {status} to GET {path}: {words}{remedy}", self.name()))
    }

    async fn try_get(&self, path: &str) -> Result<Response<Incoming>, Error> {
        let host = self.authority.host().trim_matches(['[', ']']);
        let port = self.authority.port_u16().unwrap_or_default();
        let stream = TcpStream::connect((host, port)).await?;
        let Some(tls) = &self.tls else { return self.ask(stream, path).await };
        let name = ServerName::try_from(host.to_owned())?;
        let connected = TlsConnector::from(Arc::clone(tls)).connect(name, stream).await;
        let stream = connected.map_err(|error| match flow::tls::in_words(&error) {
            Some(words) => words.into(),
            None => Error::from(error),
        })?;
        self.ask(stream, path).await
    }

    async fn ask(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        path: &str,
    ) -> Result<Response<Incoming>, Error> {
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        // It ends with the answer, or with the process.
        tokio::spawn(connection);
        let mut request = Request::get(path).header(HOST, self.name());
        if let Some(value) = &self.authorization {
            request = request.header(AUTHORIZATION, value);
        }
        Ok(sender.send_request(request.body(Empty::<Bytes>::new())?).await?)
    }
}
