//! A `weir serve` of a test's own, on ports the system chose.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// How long anything may take before the test fails.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// A running gateway; it is killed when the test ends.
pub struct WeirProcess {
    child: Child,
    log: Receiver<String>,
    /// The address that clients connect to.
    pub http: String,
    /// Where an operator asks.
    pub admin: String,
}

/// The least configuration, whose only backend nobody listens for.
pub const ALONE: &str = "\
workers = 1
[journal]
dir = \"journal\"
[influx]
listen = \"127.0.0.1:0\"
[[influx.backend]]
name = \"a\"
url = \"http://127.0.0.1:1\"
[admin]
listen = \"127.0.0.1:0\"
";

/// Calls `weir serve` in `dir` with `text` as its weir.toml.
pub fn call(dir: &Path, text: &str) -> (Child, Receiver<String>) {
    std::fs::write(dir.join("weir.toml"), text).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_weir"))
        .arg("serve")
        .current_dir(dir)
        .env_remove("WEIR_CONFIG")
        .env_remove("NOTIFY_SOCKET")
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (lines, log) = channel();
    let stderr = BufReader::new(child.stderr.take().unwrap());
    std::thread::spawn(move || {
        for line in stderr.lines().map_while(Result::ok) {
            // Nobody reads on once the test has seen enough.
            let _ = lines.send(line);
        }
    });
    (child, log)
}

impl WeirProcess {
    /// Starts in `dir`, and waits until writes are taken.
    pub fn start(dir: &Path, text: &str) -> Self {
        let (child, log) = call(dir, text);
        let mut running = Self { child, log, http: String::new(), admin: String::new() };
        running.admin = running.logged("the admin port answers")["address"].text();
        running.http = running.logged("writes are taken")["http"].text();
        running.http = running.http.trim_matches(['[', ']']).to_owned();
        running
    }

    /// Waits for a line of the log with `words` in its message.
    pub fn logged(&self, words: &str) -> Line {
        loop {
            let line =
                self.log.recv_timeout(DEADLINE).unwrap_or_else(|_| panic!("not logged: {words}"));
            let value: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
            if value["message"].as_str().is_some_and(|message| message.contains(words)) {
                return Line(value);
            }
        }
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end; gives the exit code.
    pub fn ended(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// The same, with what it logs until then.
    pub fn ended_saying(mut self) -> (Option<i32>, String) {
        let code = self.child.wait().unwrap().code();
        (code, self.log.iter().collect::<Vec<_>>().join("\n"))
    }

    /// Asks the admin port.
    pub fn ask(&self, path: &str) -> (u16, String) {
        request(&self.admin, &format!("GET {path}"), "")
    }

    /// The answer to `/status`.
    pub fn status(&self) -> Value {
        serde_json::from_str(&self.ask("/status").1).unwrap()
    }

    /// Writes `lines` to the database `db`; gives the status.
    pub fn write(&self, lines: &str) -> u16 {
        request(&self.http, "POST /write?db=db", lines).0
    }
}

impl Drop for WeirProcess {
    fn drop(&mut self) {
        // It has ended where the test waited for that.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A line of the log.
pub struct Line(Value);

impl std::ops::Index<&str> for Line {
    type Output = Value;

    fn index(&self, key: &str) -> &Value {
        &self.0[key]
    }
}

trait Text {
    fn text(&self) -> String;
}

impl Text for Value {
    fn text(&self) -> String {
        self.as_str().unwrap_or_else(|| panic!("{self} is not text")).to_owned()
    }
}

/// One request on a connection of its own: the status and the body.
pub fn request(address: &str, first: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let length = body.len();
    let head = format!(
        "{first} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let body = answer.split_once("\r\n\r\n").unwrap().1;
    (status, body.to_owned())
}
