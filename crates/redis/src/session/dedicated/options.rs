//! What a client says with `CLIENT TRACKING`, and whether that can be: in the words of Redis 7.0.

use std::collections::BTreeSet;

use wire::resp::{
    Command, Version, put_array, put_bulk, put_command, put_integer, put_map, put_set,
};

use super::super::dispatch::shortened;

/// Bytes of all prefixes of one client. None of them begins as another, so that none is empty
/// where there are several.
const PREFIX_BYTES_MAX: usize = 64 << 10;

/// Why nobody is told in the place of the client that tracks.
const NO_REDIRECT: &str = "ERR weir: CLIENT TRACKING with REDIRECT is refused: HELLO 3, and the \
                           connection that reads is told of its keys itself";

/// Which keys a client is told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::session) enum Mode {
    /// Those that it reads.
    #[default]
    Reads,
    /// Those that it reads behind `CLIENT CACHING YES`.
    OptIn,
    /// Those that it reads, but behind `CLIENT CACHING NO`.
    OptOut,
    /// Those with its prefixes, whoever reads them.
    Broadcast,
}

/// How a client is told of keys.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::session) struct Options {
    pub(in crate::session) mode: Mode,
    /// It is not told of what it changes itself.
    noloop: bool,
    /// Of [`Mode::Broadcast`]; they stay until tracking ends.
    prefixes: BTreeSet<Vec<u8>>,
}

/// What one `CLIENT TRACKING ON` wants.
#[derive(Debug, PartialEq, Eq, Default)]
pub(in crate::session) struct TrackingRequest {
    is_broadcast: bool,
    opts_in: bool,
    opts_out: bool,
    noloop: bool,
    prefixes: Vec<Vec<u8>>,
}

/// Reads `CLIENT TRACKING`; `None`: nothing is to be told any more.
pub(in crate::session) fn read(command: &Command<'_>) -> Result<Option<TrackingRequest>, String> {
    let is = |at: usize, word: &str| {
        command.get(at).is_some_and(|of| of.eq_ignore_ascii_case(word.as_bytes()))
    };
    let mut wanted = TrackingRequest::default();
    let mut at = 3;
    while at < command.len() {
        let next = command.get(at + 1);
        match next {
            _ if is(at, "BCAST") => wanted.is_broadcast = true,
            _ if is(at, "OPTIN") => wanted.opts_in = true,
            _ if is(at, "OPTOUT") => wanted.opts_out = true,
            _ if is(at, "NOLOOP") => wanted.noloop = true,
            Some(_) if is(at, "REDIRECT") => return Err(NO_REDIRECT.to_owned()),
            Some(prefix) if is(at, "PREFIX") => {
                wanted.prefixes.push(prefix.to_vec());
                at += 1;
            }
            _ => return Err("ERR syntax error".to_owned()),
        }
        at += 1;
    }
    match () {
        () if is(2, "ON") => Ok(Some(wanted)),
        () if is(2, "OFF") => Ok(None),
        () => Err("ERR syntax error".to_owned()),
    }
}

impl TrackingRequest {
    /// How the client is told from now on, with how it was before.
    pub(in crate::session) fn after(&self, before: Option<&Options>) -> Result<Options, String> {
        self.check(before).map_err(str::to_owned)?;
        let mut prefixes = before.map(|of| of.prefixes.clone()).unwrap_or_default();
        if self.is_broadcast {
            self.check_prefixes(&prefixes)?;
            prefixes.extend(self.prefixes.iter().cloned());
            if self.prefixes.is_empty() {
                prefixes.insert(Vec::new());
            }
        }
        if prefixes.iter().map(Vec::len).sum::<usize>() > PREFIX_BYTES_MAX {
            return Err("ERR weir: the prefixes are too long, all together".to_owned());
        }
        Ok(Options { mode: self.mode(), noloop: self.noloop, prefixes })
    }

    fn mode(&self) -> Mode {
        match () {
            () if self.is_broadcast => Mode::Broadcast,
            () if self.opts_in => Mode::OptIn,
            () if self.opts_out => Mode::OptOut,
            () => Mode::Reads,
        }
    }

