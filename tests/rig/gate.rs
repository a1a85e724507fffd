//! A proxy in front of a server of HTTP that stops at a request, before the server has it or
//! behind its answer: whoever sent it can be killed right there.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::http::{Connection, Message};

/// Where a request is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The server does not get it.
    Before,
    /// The server has answered it, and nobody hears that.
    Behind,
}

/// A gate in front of a server. It takes connections as long as the test runs.
#[derive(Debug)]
pub struct Gate {
    pub address: SocketAddr,
    shared: Arc<GateContext>,
}

#[derive(Debug, Default)]
struct GateContext {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    /// What the next request to be stopped has in it, and where it is stopped.
    wanted: Option<(String, Stop)>,
    stopped: StoppedRequest,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum StoppedRequest {
    #[default]
    No,
    Yes,
    /// It goes on from where it was stopped.
    LetGo,
}

impl Gate {
    /// A gate that is open.
    ///
    /// # Panics
    /// When no port can be had.
    pub fn before(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::<GateContext>::default();
        let of_threads = shared.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let shared = of_threads.clone();
                thread::spawn(move || shared.serve(client, server));
            }
        });
        Self { address, shared }
    }

    /// As the `url` of a backend.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Stops at the next request that has these words in its target or, as text, in its body.
    pub fn stop_at(&self, words: &str, stop: Stop) {
        let wanted = Some((words.to_owned(), stop));
        *self.shared.lock() = GateState { wanted, stopped: StoppedRequest::No };
    }

    /// Whether a request is stopped.
    pub fn is_stopped(&self) -> bool {
        self.shared.lock().stopped == StoppedRequest::Yes
    }

    /// Opens the gate; a request that is stopped ends without an answer.
    pub fn open(&self) {
        *self.shared.lock() = GateState::default();
        self.shared.changed.notify_all();
    }

    /// Has the request that is stopped go on.
    pub fn let_go(&self) {
        self.shared.lock().stopped = StoppedRequest::LetGo;
        self.shared.changed.notify_all();
    }
}

impl GateContext {
    fn lock(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, client: TcpStream, server: SocketAddr) {
        let _ = client.set_nodelay(true);
        let mut client = Connection::over(client);
        let Ok(mut server) = Connection::open(server) else { return };
        while let Ok(request) = client.request() {
            if self.stops(&request, Stop::Before) {
                return;
            }
            let Ok(answer) = server.push(&encode(&request)).and_then(|()| server.answer(false))
            else {
                return;
            };
            if self.stops(&request, Stop::Behind) || client.push(&encode(&answer)).is_err() {
                return;
            }
        }
    }

    /// Whether a request ends here; where it is stopped, waits until it is said what becomes of it.
    fn stops(&self, request: &Message, at: Stop) -> bool {
        let mut state = self.lock();
        let is_it = |(words, stop): &(String, Stop)| *stop == at && text(request).contains(words);
        if !state.wanted.as_ref().is_some_and(is_it) {
            return false;
        }
        *state = GateState { wanted: None, stopped: StoppedRequest::Yes };
        while state.stopped == StoppedRequest::Yes {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.stopped == StoppedRequest::No
    }
}

/// The target and the body of a request; a form's without its escapes.
fn text(request: &Message) -> String {
    let is_form = |value: &str| value.starts_with("application/x-www-form-urlencoded");
    let body = match request.header("content-type").is_some_and(is_form) {
        true => unescape(&request.body),
        false => request.text(),
    };
    format!("{}\n{body}", request.start)
}

fn unescape(form: &[u8]) -> String {
    let mut out = Vec::with_capacity(form.len());
    let mut rest = form;
    while let Some((byte, behind)) = rest.split_first() {
        let code = behind.get(..2).and_then(|code| std::str::from_utf8(code).ok());
        let code = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        rest = behind;
        match (byte, code) {
            (b'+', _) => out.push(b' '),
            (b'%', Some(code)) => {
                out.push(code);
                rest = &behind[2..];
            }
            (byte, _) => out.push(*byte),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// A message as bytes, with its body in one piece.
fn encode(message: &Message) -> Vec<u8> {
    let mut out = format!("{}\r\n", message.start);
    let is_frame = |name: &str| {
        ["content-length", "transfer-encoding"].iter().any(|of| name.eq_ignore_ascii_case(of))
    };
    for (name, value) in message.headers.iter().filter(|(name, _)| !is_frame(name)) {
        out.push_str(&format!("{name}: {value}\r\n"));
    }
    if message.status() != 204 {
        out.push_str(&format!("Content-Length: {}\r\n", message.body.len()));
    }
    out.push_str("\r\n");
    let mut out = out.into_bytes();
    out.extend_from_slice(&message.body);
    out
}
