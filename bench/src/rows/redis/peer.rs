//! nutcracker (twemproxy), which has one thread, in front of servers that it places keys on as
//! Weir does.

use std::fmt::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

use rig::places;
use rig::process::Process;
use rig::redis::Redis;
use tempfile::TempDir;

use crate::Outcome;
use crate::rows::turns::Way;

/// A running one.
pub struct Nutcracker {
    process: Process,
    address: SocketAddr,
    _dir: TempDir,
}

impl Nutcracker {
    /// Starts one with its defaults.
    ///
    /// # Errors
    /// When its configuration can't be written.
    pub fn start(servers: &[Redis]) -> Outcome<Self> {
        let (dir, address) = (places::directory(), places::free_address());
        let mut pool = format!(
            "bench:\n  listen: {address}\n  redis: true\n  distribution: ketama\n  hash: fnv1a_64\n\
             \x20 preconnect: true\n  backlog: 4096\n  servers:\n"
        );
        for (number, server) in servers.iter().enumerate() {
            writeln!(pool, "   - {}:1 server-{number}", server.address)?;
        }
        let file = dir.path().join("nutcracker.yml");
        std::fs::write(&file, pool)?;
        let mut command = Command::new(places::need("nutcracker"));
        command.arg("-c").arg(file).args(["-a", "127.0.0.1", "-v", "4"]);
        command.args(["-s", &places::free_address().port().to_string()]);
        let mut process = Process::start("nutcracker", &mut command, &dir.path().join("log"));
        process.wait_ready(|| TcpStream::connect(address).is_ok());
        Ok(Self { process, address, _dir: dir })
    }

    /// Through it.
    pub fn way(&self) -> Way {
        let pid = Some(self.process.id());
        Way { name: "nutcracker", address: self.address, pid, optional: false }
    }
}
