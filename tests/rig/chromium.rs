//! A headless Chromium with one page, over its DevTools protocol
//! (<https://chromedevtools.github.io/devtools-protocol/>), which it speaks over two pipes.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::places;
use crate::process::Process;
use crate::wait;

/// How tall a picture may be.
const PICTURE_HEIGHT_MAX: f64 = 6000.0;
/// What Chromium is told: no window, no sandbox, which root can't have, and nothing of its own on
/// the network.
const ARGUMENTS: &str = "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage \
                         --no-first-run --disable-background-networking --disable-sync \
                         --disable-component-update --disable-default-apps \
                         --enable-precise-memory-info --js-flags=--expose-gc \
                         --remote-debugging-pipe";

/// What a viewer has in front of them.
#[derive(Debug, Clone, Copy)]
pub struct Screen {
    pub width: u32,
    pub height: u32,
    pub dark: bool,
}

/// The browser; dropping it ends it.
#[derive(Debug)]
pub struct Browser {
    to: File,
    from: Receiver<Value>,
    session: Option<String>,
    last: u64,
    /// What the page has said on its console, and errors that it has met.
    pub console: Vec<String>,
    /// The addresses of what it has asked for.
    pub requests: Vec<String>,
    process: Process,
    _dir: TempDir,
}

impl Browser {
    /// Opens a page.
    ///
    /// # Panics
    /// When Chromium is missing or does not start.
    pub fn open(url: &str, screen: Screen) -> Self {
        let mut browser = Self::start();
        let target = browser.command("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.command("Target.attachToTarget", attach);
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Log", "Runtime", "Page", "Network"] {
            browser.command(&format!("{domain}.enable"), json!({}));
        }
        browser.show_on(screen);
        browser.command("Page.navigate", json!({ "url": url }));
        browser
    }

    fn start() -> Self {
        let dir = places::directory();
        let pipe = |name: &str| -> PathBuf {
            let path = dir.path().join(name);
            let mode = Mode::RUSR | Mode::WUSR;
            mknodat(CWD, &path, FileType::Fifo, mode, 0).expect("a pipe can be made");
            path
        };
        let (to, from) = (pipe("to"), pipe("from"));
        let script = format!(
            "exec \"$0\" {ARGUMENTS} --user-data-dir=\"$1/data\" about:blank \
             3<\"$1/to\" 4>\"$1/from\""
        );
        let mut command = Command::new("sh");
        command.args(["-c", &script]).arg(places::need("chromium")).arg(dir.path());
        let process = Process::start("chromium", &mut command, &dir.path().join("log"));
        // Each opens once the other side does.
        let to = OpenOptions::new().write(true).open(to).expect("the shell reads");
        let from = File::open(from).expect("the shell writes");
        let (heard, messages) = channel();
        std::thread::spawn(move || {
            let mut reader = BufReader::new(from);
            loop {
                let mut message = Vec::new();
                if reader.read_until(0, &mut message).is_ok_and(|read| read > 0) {
                    message.pop();
                    let Ok(message) = serde_json::from_slice(&message) else { continue };
                    if heard.send(message).is_ok() {
                        continue;
                    }
                }
                return;
            }
        });
        Self {
            to,
            from: messages,
            session: None,
            last: 0,
            console: Vec::new(),
            requests: Vec::new(),
            process,
            _dir: dir,
        }
    }

    /// Gives a command and waits for what comes of it.
    ///
    /// # Panics
    /// When it is refused, or there is no answer within a minute.
    pub fn command(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).expect("chromium listens");
        let until = Instant::now() + wait::LONG;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(message) = self.from.recv_timeout(left) else {
                panic!("chromium does not answer {method}: {}", self.process.log());
            };
            if message["id"] == json!(self.last) {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
            self.note(&message);
        }
    }

    /// Hears what has happened so far.
    pub fn listen(&mut self, within: Duration) {
        let until = Instant::now() + within;
        loop {
            match self.from.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(message) => self.note(&message),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn note(&mut self, message: &Value) {
        let params = &message["params"];
        match message["method"].as_str().unwrap_or_default() {
            "Network.requestWillBeSent" => {
                let url = params["request"]["url"].as_str().unwrap_or_default();
                self.requests.push(url.to_owned());
            }
            "Log.entryAdded" => self.console.push(params["entry"].to_string()),
            "Runtime.consoleAPICalled" | "Runtime.exceptionThrown" => {
                self.console.push(params.to_string());
            }
            _ => {}
        }
    }

    /// Changes the window, and whether dark is preferred.
    pub fn show_on(&mut self, screen: Screen) {
        let Screen { width, height, dark } = screen;
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.command("Emulation.setDeviceMetricsOverride", size);
        let scheme = if dark { "dark" } else { "light" };
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.command("Emulation.setEmulatedMedia", json!({ "features": [feature] }));
    }

    /// Presses a key, as `Tab` or `Enter`.
    ///
    /// # Panics
    /// When it has no code here.
    pub fn press(&mut self, key: &str) {
        let (code, text) = match key {
            "Tab" => (9, ""),
            "Enter" => (13, "\r"),
            " " => (32, " "),
            _ => panic!("which code has {key:?}?"),
        };
        let down = json!({
            "type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text,
        });
        self.command("Input.dispatchKeyEvent", down);
        let up = json!({ "type": "keyUp", "key": key, "windowsVirtualKeyCode": code });
        self.command("Input.dispatchKeyEvent", up);
    }

    /// The value of an expression in the page.
    ///
    /// # Panics
    /// When it throws.
    pub fn value(&mut self, expression: &str) -> Value {
        let wanted =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.command("Runtime.evaluate", wanted);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// What the page shows.
    pub fn text(&mut self) -> String {
        self.value("document.body ? document.body.innerText : ''")
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// Waits until the page shows these words.
    ///
    /// # Panics
    /// When it does not within `limit`.
    #[track_caller]
    pub fn wait_text(&mut self, words: &str, limit: Duration) {
        let begun = Instant::now();
        loop {
            let text = self.text();
            if text.contains(words) {
                return;
            }
            assert!(begun.elapsed() < limit, "not within {limit:?}: {words:?} in\n{text}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until an expression is true.
    ///
    /// # Panics
    /// When it is not within `limit`.
    #[track_caller]
    pub fn wait_true(&mut self, expression: &str, limit: Duration) {
        wait::until(expression, limit, || self.value(expression) == json!(true));
    }

    /// Writes a picture of the whole page.
    ///
    /// # Panics
    /// When it can't be made.
    pub fn picture(&mut self, path: &Path) {
        let layout = self.command("Page.getLayoutMetrics", json!({}));
        let size = &layout["cssContentSize"];
        let number = |key: &str| size[key].as_f64().unwrap_or(1000.0);
        let (width, height) = (number("width"), number("height").min(PICTURE_HEIGHT_MAX));
        let clip = json!({ "x": 0, "y": 0, "width": width, "height": height, "scale": 1 });
        let wanted = json!({ "format": "png", "captureBeyondViewport": true, "clip": clip });
        let shot = self.command("Page.captureScreenshot", wanted);
        let bytes = BASE64_STANDARD.decode(shot["data"].as_str().unwrap_or_default());
        std::fs::write(path, bytes.expect("a picture")).expect("a picture can be written");
    }
}