    /// Whether its words go together, and with what holds.
    fn check(&self, before: Option<&Options>) -> Result<(), &'static str> {
        let was = before.map(|of| of.mode);
        let was_broadcast = was.map(|was| was == Mode::Broadcast);
        match () {
            () if !self.prefixes.is_empty() && !self.is_broadcast => {
                Err("ERR PREFIX option requires BCAST mode to be enabled")
            }
            () if was_broadcast.is_some_and(|was| was != self.is_broadcast) => {
                Err("ERR You can't switch BCAST mode on/off before disabling tracking for this \
                     client, and then re-enabling it with a different mode.")
            }
            () if self.is_broadcast && (self.opts_in || self.opts_out) => {
                Err("ERR OPTIN and OPTOUT are not compatible with BCAST")
            }
            () if self.opts_in && self.opts_out => {
                Err("ERR You can't specify both OPTIN mode and OPTOUT mode")
            }
            () if self.opts_in && was == Some(Mode::OptOut)
                || self.opts_out && was == Some(Mode::OptIn) =>
            {
                Err("ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this \
                     client, and then re-enabling it with a different mode.")
            }
            () => Ok(()),
        }
    }

    fn check_prefixes(&self, before: &BTreeSet<Vec<u8>>) -> Result<(), String> {
        let overlap = |one: &[u8], other: &[u8]| one.starts_with(other) || other.starts_with(one);
        for (at, prefix) in self.prefixes.iter().enumerate() {
            let later = self.prefixes.iter().skip(at + 1).map(|of| ("another provided", of));
            let mut others = before.iter().map(|of| ("an existing", of)).chain(later);
            if let Some((which, other)) = others.find(|(_, of)| overlap(prefix, of)) {
                let text = |of: &[u8]| shortened(&String::from_utf8_lossy(of));
                return Err(format!(
                    "ERR Prefix '{}' overlaps with {which} prefix '{}'. Prefixes for a single \
                     client must not overlap.",
                    text(prefix),
                    text(other)
                ));
            }
        }
        Ok(())
    }

    /// The same for a server.
    pub(in crate::session) fn command(&self) -> Vec<u8> {
        let mut words: Vec<&[u8]> = vec![b"CLIENT", b"TRACKING", b"ON"];
        let all: [(bool, &[u8]); 4] = [
            (self.is_broadcast, b"BCAST"),
            (self.opts_in, b"OPTIN"),
            (self.opts_out, b"OPTOUT"),
            (self.noloop, b"NOLOOP"),
        ];
        words.extend(all.iter().filter(|(is, _)| *is).map(|(_, word)| *word));
        words.extend(self.prefixes.iter().flat_map(|prefix| [&b"PREFIX"[..], prefix]));
        let mut out = Vec::new();
        put_command(&mut out, words.iter());
        out
    }
}

impl Options {
    /// Whether `CLIENT CACHING` may say this now.
    pub(in crate::session) fn check_caching(&self, word: &[u8]) -> Result<(), String> {
        let words = match () {
            () if word.eq_ignore_ascii_case(b"YES") => match self.mode {
                Mode::OptIn => return Ok(()),
                _ => "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.",
            },
            () if word.eq_ignore_ascii_case(b"NO") => match self.mode {
                Mode::OptOut => return Ok(()),
                _ => "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.",
            },
            () => "ERR syntax error",
        };
        Err(words.to_owned())
    }

    /// `CLIENT CACHING` for a server; [`check_caching`](Self::check_caching) allows no other.
    pub(in crate::session) fn caching(&self) -> Vec<u8> {
        let word = if self.mode == Mode::OptIn { "YES" } else { "NO" };
        let mut out = Vec::new();
        put_command(&mut out, ["CLIENT", "CACHING", word].iter());
        out
    }

    /// The flags of `CLIENT TRACKINGINFO`; `is_caching`: `CLIENT CACHING` holds for what is next.
    fn flags(&self, is_caching: bool) -> Vec<&'static str> {
        let of_mode: &[&str] = match (self.mode, is_caching) {
            (Mode::Reads, _) => &[],
            (Mode::Broadcast, _) => &["bcast"],
            (Mode::OptIn, false) => &["optin"],
            (Mode::OptIn, true) => &["optin", "caching-yes"],
            (Mode::OptOut, false) => &["optout"],
            (Mode::OptOut, true) => &["optout", "caching-no"],
        };
        let noloop = self.noloop.then_some("noloop");
        ["on"].into_iter().chain(of_mode.iter().copied()).chain(noloop).collect()
    }

    /// `CLIENT TRACKINGINFO`, with [`flags`](Self::flags).
    pub(in crate::session) fn put_info(
        &self,
        is_caching: bool,
        version: Version,
        out: &mut Vec<u8>,
    ) {
        put_info(&self.flags(is_caching), 0, &self.prefixes, version, out);
    }
}

/// `CLIENT TRACKINGINFO` of a client that is told of nothing.
pub(in crate::session) fn put_off(version: Version, out: &mut Vec<u8>) {
    put_info(&["off"], -1, &BTreeSet::new(), version, out);
}

fn put_info(
    flags: &[&str],
    redirect: i64,
    prefixes: &BTreeSet<Vec<u8>>,
    version: Version,
    out: &mut Vec<u8>,
) {
    put_map(out, 3, version);
    put_bulk(out, b"flags");
    put_set(out, flags.len(), version);
    flags.iter().for_each(|flag| put_bulk(out, flag.as_bytes()));
    put_bulk(out, b"redirect");
    put_integer(out, redirect);
    put_bulk(out, b"prefixes");
    put_array(out, prefixes.len());
    prefixes.iter().for_each(|prefix| put_bulk(out, prefix));
}

#[cfg(test)]
mod tests {
    use wire::resp::{CommandFrame, Commands, Limits};

