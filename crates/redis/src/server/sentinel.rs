//! A master that Sentinels know by a name: they are asked where it is, and announce that it moves.
//!
//! Sentinels hear of a failover one after the other, and one that was away may know of none. So
//! each answer has the epoch of its failover: one that is older than what was heard before is
//! believed only where most of the Sentinels answer, and none of them knows of a newer one.

mod announced;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use flow::dial::{Address, Target};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::timeout;
use wire::resp::{Value, put_command, value};

use super::{ConnectionProfile, Server, tls};
use crate::settings::{BackendSettings, SentinelSettings};
use crate::status::SentinelQuestion;
pub use announced::Announcements;

/// How often Sentinels are asked where a master is, though none has announced that it moves.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Where a master is, and since which failover.
#[derive(Debug, Clone, PartialEq, Eq)]
struct MasterAt {
    address: Address,
    epoch: u64,
}

/// Those who know where a master is. Clones are the same.
#[derive(Clone)]
pub struct Sentinels {
    /// What they call it.
    master: Arc<str>,
    whereabouts: Arc<str>,
    all: Arc<[Server]>,
    /// What the master's certificate is checked with, where it is reached under TLS.
    ca: Option<PathBuf>,
    /// Where it was when it was asked for last.
    last: Arc<Mutex<Option<MasterAt>>>,
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
                sentinel: None,
                ..of.clone()
            })
        };
        let all = settings.urls.iter().map(sentinel).collect::<Result<Vec<_>, _>>()?;
        let (master, ca) = (settings.master.as_str().into(), of.ca.clone());
        let whereabouts = settings.whereabouts().into();
        Ok(Self { master, whereabouts, all: all.into(), ca, last: Arc::default() })
    }

    /// What the first of them is asked to find the master.
    pub fn question(&self) -> Option<SentinelQuestion> {
        let url = self.all.first()?.url();
        Some(SentinelQuestion { url, master: self.master.as_ref().to_owned() })
    }

    /// Where the master is, for a person.
    pub fn whereabouts(&self) -> &str {
        &self.whereabouts
    }

    /// Where the master is now, to be reached as `like` is.
    pub(super) async fn target(&self, like: &Target) -> Result<Target, String> {
        let found = self.ask(like.connect_timeout).await?;
        *self.last() = Some(found.clone());
        let host = found.address.host().unwrap_or_default();
        let tls = like.tls.as_ref().map(|_| tls(self.ca.as_deref(), host)).transpose();
        let tls = tls.map_err(|error| error.to_string())?;
        Ok(Target { address: found.address, tls, ..like.clone() })
    }

    /// Asks one after the other, so that one that is away does not take all of the time.
    async fn ask(&self, limit: Duration) -> Result<MasterAt, String> {
        let limit = limit / u32::try_from(self.all.len() + 1).unwrap_or(u32::MAX);
        let known = self.last().as_ref().map_or(0, |found| found.epoch);
        let (mut older, mut why) = (Vec::new(), "there is no Sentinel".to_owned());
        for sentinel in self.all.iter() {
            match timeout(limit, self.ask_one(sentinel)).await {
                Ok(Ok(found)) if found.epoch >= known => return Ok(found),
                Ok(Ok(found)) => {
                    why = "it knows of an older failover only".to_owned();
                    older.push(found);
                }
                Ok(Err(words)) => why = words,
                Err(_) => why = format!("no answer within {limit:?}"),
            }
            why = format!("Sentinel {}: {why}", sentinel.name);
        }
        newest_of_most(older, self.all.len()).ok_or(why)
    }

    async fn ask_one(&self, sentinel: &Server) -> Result<MasterAt, String> {
        let opened = sentinel.open_at(&sentinel.target, ConnectionProfile::FIRST, 0).await;
        let mut connection = opened.map_err(|error| error.to_string())?;
        let mut out = Vec::new();
        put_command(&mut out, ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", &self.master].iter());
        put_command(&mut out, ["SENTINEL", "MASTER", &self.master].iter());
        let replies = connection.ask(&out, 2).await.map_err(|error| error.to_string())?;
        let [at, about] = &replies[..] else { return Err("it answers what was not asked".into()) };
        let address = address(at).ok_or_else(|| match at.strip_prefix(b"-") {
            Some(error) => String::from_utf8_lossy(error).trim_end().to_owned(),
            None => format!("it knows no master {:?}", &*self.master),
        })?;
        Ok(MasterAt { address, epoch: epoch(about).unwrap_or(0) })
    }

    /// Where it was when it was asked for last.
    pub(super) fn last_at(&self) -> Option<Address> {
        self.last().as_ref().map(|found| found.address.clone())
    }

    /// Ends once they say that the master is elsewhere than it was when it was asked for last.
    pub(super) async fn moved(&self, limit: Duration) {
        let mut announcements = self.listen();
        loop {
            announcements.next().await;
            let Ok(found) = self.ask(limit).await else { continue };
            if self.last().as_ref().is_none_or(|last| last.address != found.address) {
                return;
            }
        }
    }

    /// Hears what they announce, until it is dropped.
    pub fn listen(&self) -> Announcements {
        Announcements::new(&self.all)
    }

    fn last(&self) -> MutexGuard<'_, Option<MasterAt>> {
        self.last.lock()
    }
}

