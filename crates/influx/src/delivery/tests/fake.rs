//! A server that speaks just enough HTTP and does to each request what the test says.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A request as the server saw it.
#[derive(Debug, Clone, Default)]
pub struct RecordedRequest {
    pub path: String,
    /// Of the query string, and of the form in a body.
    pub parameters: HashMap<String, String>,
    pub headers: HashMap<String, String>,
    pub body: Vec<u8>,
}

impl RecordedRequest {
    pub fn parameter(&self, name: &str) -> &str {
        self.parameters.get(name).map_or("", String::as_str)
    }

    pub fn lines(&self) -> Vec<String> {
        String::from_utf8(self.body.clone()).unwrap().lines().map(str::to_owned).collect()
    }

    pub fn is_write(&self) -> bool {
        self.path.ends_with("/write")
    }
}

/// What to do to a request.
pub enum Act {
    Answer(u16, String),
    AnswerWith(u16, &'static str, String),
    Hang,
    Reset,
    Garbage,
}

pub fn ok() -> Act {
    Act::Answer(204, String::new())
}

pub fn refuse(status: u16, error: &str) -> Act {
    Act::Answer(status, format!("{{\"error\":{}}}\n", serde_json::to_string(error).unwrap()))
}

type Behaviour = Box<dyn FnMut(&RecordedRequest) -> Act + Send>;

/// The server; it ends with this.
pub struct Fake {
    pub url: String,
    pub seen: Arc<Mutex<Vec<RecordedRequest>>>,
    behaviour: Arc<Mutex<Behaviour>>,
    task: JoinHandle<()>,
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Fake {
    pub async fn start(behaviour: impl FnMut(&RecordedRequest) -> Act + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::<Mutex<Vec<RecordedRequest>>>::default();
        let behaviour: Arc<Mutex<Behaviour>> = Arc::new(Mutex::new(Box::new(behaviour)));
        let (see, behave) = (Arc::clone(&seen), Arc::clone(&behaviour));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&see), Arc::clone(&behave)));
            }
        });
        Self { url, seen, behaviour, task }
    }

    /// Behaves otherwise from now on.
    pub fn behave(&self, behaviour: impl FnMut(&RecordedRequest) -> Act + Send + 'static) {
        *self.behaviour.lock().unwrap() = Box::new(behaviour);
    }

    /// What was written and answered by the behaviour, request by request.
    pub fn writes(&self) -> Vec<RecordedRequest> {
        self.seen.lock().unwrap().iter().filter(|seen| seen.is_write()).cloned().collect()
    }
}

async fn serve(
    mut stream: TcpStream,
    seen: Arc<Mutex<Vec<RecordedRequest>>>,
    behaviour: Arc<Mutex<Behaviour>>,
) {
    let mut buffer = Vec::new();
    while let Some(request) = request(&mut stream, &mut buffer).await {
        seen.lock().unwrap().push(request.clone());
        let act = match request.path.as_str() {
            "/ping" => ok(),
            _ => (behaviour.lock().unwrap())(&request),
        };
        let (status, header, body) = match act {
            Act::Answer(status, body) => (status, "X-A: b", body),
            Act::AnswerWith(status, header, body) => (status, header, body),
            Act::Hang => return std::future::pending().await,
            Act::Reset => {
                stream.set_zero_linger().unwrap();
                return;
            }
            Act::Garbage => {
                let _ = stream.write_all(b"\x00\xff not http at all\r\n\r\n").await;
                return;
            }
        };
        let len = body.len();
        let answer =
            format!("HTTP/1.1 {status} X\r\n{header}\r\nContent-Length: {len}\r\n\r\n{body}");
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<RecordedRequest> {
    let head_end = loop {
        if let Some(at) = memchr::memmem::find(buffer, b"\r\n\r\n") {
            break at + 4;
        }
        more(stream, buffer).await?;
    };
    let head = String::from_utf8(buffer[..head_end].to_vec()).unwrap();
    let mut lines = head.lines();
    let target = lines.next()?.split(' ').nth(1)?.to_owned();
    let headers: HashMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let len: usize = headers.get("content-length").map_or(0, |len| len.parse().unwrap());
    while buffer.len() < head_end + len {
        more(stream, buffer).await?;
    }
    let body = buffer[head_end..head_end + len].to_vec();
    buffer.drain(..head_end + len);
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let mut parameters: HashMap<String, String> =
        form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    if headers.get("content-type").is_some_and(|kind| kind.contains("form")) {
        parameters.extend(form_urlencoded::parse(&body).into_owned());
    }
    Some(RecordedRequest { path: path.to_owned(), parameters, headers, body })
}

async fn more(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<()> {
    let read = stream.read_buf(buffer).await.ok()?;
    (read > 0).then_some(())
}