    use super::*;

    fn said(line: &str) -> Result<Option<TrackingRequest>, String> {
        let (mut commands, bytes) = (Commands::default(), format!("CLIENT TRACKING {line}\r\n"));
        let cut = commands.cut(bytes.as_bytes(), &Limits::default()).unwrap();
        assert!(matches!(cut, CommandFrame::Command(_)));
        read(&commands.command(bytes.as_bytes()))
    }

    /// What comes of these, one after the other.
    fn after(lines: &[&str]) -> Result<Options, String> {
        let first = Ok(None);
        let last = lines.iter().fold(first, |before: Result<Option<Options>, String>, line| {
            said(line)?.unwrap().after(before?.as_ref()).map(Some)
        });
        last.map(Option::unwrap_or_default)
    }

    #[test]
    fn what_does_not_go_together_is_refused_in_the_words_of_a_server() {
        for (lines, words) in [
            (&["ON PREFIX p:"][..], "ERR PREFIX option requires BCAST"),
            (&["ON BCAST OPTIN"], "ERR OPTIN and OPTOUT are not compatible with BCAST"),
            (&["ON OPTIN OPTOUT"], "ERR You can't specify both OPTIN mode and OPTOUT mode"),
            (&["ON", "ON BCAST"], "ERR You can't switch BCAST mode on/off"),
            (&["ON BCAST", "ON"], "ERR You can't switch BCAST mode on/off"),
            (&["ON OPTIN", "ON OPTOUT"], "ERR You can't switch OPTIN/OPTOUT mode"),
            (&["ON OPTOUT", "ON OPTIN"], "ERR You can't switch OPTIN/OPTOUT mode"),
            (&["ON BCAST PREFIX ab PREFIX a"], "ERR Prefix 'ab' overlaps with another provided"),
            (&["ON BCAST PREFIX x PREFIX a PREFIX ab"], "ERR Prefix 'a' overlaps with another"),
            (&["ON BCAST PREFIX a", "ON BCAST PREFIX ab"], "ERR Prefix 'ab' overlaps with an ex"),
            (&["ON BCAST", "ON BCAST PREFIX a"], "ERR Prefix 'a' overlaps with an existing pre"),
        ] {
            let heard = after(lines).unwrap_err();
            assert!(heard.starts_with(words), "{lines:?}: {heard}");
        }
        for line in ["ON PREFIX", "ON REDIRECT", "ON NONSENSE", "MAYBE", "ON NOLOOP x"] {
            assert_eq!(said(line), Err("ERR syntax error".to_owned()), "{line}");
        }
        assert_eq!(said("off NOLOOP"), Ok(None));
        assert_eq!(said("ON REDIRECT 7"), Err(NO_REDIRECT.to_owned()));
    }

    #[test]
    fn prefixes_are_kept_and_all_else_is_as_it_was_said_last() {
        let prefixes = |of: &Options| of.prefixes.iter().cloned().collect::<Vec<_>>();
        let of = after(&["ON BCAST NOLOOP PREFIX q PREFIX p", "ON BCAST PREFIX r"]).unwrap();
        assert_eq!(prefixes(&of), [b"p", b"q", b"r"]);
        assert_eq!(of.flags(false), ["on", "bcast"]);
        assert_eq!(prefixes(&after(&["on bcast", "on bcast"]).unwrap()), [b""]);
        assert_eq!(after(&["ON OPTIN", "ON NOLOOP"]).unwrap().flags(true), ["on", "noloop"]);
        let long = ["x", "y"].map(|of| format!("ON BCAST PREFIX {}", of.repeat(40_000)));
        assert!(after(&[&long[0]]).is_ok());
        let too_long = after(&[&long[0], &long[1]]).unwrap_err();
        assert!(too_long.starts_with("ERR weir: the prefixes"), "{too_long}");
        let wanted = said("ON BCAST PREFIX q PREFIX p").unwrap().unwrap();
        let command = wanted.command();
        let words: String = String::from_utf8(command).unwrap().replace("\r\n", " ");
        let wanted = "*8 $6 CLIENT $8 TRACKING $2 ON $5 BCAST $6 PREFIX $1 q $6 PREFIX $1 p ";
        assert_eq!(words, wanted);
    }

    #[test]
    fn caching_is_said_where_it_means_something() {
        let check = |line: &str, word: &[u8]| after(&[line]).unwrap().check_caching(word);
        assert_eq!(check("ON OPTIN", b"yes"), Ok(()));
        assert_eq!(check("ON OPTOUT", b"NO"), Ok(()));
        let only = |word: &str| format!("ERR CLIENT CACHING {word} is only valid");
        assert!(check("ON OPTOUT", b"YES").unwrap_err().starts_with(&only("YES")));
        assert!(check("ON", b"NO").unwrap_err().starts_with(&only("NO")));
        assert_eq!(check("ON OPTIN", b"MAYBE"), Err("ERR syntax error".to_owned()));
    }
}
