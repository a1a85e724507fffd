//! How a coordinator and an agent come to trust each other: TLS with whatever certificate, and on
//! both sides a proof of the secret that holds for this connection alone.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flow::tls::{SecretProof, Side, self_made_server, unchecked_client};
use meter::machine;
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

use super::message::{GREETING_BYTES_MAX, Greeting, GreetingAnswer, receive, send};

/// The version that both sides have.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Why an agent does not take orders from the other side; nothing where it does.
fn refusal(theirs: &Greeting, is_proved: bool) -> Option<String> {
    // Who has proved nothing hears nothing else.
    if !is_proved {
        return Some("the secret is not the agent's: --agent-secret-file names another one".into());
    }
    let version = shown(&theirs.version);
    let words =
        format!("the agent is weir {VERSION}, and the coordinator weir {version}: run one version");
    (theirs.version != VERSION).then_some(words)
}

/// Words of the other side as they may be shown on a terminal.
fn shown(words: &str) -> String {
    words.chars().take(200).map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// An agent's side of new connections.
pub struct AgentAcceptor {
    acceptor: TlsAcceptor,
    secret: Vec<u8>,
}

impl AgentAcceptor {
    /// With a certificate of its own making.
    pub fn new(secret: Vec<u8>) -> Result<Self, flow::tls::TlsError> {
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(self_made_server()?)), secret })
    }

    /// Lets in who knows the secret; gives the name of its machine, too.
    ///
    /// # Errors
    /// It does not, has another version, or is gone.
    pub async fn accept(
        &self,
        stream: TcpStream,
    ) -> io::Result<(server::TlsStream<TcpStream>, String)> {
        let mut stream = self.acceptor.accept(stream).await?;
        let proof = SecretProof::new(&self.secret, stream.get_ref().1).map_err(io::Error::other)?;
        let theirs: Greeting = receive(&mut stream, GREETING_BYTES_MAX).await?;
        let is_proved = is_proof(&proof, Side::Client, &theirs);
        if let Some(words) = refusal(&theirs, is_proved) {
            send(&mut stream, &GreetingAnswer::Refused(words.clone())).await?;
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, words));
        }
        send(&mut stream, &GreetingAnswer::Welcome(greeting(&proof, Side::Server))).await?;
        Ok((stream, shown(&theirs.host)))
    }
}

/// Connects to an agent, and has it prove that it is one; gives the name of its machine, too.
///
/// # Errors
/// Nobody is there, or one who does not know the secret, or who refuses us.
pub async fn connect(
    address: SocketAddr,
    secret: &[u8],
) -> io::Result<(client::TlsStream<TcpStream>, String)> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let config = unchecked_client().map_err(io::Error::other)?;
    let name = address.ip().into();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    let proof = SecretProof::new(secret, stream.get_ref().1).map_err(io::Error::other)?;
    send(&mut stream, &greeting(&proof, Side::Client)).await?;
    let answer: GreetingAnswer = receive(&mut stream, GREETING_BYTES_MAX).await?;
    let refused = |words| Err(io::Error::new(io::ErrorKind::PermissionDenied, words));
    match answer {
        GreetingAnswer::Refused(words) => refused(shown(&words)),
        GreetingAnswer::Welcome(theirs) if !is_proof(&proof, Side::Server, &theirs) => refused(
            "it does not know the secret: it is not the agent, or somebody is between".into(),
        ),
        GreetingAnswer::Welcome(theirs) => Ok((stream, shown(&theirs.host))),
    }
}

fn greeting(proof: &SecretProof, side: Side) -> Greeting {
    let host = machine::host().chars().take(64).collect();
    Greeting { version: VERSION.to_owned(), proof: BASE64.encode(proof.of(side)), host }
}

fn is_proof(proof: &SecretProof, side: Side, theirs: &Greeting) -> bool {
    BASE64.decode(&theirs.proof).is_ok_and(|bytes| proof.is_of(side, &bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coordinator_of_another_version_is_refused_and_hears_both() {
        let theirs = |version: &str| Greeting {
            version: version.to_owned(),
            proof: String::new(),
            host: String::new(),
        };
        assert_eq!(refusal(&theirs(VERSION), true), None);
        let words = refusal(&theirs("0.0.1"), true).unwrap();
        assert!(words.contains(VERSION) && words.contains("weir 0.0.1"), "{words}");
        assert!(refusal(&theirs("0.0.1"), false).unwrap().contains("--agent-secret-file"));
    }
}
