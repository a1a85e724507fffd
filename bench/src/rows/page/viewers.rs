//! Viewers of the page: each opens it as a browser does, or only reads its stream, and throws away
//! what comes.

use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rig::http::{Connection, Request};
use rig::wait;

use crate::Outcome;
use crate::report::Verdict;

/// What a browser asks for before it follows the stream.
const PATHS: [&str; 7] =
    ["/", "/page.css", "/uplot.css", "/uplot.js", "/page.js", "/icon.svg", "/history"];

/// Opens the page once, packed as browsers ask for it; gives the bytes of each answer's body.
///
/// # Errors
/// An answer does not come, or is no 200.
pub fn open_page(admin: SocketAddr) -> Outcome<[(&'static str, usize); PATHS.len()]> {
    let mut connection = Connection::open(admin)?;
    let mut opened = PATHS.map(|path| (path, 0));
    for (path, bytes) in &mut opened {
        let ask = Request::get(path).header("Accept", "text/html, */*");
        let answer = connection.send(&ask.header("Accept-Encoding", "gzip"))?;
        if answer.status() != 200 {
            return Err(format!("{path}: {}", answer.start).into());
        }
        *bytes = answer.body.len();
    }
    Ok(opened)
}

/// What one viewer has heard.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReceivedFrames {
    pub frames: u64,
    /// All that came behind the answer's head, the framing of chunks included.
    pub bytes: u64,
}

/// What viewers have heard, and for how long they listened.
#[derive(Debug, Clone, Default)]
pub struct ViewerSamples {
    pub length: Duration,
    pub each: Vec<ReceivedFrames>,
}

impl ViewerSamples {
    /// The frames of whoever had the fewest, and of whoever had the most.
    pub fn frames(&self) -> (u64, u64) {
        let frames = || self.each.iter().map(|heard| heard.frames);
        (frames().min().unwrap_or(0), frames().max().unwrap_or(0))
    }

    /// Bytes a second of each viewer.
    pub fn bytes_per_second(&self) -> Vec<f64> {
        let seconds = self.length.as_secs_f64();
        self.each.iter().map(|heard| heard.bytes as f64 / seconds).collect()
    }

    /// What a figure is worth whose viewers had less than half of what was to be sent to them.
    pub fn missed(&self) -> Option<Verdict> {
        let (least, _) = self.frames();
        let seconds = self.length.as_secs_f64();
        let what = || Verdict::Failed(format!("a viewer had {least} frames in {seconds:.0} s"));
        (2.0 * (least + 1) as f64 <= seconds).then(what)
    }
}

/// Viewers that listen, each on a thread that does nothing but wait for the next frame.
pub struct Viewers {
    admin: SocketAddr,
    all: Vec<(TcpStream, JoinHandle<ReceivedFrames>)>,
    begun: Instant,
}

impl Viewers {
    /// Has so many listen, for whom frames are packed or not.
    ///
    /// # Errors
    /// There is no seat for one.
    pub fn attach(admin: SocketAddr, count: usize, gzip: bool) -> Outcome<Self> {
        let all = (0..count).map(|_| listen(admin, gzip)).collect::<Outcome<_>>()?;
        Ok(Self { admin, all, begun: Instant::now() })
    }

    /// Has them leave; returns once Weir has closed all connections to its admin port too.
    ///
    /// # Panics
    /// When Weir keeps one open for a minute.
    pub fn detach(self) -> ViewerSamples {
        let admin = self.admin;
        let watched = self.leave();
        wait::until("the viewers' connections are closed", wait::LONG, || open_at(admin) == 0);
        watched
    }

    /// Has them leave, and does not wait for Weir.
    pub fn leave(self) -> ViewerSamples {
        let length = self.begun.elapsed();
        for (stream, _) in &self.all {
            // One that Weir has closed already is seen by the frames that it lacks.
            let _ = stream.shutdown(Shutdown::Both);
        }
        let heard = self.all.into_iter().map(|(_, thread)| thread.join().unwrap_or_default());
        ViewerSamples { length, each: heard.collect() }
    }
}

fn listen(admin: SocketAddr, gzip: bool) -> Outcome<(TcpStream, JoinHandle<ReceivedFrames>)> {
    let stream = TcpStream::connect(admin)?;
    let mut connection = Connection::over(stream.try_clone()?);
    let coding = if gzip { "gzip" } else { "identity" };
    connection.push(&Request::get("/live").header("Accept-Encoding", coding).encode())?;
    let head = connection.head()?;
    if head.status() != 200 || (head.header("content-encoding") == Some("gzip")) != gzip {
        return Err(format!("/live with {coding}: {}", head.start).into());
    }
    Ok((stream, thread::spawn(move || hear(connection))))
}

/// Reads frames, a chunk each, until there are no more.
fn hear(mut connection: Connection) -> ReceivedFrames {
    let mut heard = ReceivedFrames::default();
    let mut is_greeting = true;
    let mut chunk = Vec::new();
    while connection.chunk(&mut chunk).is_ok_and(|is_more| is_more) {
        let length = chunk.len();
        // The length in hexadecimal and two ends of lines (RFC 9112 section 7.1).
        heard.bytes += (length + format!("{length:x}\r\n\r\n").len()) as u64;
        heard.frames += u64::from(!is_greeting);
        is_greeting = false;
        chunk.clear();
    }
    heard
}

/// How many connections a server of this machine has not closed.
fn open_at(server: SocketAddr) -> usize {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    table.lines().skip(1).filter(|line| is_open_at(line, server.port())).count()
}

/// Whether a line of `/proc/net/tcp` is of a connection of that port, established or closed by its
/// peer alone.
fn is_open_at(line: &str, port: u16) -> bool {
    const ESTABLISHED: &str = "01";
    const CLOSE_WAIT: &str = "08";
    let mut fields = line.split_whitespace().skip(1);
    let is_local = fields.next().is_some_and(|local| local.ends_with(&format!(":{port:04X}")));
    is_local && matches!(fields.nth(1), Some(ESTABLISHED | CLOSE_WAIT))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time::Duration;

    use super::{ReceivedFrames, ViewerSamples, is_open_at, open_at};

    #[test]
    fn a_connection_is_open_until_the_server_has_closed_it() {
        let line = "  7: 0100007F:1F98 0100007F:D8C4 08 00000000:00000000 00:00000000 00000000  0";
        assert!(is_open_at(line, 8088) && !is_open_at(line, 0xd8c4));
        assert!(!is_open_at(&line.replace(" 08 ", " 06 "), 8088), "TIME_WAIT");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let client = std::net::TcpStream::connect(address).unwrap();
        let (server, _) = listener.accept().unwrap();
        assert_eq!(open_at(address), 1);
        drop(client);
        assert_eq!(open_at(address), 1);
        drop(server);
        assert_eq!(open_at(address), 0);
    }

    #[test]
    fn viewers_that_hear_too_little_make_a_figure_worthless() {
        let heard = |frames| ReceivedFrames { frames, bytes: 1_000 * frames };
        let of = |frames: &[u64]| {
            let each = frames.iter().map(|frames| heard(*frames)).collect();
            ViewerSamples { length: Duration::from_secs(10), each }
        };
        assert!(of(&[10, 9]).missed().is_none() && of(&[10, 4]).missed().is_some());
        assert!(of(&[]).missed().is_some());
        assert_eq!(of(&[10, 9]).frames(), (9, 10));
        assert_eq!(of(&[10, 5]).bytes_per_second(), [1_000.0, 500.0]);
    }
}
