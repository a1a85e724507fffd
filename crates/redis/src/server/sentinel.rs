//! A master that Sentinels know by a name: at each connection they are asked where it is.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use flow::dial::{Address, Target};
use tokio::time::{sleep, timeout};
use wire::resp::{Version, put_command};

use super::{Place, Server, tls};
use crate::settings::{BackendSettings, SentinelSettings};

/// How often Sentinels are asked whether a master that is connected has moved.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Those who know where a master is. Clones are the same.
#[derive(Clone)]
pub struct Sentinels {
    /// What they call it.
    master: Arc<str>,
    all: Arc<[Server]>,
    /// What the master's certificate is checked with, where it is reached under TLS.
    ca: Option<PathBuf>,
    /// Where it was when it was connected to last.
    last: Arc<Mutex<Option<Address>>>,
}

impl fmt::Debug for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<&str> = self.all.iter().map(|of| of.name.as_ref()).collect();
        f.debug_struct("Sentinels").field("master", &self.master).field("all", &all).finish()
    }
}

impl Sentinels {
    /// Reads the files that the settings name. `of` is how the master is logged in to.
    pub(super) fn new(of: &BackendSettings, settings: &SentinelSettings) -> Result<Self, String> {
        let sentinel = |url: &String| {
            Server::new(&BackendSettings {
                name: url.clone(),
                url: url.clone(),
                user: settings.user.clone(),
                password: settings.password.clone(),
                password_file: settings.password_file.clone(),
                ..of.clone()
            })
        };
        let all = settings.urls.iter().map(sentinel).collect::<Result<Vec<_>, _>>()?;
        let (master, ca) = (settings.master.as_str().into(), of.ca.clone());
        Ok(Self { master, all: all.into(), ca, last: Arc::default() })
    }

    /// Where the master is now, to be reached as `like` is.
    pub(super) async fn target(&self, like: &Target) -> Result<Target, String> {
        let (host, port) = self.ask(like.connect_timeout).await?;
        let tls = like.tls.as_ref().map(|_| tls(self.ca.as_deref(), &host)).transpose();
        let address = Address::Tcp { host, port };
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(address.clone());
        Ok(Target { address, tls: tls.map_err(|error| error.to_string())?, ..like.clone() })
    }

    /// Asks one after the other, so that one that is away does not take all of the time.
    async fn ask(&self, limit: Duration) -> Result<(String, u16), String> {
        let limit = limit / u32::try_from(self.all.len() + 1).unwrap_or(u32::MAX);
        let mut why = "there is no Sentinel".to_owned();
        for sentinel in self.all.iter() {
            match timeout(limit, self.ask_one(sentinel)).await {
                Ok(Ok(found)) => return Ok(found),
                Ok(Err(words)) => why = words,
                Err(_) => why = format!("no answer within {limit:?}"),
            }
            why = format!("Sentinel {}: {why}", sentinel.name);
        }
        Err(why)
    }

    async fn ask_one(&self, sentinel: &Server) -> Result<(String, u16), String> {
        let place = Place { server: 0, database: 0, version: Version::Two };
        let opened = sentinel.open_at(&sentinel.target, place, 0).await;
        let mut connection = opened.map_err(|error| error.to_string())?;
        let mut out = Vec::new();
        put_command(&mut out, ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", &self.master].iter());
        let replies = connection.ask(&out, 1).await.map_err(|error| error.to_string())?;
        let reply = replies.first().map(Vec::as_slice).unwrap_or_default();
        address(reply).ok_or_else(|| match reply.strip_prefix(b"-") {
            Some(error) => String::from_utf8_lossy(error).trim_end().to_owned(),
            None => format!("it knows no master {:?}", &*self.master),
        })
    }

    /// Ends once they say that the master is elsewhere than it was connected to last.
    pub(super) async fn moved(&self, limit: Duration) {
        loop {
            sleep(LOOK_EVERY).await;
            let Ok((host, port)) = self.ask(limit).await else { continue };
            let now = Some(Address::Tcp { host, port });
            if *self.last.lock().unwrap_or_else(PoisonError::into_inner) != now {
                return;
            }
        }
    }
}

/// Host and port as a Sentinel gives them, each a string.
fn address(reply: &[u8]) -> Option<(String, u16)> {
    let text = std::str::from_utf8(reply).ok()?;
    let mut lines = text.strip_prefix("*2\r\n")?.split("\r\n");
    let host = lines.nth(1).filter(|host| !host.is_empty())?;
    Some((host.to_owned(), lines.nth(1)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::address;

    #[test]
    fn where_a_master_is_is_read() {
        let reply = b"*2\r\n$9\r\n127.0.0.1\r\n$4\r\n6379\r\n";
        assert_eq!(address(reply), Some(("127.0.0.1".to_owned(), 6379)));
        let none: [&[u8]; 5] = [
            b"*-1\r\n",
            b"",
            b"*2\r\n$0\r\n\r\n$4\r\n6379\r\n",
            b"*2\r\n$1\r\na\r\n$1\r\nb\r\n",
            b"-NO\r\n",
        ];
        none.iter().for_each(|reply| assert_eq!(address(reply), None));
    }

    proptest! {
        #[test]
        fn no_answer_makes_it_panic(reply: Vec<u8>) {
            let _ = address(&reply);
        }
    }
}
