//! A real ZooKeeper from Maven, as a registry of Dubbo's providers.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use tempfile::TempDir;
use zookeeper_client::{Acls, Client, CreateMode, Error};

use crate::process::Process;
use crate::{clients, places, wait};

/// What a script ends with where the jars cannot be had.
const NOT_TRIED: i32 = 77;
/// How long it takes to say what it does.
const ANSWER_MAX: Duration = Duration::from_millis(500);

/// A running ZooKeeper of one server, with a directory of its own.
pub struct ZooKeeper {
    /// Where ZooKeeper listens for clients.
    pub address: SocketAddr,
    process: Process,
    place: TempDir,
}

impl ZooKeeper {
    /// Starts one; nothing where its jars cannot be had.
    ///
    /// # Panics
    /// It does not start.
    pub fn start() -> Option<Self> {
        let (address, place) = (places::free_address(), places::directory());
        let process = begin(address, &place)?;
        Some(Self { address, process, place })
    }

    /// Kills it; what was acknowledged stays on its disk.
    pub fn stop(&mut self) {
        self.process.kill();
    }

    /// Starts it again where it was.
    ///
    /// # Panics
    /// It does not start.
    pub fn start_again(&mut self) {
        self.process = begin(self.address, &self.place).expect("its jars were there before");
    }

    /// Makes a node, and those that it is below.
    ///
    /// # Panics
    /// It is refused.
    pub fn put(&self, path: &str, data: &str) {
        let mut ends: Vec<_> = path.match_indices('/').skip(1).map(|(at, _)| at).collect();
        ends.push(path.len());
        self.with(async |client| {
            for end in &ends {
                let data = if *end == path.len() { data.as_bytes() } else { b"" };
                let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
                match client.create(&path[..*end], data, &options).await {
                    Ok(_) | Err(Error::NodeExists) => {}
                    Err(error) => panic!("{path}: {error}"),
                }
            }
        });
    }

    /// Registers a provider, or another URL, of an interface.
    pub fn register(&self, category: &str, url: &str) {
        self.put(&node(category, url), "");
    }

    /// Takes it away again.
    ///
    /// # Panics
    /// It is not there.
    pub fn deregister(&self, category: &str, url: &str) {
        self.with(async |client| client.delete(&node(category, url), None).await.expect("a node"));
    }

    /// Has a node let in nobody but who shows a login, which is `user:password`.
    ///
    /// # Panics
    /// It is not there.
    pub fn protect(&self, path: &str, login: &str) {
        self.with(async |client| {
            client.auth("digest", login.as_bytes()).await.expect("a login");
            client.set_acl(path, &Acls::creator_all(), None).await.expect("a node");
        });
    }

    fn with(&self, what: impl AsyncFn(&Client)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let client = Client::connect(&self.address.to_string()).await.expect("ZooKeeper");
            what(&client).await;
        });
    }
}

/// Where Dubbo keeps a URL.
fn node(category: &str, url: &str) -> String {
    let path = url.split("://").nth(1).and_then(|rest| rest.split(['/', '?']).nth(1));
    let encoded = url.bytes().map(|byte| match byte {
        byte if byte.is_ascii_alphanumeric() || b".-_".contains(&byte) => {
            char::from(byte).to_string()
        }
        byte => format!("%{byte:02X}"),
    });
    let encoded = encoded.collect::<String>();
    format!("/dubbo/{}/{category}/{encoded}", path.expect("a path"))
}

fn begin(address: SocketAddr, place: &TempDir) -> Option<Process> {
    let mut script = clients::script("dubbo");
    script.args(["zookeeper", &address.port().to_string()]).arg(place.path());
    let mut process = Process::start("ZooKeeper", &mut script, &place.path().join("log"));
    let mut ended = None;
    wait::until("ZooKeeper, or none", Duration::from_secs(120), || {
        ended = process.ended();
        ended.is_some() || serves(address)
    });
    let Some(status) = ended else { return Some(process) };
    assert_eq!(status.code(), Some(NOT_TRIED), "{}", process.log());
    println!("ZooKeeper: not tried\n{}", process.log());
    None
}

/// Whether it says what it does. Who asks before it serves may never hear of it.
fn serves(address: SocketAddr) -> bool {
    let mut said = String::new();
    let asked = TcpStream::connect(address).and_then(|mut stream| {
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        stream.write_all(b"srvr")?;
        stream.read_to_string(&mut said)
    });
    asked.is_ok() && said.contains("Mode:")
}
