//! What a node of a Cluster says of a command that it has not run: Redis Cluster Specification,
//! "Redirection and resharding".

use super::At;
use crate::placement::SLOTS;

/// Why a node has not run a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Redirect {
    /// The slot is with another node from now on.
    Moved {
        /// The slot of the command's keys.
        slot: u16,
        /// The node that has the slot.
        at: At,
    },
    /// The key is with another node already, or is to be made there; the slot is about to follow.
    Ask {
        /// The slot of the command's keys.
        slot: u16,
        /// Who is about to have it.
        at: At,
    },
    /// Some of the keys are on their way to another node.
    TryAgain,
    /// Nobody has the slot, or the node does not see enough others.
    ClusterDown,
}

/// How certain it is that a command which hears of a redirect has not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ran {
    /// It has not: asked once more it goes right.
    Not,
    /// It is `EXEC`, and none of the transaction has.
    Aborted,
    /// A script, or a module, may have said so itself.
    Unknown,
}

impl Ran {
    /// What a client hears in the place of a redirect, which has the address of a server: a client
    /// that follows it would go around Weir. An error without its dash.
    pub fn words(self, is_cluster: bool) -> &'static str {
        match (self, is_cluster) {
            (Self::Not, true) => "TRYAGAIN weir: the slot has moved",
            (Self::Not, false) => {
                "ERR weir: not run: the server is a node of a Cluster, and the key is with another \
                 one: set distribution = \"cluster\""
            }
            (Self::Aborted, _) => "EXECABORT weir: the slot has moved",
            (Self::Unknown, _) => {
                "ERR weir: the slot has moved, or the script said so; whether it ran is unknown"
            }
        }
    }
}

impl Redirect {
    /// Whether an error is one that clients follow to another address, well-formed or not.
    pub fn is_followed(line: &[u8]) -> bool {
        let word = line.split(|byte| byte.is_ascii_whitespace()).next();
        matches!(word, Some(b"-MOVED" | b"-ASK"))
    }

    /// Reads the first line of a reply, its end included; `None`: it says something else.
    pub fn read(line: &[u8]) -> Option<Self> {
        let line = std::str::from_utf8(line.strip_prefix(b"-")?.strip_suffix(b"\r\n")?).ok()?;
        let (word, rest) = line.split_once(' ')?;
        match word {
            "MOVED" => moved(rest).map(|(slot, at)| Self::Moved { slot, at }),
            "ASK" => moved(rest).map(|(slot, at)| Self::Ask { slot, at }),
            "TRYAGAIN" => Some(Self::TryAgain),
            "CLUSTERDOWN" => Some(Self::ClusterDown),
            _ => None,
        }
    }
}

/// `slot host:port`; an IPv6 address has no brackets, an unknown host is left out.
fn moved(text: &str) -> Option<(u16, At)> {
    let (slot, at) = text.split_once(' ')?;
    let slot = slot.parse().ok().filter(|slot| *slot < SLOTS)?;
    let (host, port) = at.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port > 0)?;
    let is_host = |host: &str| !host.contains(char::is_whitespace);
    let host = Some(host).filter(|host| !host.is_empty()).map(str::to_owned);
    if host.as_deref().is_some_and(|host| !is_host(host)) {
        return None;
    }
    Some((slot, At { host, port }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(host: &str, port: u16) -> At {
        At { host: (!host.is_empty()).then(|| host.to_owned()), port }
    }

    #[test]
    fn no_client_hears_an_address() {
        for line in ["-MOVED 1 a:1\r\n", "-ASK 99999 a:1\r\n", "-MOVED\r\n", "-MOVED\t1 a:1"] {
            assert!(Redirect::is_followed(line.as_bytes()), "{line}");
        }
        for line in
            ["-ERR MOVED 1 a:1\r\n", "+MOVED 1 a:1\r\n", "-TRYAGAIN x\r\n", "-ASKING\r\n", ""]
        {
            assert!(!Redirect::is_followed(line.as_bytes()), "{line}");
        }
        for (ran, is_cluster) in [Ran::Not, Ran::Aborted, Ran::Unknown]
            .into_iter()
            .flat_map(|ran| [(ran, true), (ran, false)])
        {
            let line = format!("-{}\r\n", ran.words(is_cluster));
            assert!(!Redirect::is_followed(line.as_bytes()), "{line}");
            // What a client may send again at once is what has not run.
            assert_eq!(line.starts_with("-TRYAGAIN "), ran == Ran::Not && is_cluster);
        }
    }

    #[test]
    fn redirects_are_read_and_nothing_else() {
        let read = |line: &str| Redirect::read(format!("{line}\r\n").as_bytes());
        let moved = |slot, at| Some(Redirect::Moved { slot, at });
        assert_eq!(read("-MOVED 3999 127.0.0.1:6381"), moved(3999, at("127.0.0.1", 6381)));
        assert_eq!(read("-MOVED 0 ::1:6381"), moved(0, at("::1", 6381)));
        assert_eq!(read("-MOVED 16383 :6381"), moved(16383, at("", 6381)));
        let asked = Redirect::Ask { slot: 1, at: at("a.example", 7) };
        assert_eq!(read("-ASK 1 a.example:7"), Some(asked));
        let words = "-TRYAGAIN Multiple keys request during rehashing of slot";
        assert_eq!(read(words), Some(Redirect::TryAgain));
        assert_eq!(read("-CLUSTERDOWN The cluster is down"), Some(Redirect::ClusterDown));
        for other in [
            "-MOVED 16384 a:1",
            "-MOVED 1 a:0",
            "-MOVED 1 a:70000",
            "-MOVED 1 a b:1",
            "-MOVED 1",
            "-MOVED",
            "+MOVED 1 a:1",
            "-ERR MOVED 1 a:1",
            "-LOADING Redis is loading",
            "-\u{0}",
        ] {
            assert_eq!(read(other), None, "{other}");
        }
        assert_eq!(Redirect::read(b"-MOVED 1 a:1"), None, "the line is cut off");
        assert_eq!(Redirect::read(b"-MOVED 1 \xff:1\r\n"), None);
        assert_eq!(Redirect::read(b""), None);
    }
}
