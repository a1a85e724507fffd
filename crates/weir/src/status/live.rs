//! `weir status --watch`: the operator's page on a terminal, from the same stream.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write, stdout};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use rustix::termios::tcgetwinsize;
use serde::Deserialize;
use watch::words::{harmless, seconds};

use super::ask::Target;
use super::{clock, rates};
use crate::diagnosis::event::{Event, Level};
use crate::diagnosis::findings::Finding;
use crate::diagnosis::frame::Frame;
use crate::diagnosis::status::Status;
use crate::exit::Failure;

/// Events that are shown.
const EVENTS_SHOWN: usize = 8;
/// The longest frame, and the longest history, that are read.
const FRAME_BYTES_MAX: usize = 16 << 20;
/// A stream that is silent for so long has broken.
const SILENCE: Duration = Duration::from_secs(5);
/// How long it waits until it asks again.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Deserialize)]
struct History {
    events: Vec<Event>,
}

/// Shows each second until it is interrupted.
///
/// # Errors
/// Weir can't be asked the first time; standard output is gone.
pub async fn follow(target: &Target, out: &mut dyn Write) -> Result<(), Failure> {
    let mut screen = Screen::default();
    let mut stream = target.get("/live").await?;
    loop {
        screen.catch_up(target).await;
        let why = screen.show(stream.into_body(), out).await?;
        stream = loop {
            let words = format!("NO NEWS from {}: {why}; it is asked again", target.name());
            screen.put(&words, out)?;
            tokio::time::sleep(PAUSE).await;
            if let Ok(stream) = target.get("/live").await {
                break stream;
            }
        };
    }
}

/// What stands on the terminal.
#[derive(Default)]
struct Screen {
    /// The newest, by their numbers.
    events: BTreeMap<u64, Event>,
    /// What was shown last.
    shown: String,
}

impl Screen {
    /// Asks for the events that came before; without them it is less to look at.
    async fn catch_up(&mut self, target: &Target) {
        let Ok(answer) = target.get("/history").await else { return };
        let read = Limited::new(answer.into_body(), FRAME_BYTES_MAX).collect().await;
        let Ok(read) = read.map(http_body_util::Collected::to_bytes) else { return };
        if let Ok(history) = serde_json::from_slice::<History>(&read) {
            self.take(history.events);
        }
    }

    fn take(&mut self, events: Vec<Event>) {
        self.events.extend(events.into_iter().map(|event| (event.number, event)));
        while self.events.len() > EVENTS_SHOWN {
            self.events.pop_first();
        }
    }

    /// Shows frames as they come; gives why there are no more.
    async fn show(&mut self, mut body: Incoming, out: &mut dyn Write) -> Result<String, Failure> {
        let mut unread = BytesMut::new();
        loop {
            let more = match tokio::time::timeout(SILENCE, body.frame()).await {
                Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
                Ok(Some(Err(error))) => return Ok(error.to_string()),
                Ok(None) => return Ok("the stream has ended".to_owned()),
                Err(_) => return Ok("the stream is silent".to_owned()),
            };
            unread.extend_from_slice(&more);
            if unread.len() > FRAME_BYTES_MAX {
                return Ok("the stream is not Weir's".to_owned());
            }
            while let Some(event) = next(&mut unread) {
                let Some(frame) = read(&event) else { continue };
                self.take(frame.events.clone());
                let text = self.text(&frame);
                self.put(&text, out)?;
                self.shown = text;
            }
        }
    }

