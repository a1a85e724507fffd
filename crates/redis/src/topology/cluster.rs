//! Which node of a Cluster has which slots, as one of its nodes sees it.
//!
//! `CLUSTER SLOTS` is understood by every version of Redis and Valkey; the first node of a range is
//! its primary, and replicas that are away are left out. Nodes hear of each other's changes by and
//! by: what one says is as old as the epoch of the Cluster that it knows of.

use wire::resp::{Value, put_command, value};

use super::At;
use crate::placement::SLOTS;

/// The longest answer: each slot a range of its own, with a few nodes each.
pub const ANSWER_BYTES_MAX: usize = 16 << 20;
/// Nodes of one range that are looked at.
const NODES_MAX: usize = 64;

/// What a node says of its Cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Shape {
    /// The newest epoch that it knows of.
    pub epoch: u64,
    /// Who has which slots.
    pub ranges: Vec<Range>,
}

/// Slots in a row that are with the same nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    /// The first slot of the range.
    pub first: u16,
    /// The last slot, which is in the range.
    pub last: u16,
    /// The node that takes writes.
    pub primary: At,
    /// The nodes that follow the primary.
    pub replicas: Vec<At>,
    /// The ids of the primary and of its replicas, as far as they are said.
    pub ids: Vec<String>,
}

/// What a node is asked.
pub fn question() -> Vec<u8> {
    let mut out = Vec::new();
    put_command(&mut out, ["CLUSTER", "INFO"].iter());
    put_command(&mut out, ["CLUSTER", "SLOTS"].iter());
    out
}

/// Reads what it answers.
///
/// # Errors
/// It is not a node of a Cluster, or knows of no slots.
pub fn answer(replies: &[Vec<u8>]) -> Result<Shape, String> {
    match replies {
        [info, slots] => read(info, slots),
        _ => Err("it answers what was not asked".to_owned()),
    }
}

fn read(info: &[u8], slots: &[u8]) -> Result<Shape, String> {
    let unexpected = || "its answer to CLUSTER SLOTS is none".to_owned();
    let (slots, _) = value(slots).map_err(|_| unexpected())?;
    let entries = match slots {
        Value::Array(entries) => entries,
        Value::Error(words) => return Err(String::from_utf8_lossy(words).into_owned()),
        _ => return Err(unexpected()),
    };
    if entries.len() > usize::from(SLOTS) {
        return Err(unexpected());
    }
    let ranges: Option<Vec<Option<Range>>> = entries.iter().map(range).collect();
    let ranges: Vec<Range> = ranges.ok_or_else(unexpected)?.into_iter().flatten().collect();
    if ranges.is_empty() {
        return Err("it knows of no slots".to_owned());
    }
    let epoch = match value(info) {
        Ok((Value::Bulk(text) | Value::Verbatim(text), _)) => epoch(text),
        _ => None,
    };
    Ok(Shape { epoch: epoch.unwrap_or(0), ranges })
}

fn epoch(info: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(info).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("cluster_current_epoch:"))?;
    line.trim().parse().ok()
}

/// One entry: first slot, last slot, the primary, its replicas. `None` where it is none; nothing
/// where nobody knows how the primary is reached.
fn range(entry: &Value<'_>) -> Option<Option<Range>> {
    let Value::Array(entry) = entry else { return None };
    let [Value::Integer(first), Value::Integer(last), nodes @ ..] = &entry[..] else {
        return None;
    };
    let slot = |of: &i64| u16::try_from(*of).ok().filter(|slot| *slot < SLOTS);
    let (first, last) = (slot(first)?, slot(last)?);
    let mut nodes = nodes.iter().take(NODES_MAX);
    let ids = nodes.clone().filter_map(id).collect();
    let Some(primary) = node(nodes.next()?)? else { return Some(None) };
    let replicas: Option<Vec<Option<At>>> = nodes.map(node).collect();
    let replicas = replicas?.into_iter().flatten().collect();
    (first <= last).then_some(Some(Range { first, last, primary, replicas, ids }))
}

/// A node's id, which lies behind its host and its port.
fn id(of: &Value<'_>) -> Option<String> {
    let Value::Array(fields) = of else { return None };
    let Some(Value::Bulk(id)) = fields.get(2) else { return None };
    let is_one = !id.is_empty() && id.iter().all(u8::is_ascii_alphanumeric);
    is_one.then(|| String::from_utf8_lossy(id).into_owned())
}

/// Host, port, and more that is not looked at. A host that is empty or null is that of the node
/// which says so; `?` is one that nobody knows.
fn node(of: &Value<'_>) -> Option<Option<At>> {
    let Value::Array(fields) = of else { return None };
    let [host, Value::Integer(port), ..] = &fields[..] else { return None };
    let port = u16::try_from(*port).ok()?;
    let host = match host {
        Value::Null | Value::Bulk(b"") => None,
        Value::Bulk(b"?") => return Some(None),
        Value::Bulk(host) => Some(std::str::from_utf8(host).ok()?.to_owned()),
        _ => return None,
    };
    Some((port > 0).then_some(At { host, port }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &[u8] = b"$52\r\ncluster_state:ok\r\ncluster_current_epoch:7\r\nother:1\r\n\r\n";

    fn at(host: &str, port: u16) -> At {
        At { host: Some(host.to_owned()), port }
    }

    #[test]
    fn ranges_are_read_with_their_primary_and_its_replicas() {
        let slots =
            b"*3\r\n*4\r\n:0\r\n:5460\r\n*4\r\n$9\r\n127.0.0.1\r\n:7000\r\n$1\r\na\r\n*0\r\n\
            *3\r\n$1\r\nb\r\n:7003\r\n$1\r\nd\r\n*3\r\n:5461\r\n:5461\r\n*3\r\n$-1\r\n:7001\r\n\
            $1\r\nb\r\n*3\r\n:6000\r\n:7000\r\n*2\r\n$1\r\n?\r\n:7001\r\n";
        let shape = read(INFO, slots).unwrap();
        assert_eq!(shape.epoch, 7);
        let first = Range {
            first: 0,
            last: 5460,
            primary: at("127.0.0.1", 7000),
            replicas: vec![at("b", 7003)],
            ids: vec!["a".to_owned(), "d".to_owned()],
        };
        let own = At { host: None, port: 7001 };
        let second = Range {
            first: 5461,
            last: 5461,
            primary: own,
            replicas: Vec::new(),
            ids: vec!["b".to_owned()],
        };
        assert_eq!(shape.ranges, [first, second]);
    }

    #[test]
    fn what_is_no_clusters_shape_is_refused() {
        for slots in [
            "*0\r\n",
            "-ERR This instance has cluster support disabled\r\n",
            "*1\r\n:1\r\n",
            "*1\r\n*2\r\n:0\r\n:1\r\n",
            "*1\r\n*3\r\n:2\r\n:1\r\n*2\r\n$1\r\na\r\n:1\r\n",
            "*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$1\r\na\r\n:1\r\n",
            "*1\r\n*3\r\n:-1\r\n:1\r\n*2\r\n$1\r\na\r\n:1\r\n",
            "*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$1\r\na\r\n:70000\r\n",
            "+OK\r\n",
            "",
        ] {
            assert!(read(INFO, slots.as_bytes()).is_err(), "{slots:?}");
        }
    }
}
