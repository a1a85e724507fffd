//! `weir status`: asks the admin port of a running gateway and shows the answer.

mod aof;
mod collisions;
mod guard;
mod latencies;
mod postgres;
mod render;
mod table;

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use http::header::HOST;
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::rt::TokioIo;

use crate::config;
use crate::config::ConfigFile;
use crate::exit::{BAD_NEWS, DONE, Failure};

pub use render::{Process, Ready};

/// How long the whole question may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The longest answer that is read: thousands of backends.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// Whom to ask, and how to show the answer.
#[derive(Debug, Args)]
pub struct Command {
    /// The admin port to ask; without it the configuration's admin.listen
    #[arg(long, value_name = "ADDRESS:PORT")]
    admin: Option<SocketAddr>,
    /// Print the answer as JSON, as it came
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: ConfigFile,
}

/// Asks, prints, and answers whether the gateway takes writes.
pub fn run(command: &Command, out: &mut dyn Write) -> Result<u8, Failure> {
    let address = match command.admin {
        Some(address) => address,
        None => configured(&command.config)?,
    };
    let answer = ask(address)?;
    let status: render::Status = serde_json::from_slice(&answer).map_err(|error| {
        Failure::other(format!("{address} answers, but not as Weir's admin port does ({error})"))
    })?;
    if command.json {
        out.write_all(&answer)?;
    } else {
        write!(out, "{status}")?;
    }
    Ok(if status.ready.yes { DONE } else { BAD_NEWS })
}

fn configured(file: &ConfigFile) -> Result<SocketAddr, Failure> {
    let admin = config::load_places(file)?.admin;
    match admin.address().map_err(Failure::other)? {
        None => Err(Failure::other("admin.listen is \"\", so there is nothing to ask")),
        Some(mut address) => {
            match address.ip() {
                IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
                IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
                _ => {}
            }
            Ok(address)
        }
    }
}

/// `GET /status` of the admin port at `address`.
fn ask(address: SocketAddr) -> Result<Bytes, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::other(format!("can't begin: {error}")))?;
    let unanswered = |why: &dyn std::fmt::Display| {
        Failure::other(format!(
            "{address} can't be asked: {why}; is `weir serve` running, and is that its \
             admin.listen?"
        ))
    };
    let answered = runtime.block_on(async { tokio::time::timeout(TIMEOUT, get(address)).await });
    match answered {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(why)) => Err(unanswered(&why)),
        Err(_) => Err(unanswered(&format!("no answer within {} s", TIMEOUT.as_secs()))),
    }
}

async fn get(address: SocketAddr) -> Result<Bytes, Box<dyn std::error::Error + Send + Sync>> {
    let stream = tokio::net::TcpStream::connect(address).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let driver = tokio::spawn(connection);
    let request = http::Request::get("/status")
        .header(HOST, address.to_string())
        .body(Empty::<Bytes>::new())?;
    let response = sender.send_request(request).await?;
    if !response.status().is_success() {
        return Err(format!("it answers {} to GET /status", response.status()).into());
    }
    let answer = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await?.to_bytes();
    driver.abort();
    Ok(answer)
}