    /// One second in words.
    fn text(&self, frame: &Frame) -> String {
        let mut text = String::new();
        for finding in &frame.findings {
            let Finding { level, text: words, remedy, .. } = finding;
            let word = if *level == Level::Bad { "BAD " } else { "LOOK" };
            // Writing to a string can not fail.
            let _ = writeln!(text, "{word} {}", harmless(words));
            if !remedy.is_empty() {
                let _ = writeln!(text, "     type: {}", harmless(remedy));
            }
        }
        if frame.findings.is_empty() {
            text.push_str("WELL Nothing is wrong.\n");
        }
        match serde_json::from_value::<Status>(frame.status.clone()) {
            Ok(status) => {
                let _ = write!(text, "\n{}{status}", rates::text(&frame.series));
            }
            Err(error) => {
                let _ = writeln!(text, "the status can't be read: {error}");
            }
        }
        for (backend, left) in &frame.caught_up {
            let _ = writeln!(text, "{backend} has caught up in {}", seconds(*left));
        }
        if !self.events.is_empty() {
            text.push_str("\nwhat happened, newest first\n");
        }
        for event in self.events.values().rev() {
            let _ =
                writeln!(text, "  {}  {}", clock::local(event.at), harmless(&event.change.text));
        }
        text
    }

    /// Shows a text: on a terminal in place of the former one, cut to what fits.
    fn put(&self, text: &str, out: &mut dyn Write) -> Result<(), Failure> {
        let size = stdout().is_terminal().then(|| tcgetwinsize(stdout()).ok()).flatten();
        let Some(size) = size else {
            writeln!(out, "{text}")?;
            out.flush()?;
            return Ok(());
        };
        let (rows, columns) = (usize::from(size.ws_row).max(5), usize::from(size.ws_col).max(20));
        // What was shown last stays below a word that it is not of now.
        let below = if text.starts_with("NO NEWS") { self.shown.as_str() } else { "" };
        let mut shown = String::from("\x1b[H\x1b[2J");
        for line in text.lines().chain(below.lines()).take(rows - 1) {
            shown.extend(line.chars().take(columns));
            shown.push_str("\r\n");
        }
        out.write_all(shown.as_bytes())?;
        out.flush()?;
        Ok(())
    }
}

/// The next event of the stream, up to its empty line.
fn next(unread: &mut BytesMut) -> Option<Bytes> {
    let end = unread.windows(2).position(|two| two == b"\n\n")?;
    Some(unread.split_to(end + 2).freeze())
}

fn read(event: &[u8]) -> Option<Frame> {
    serde_json::from_slice(event.strip_prefix(b"data: ")?).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::diagnosis::event::Change;

    #[test]
    fn a_second_is_told_worst_first_with_what_happened() {
        let finding = json!({ "level": "bad", "text": "b is\u{1b} away", "remedy": "curl b" });
        let status = json!({
            "process": { "version": "1", "pid": 7, "uptime_seconds": 5.0, "workers": 1 },
            "ready": { "yes": true, "reason": null },
        });
        let frame: Frame = serde_json::from_value(json!({
            "number": 1, "at": 1.0, "status": status, "series": {}, "findings": [finding],
            "last_event": 20, "events": [],
        }))
        .unwrap();
        let mut screen = Screen::default();
        let change = |n: u64| Change::new(Level::Warn, "b", format!("event {n}"));
        let event = |n: u64| Event { number: n, at: 0.0, change: change(n) };
        screen.take((1..=20).map(event).collect());
        let text = screen.text(&frame);
        assert!(text.starts_with("BAD  b is\\u{1b} away\n     type: curl b\n"), "{text}");
        assert!(text.contains("weir 1, pid 7") && text.contains("event 20"), "{text}");
        assert!(!text.contains("event 12") && text.find("event 20") < text.find("event 13"));
    }

    #[test]
    fn frames_are_cut_wherever_the_network_cuts() {
        let mut unread = BytesMut::from(&b": hello\n\ndata: {\"a\":1}\n"[..]);
        assert_eq!(read(&next(&mut unread).unwrap()).map(|of| of.number), None);
        assert_eq!(next(&mut unread), None);
        unread.extend_from_slice(b"\n");
        assert_eq!(&next(&mut unread).unwrap()[..], b"data: {\"a\":1}\n\n");
    }
}
