//! A data set that a server sends once, on a connection of its own, beside the stream.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;
use wire::resp::put_command;

use super::joins::{Joins, ReplicaConnection};
use super::lines::Id;
use super::link::{LinkError, READ_BYTES, line};
use super::rdb::Framing;
use super::stream::decimal;
use crate::info;
use crate::server::{Connection, Server};

/// A server that sends its data set.
pub struct Source {
    connection: Connection,
    /// Goes with the connection.
    _joined: Option<ReplicaConnection>,
    rest: Vec<u8>,
    framing: Option<Framing>,
    has_ended: bool,
    patience: Duration,
    base_max: u64,
    /// Whose history it is.
    pub id: Id,
    /// The stream's offset of the data set.
    pub offset: u64,
}

/// Waits for a server no longer than it may be silent.
async fn within<T, E>(
    patience: Duration,
    done: impl Future<Output = Result<T, E>>,
) -> Result<T, LinkError>
where
    LinkError: From<E>,
{
    Ok(timeout(patience, done).await.map_err(|_| LinkError::Silent(patience))??)
}

impl Source {
    /// Asks a server for its data set. One that has to be a replica of a history is asked for that
    /// first, since what it is asked for then may be a fork of it. The master itself is asked by a
    /// connection that is one of `joins`.
    ///
    /// # Errors
    /// It can't be reached, it is no such replica, or it refuses.
    pub async fn join(
        server: &Server,
        replica_of: Option<Id>,
        joins: Option<&Joins>,
        patience: Duration,
        base_max: u64,
    ) -> Result<Self, LinkError> {
        let mut connection = within(patience, server.dial()).await?;
        let mut out = Vec::new();
        put_command(&mut out, ["REPLCONF", "capa", "eof", "capa", "psync2"].iter());
        put_command(&mut out, ["INFO", "replication"].iter());
        let replies = within(patience, connection.ask(&out, 2)).await?;
        if let (Some(id), Some(info)) = (replica_of, replies.last()) {
            is_replica(info, id).map_err(LinkError::Refused)?;
        }
        out.clear();
        put_command(&mut out, ["PSYNC", "?", "-1"].iter());
        let joined = joins.map(Joins::one);
        within(patience, connection.write_all(&out)).await?;
        within(patience, connection.flush()).await?;
        let mut rest = Vec::with_capacity(READ_BYTES);
        let head = loop {
            if let Some(head) = line(&mut rest)? {
                break head;
            }
            if within(patience, connection.read_buf(&mut rest)).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
        };
        let words: Vec<&[u8]> = head.split(|byte| *byte == b' ').collect();
        let place = match words.as_slice() {
            [b"+FULLRESYNC", id, offset] => Id::read(id).zip(decimal(offset)),
            _ => None,
        };
        let refused = || LinkError::Refused(String::from_utf8_lossy(&head).into_owned());
        let (id, offset) = place.ok_or_else(refused)?;
        Ok(Self {
            connection,
            _joined: joined,
            rest,
            framing: None,
            has_ended: false,
            patience,
            base_max,
            id,
            offset,
        })
    }

    /// The next bytes of the data set; `None` once it is whole.
    ///
    /// # Errors
    /// The connection broke, or what came is not a data set.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, LinkError> {
        loop {
            if self.has_ended {
                return Ok(None);
            }
            match &mut self.framing {
                _ if self.rest.is_empty() => {}
                Some(framing) => {
                    let mut bytes = Vec::with_capacity(self.rest.len());
                    self.has_ended = framing.take(&self.rest, &mut bytes)?.is_some();
                    self.rest.clear();
                    return Ok(Some(bytes));
                }
                None => {
                    if let Some(line) = line(&mut self.rest)? {
                        self.framing = Some(Framing::read(&line, self.base_max)?);
                        continue;
                    }
                }
            }
            self.rest.reserve(READ_BYTES);
            if within(self.patience, self.connection.read_buf(&mut self.rest)).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
        }
    }
}

/// Whether `INFO replication` is of a replica of this history that is connected to its master.
fn is_replica(reply: &[u8], of: Id) -> Result<(), String> {
    if let Some(error) = reply.strip_prefix(b"-") {
        return Err(String::from_utf8_lossy(error).trim_end().to_owned());
    }
    let is = |field, value: &str| info::field(reply, field) == Some(value);
    match () {
        () if !is("role", "slave") => Err("it is not a replica".to_owned()),
        () if !is("master_link_status", "up") => Err("its link to its master is down".to_owned()),
        () if !is("master_replid", &of.to_string()) => {
            Err("it is a replica of another history".to_owned())
        }
        () => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Id, is_replica};

    #[test]
    fn only_a_replica_of_the_same_history_that_is_connected_will_do() {
        let id = Id::read(&[b'a'; 40]).unwrap();
        let info = |role: &str, link: &str, id: &str| {
            let info =
                format!("role:{role}\r\nmaster_link_status:{link}\r\nmaster_replid:{id}\r\n");
            is_replica(info.as_bytes(), Id::read(&[b'a'; 40]).unwrap())
        };
        let same = id.to_string();
        assert_eq!(info("slave", "up", &same), Ok(()));
        assert!(info("master", "up", &same).is_err());
        assert!(info("slave", "down", &same).is_err());
        assert!(info("slave", "up", &"b".repeat(40)).is_err());
        assert_eq!(is_replica(b"-NOPERM no\r\n", id), Err("NOPERM no".to_owned()));
    }
}