/// The newest of answers that are all older than what was known, where most have answered: their
/// counts may have begun anew.
fn newest_of_most(older: Vec<MasterAt>, all: usize) -> Option<MasterAt> {
    let are_most = older.len() * 2 > all;
    older.into_iter().max_by_key(|found| found.epoch).filter(|_| are_most)
}

/// Host and port as a Sentinel gives them, each a string.
fn address(reply: &[u8]) -> Option<Address> {
    let (Value::Array(parts), _) = value(reply).ok()? else { return None };
    let [Value::Bulk(host), Value::Bulk(port)] = &parts[..] else { return None };
    let host = std::str::from_utf8(host).ok().filter(|host| !host.is_empty())?;
    let port = std::str::from_utf8(port).ok()?.parse().ok()?;
    Some(Address::Tcp { host: host.to_owned(), port })
}

/// Which failover it tells of: names and values, in turn.
fn epoch(reply: &[u8]) -> Option<u64> {
    let (Value::Array(parts), _) = value(reply).ok()? else { return None };
    let mut pairs = parts.chunks_exact(2);
    pairs.find_map(|pair| match pair {
        [Value::Bulk(b"config-epoch"), Value::Bulk(epoch)] => {
            std::str::from_utf8(epoch).ok()?.parse().ok()
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(port: u16) -> Address {
        Address::Tcp { host: "127.0.0.1".to_owned(), port }
    }

    #[test]
    fn where_a_master_is_is_read() {
        let reply = b"*2\r\n$9\r\n127.0.0.1\r\n$4\r\n6379\r\n";
        assert_eq!(address(reply), Some(at(6379)));
        let none: [&[u8]; 5] = [
            b"*-1\r\n",
            b"",
            b"*2\r\n$0\r\n\r\n$4\r\n6379\r\n",
            b"*2\r\n$1\r\na\r\n$1\r\nb\r\n",
            b"-NO\r\n",
        ];
        none.iter().for_each(|reply| assert_eq!(address(reply), None));
        let about = b"*4\r\n$4\r\nname\r\n$2\r\nit\r\n$12\r\nconfig-epoch\r\n$2\r\n17\r\n";
        assert_eq!(epoch(about), Some(17));
        assert_eq!(epoch(b"-ERR No such master with that name\r\n"), None);
    }

    #[test]
    fn an_older_failover_is_believed_only_where_most_know_of_no_newer_one() {
        let found = |epoch| MasterAt { address: at(u16::try_from(epoch).unwrap()), epoch };
        assert_eq!(newest_of_most(vec![found(3)], 3), None);
        assert_eq!(newest_of_most(vec![], 0), None);
        assert_eq!(newest_of_most(vec![found(3), found(4)], 3), Some(found(4)));
        assert_eq!(newest_of_most(vec![found(0)], 1), Some(found(0)));
    }

    proptest! {
        #[test]
        fn no_answer_makes_it_panic(reply: Vec<u8>) {
            let _ = (address(&reply), epoch(&reply));
        }
    }
}
