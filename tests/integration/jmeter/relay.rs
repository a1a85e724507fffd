//! Between the injectors and Weir: a relay for each injector, as on a host of its own, that gives
//! the nth flush of all injectors one time.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use rig::http::{Connection, Message, Request};
use wire::line;

/// How far apart flushes are.
const INTERVAL: Duration = Duration::from_secs(1);

/// A point as Weir was given it.
#[derive(Debug)]
pub struct SentPoint {
    pub measurement: String,
    pub series: String,
    pub time_ns: u128,
    pub fields: BTreeMap<String, String>,
}

/// What all relays have sent.
#[derive(Debug)]
pub struct SentPoints {
    /// The time of all first flushes, since 1970.
    first: Duration,
    /// In the order in which Weir was given them.
    points: Mutex<Vec<SentPoint>>,
}

impl SentPoints {
    /// None yet; the injectors begin now.
    pub fn begin() -> Self {
        let now = UNIX_EPOCH.elapsed().expect("the clock is past 1970");
        Self { first: Duration::from_secs(now.as_secs()), points: Mutex::default() }
    }

    pub fn into_points(self) -> Vec<SentPoint> {
        self.points.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

pub struct Relay<'a> {
    listener: TcpListener,
    sent: &'a SentPoints,
    to_weir: Mutex<ToWeir>,
    is_closed: AtomicBool,
}

struct ToWeir {
    connection: Connection,
    flushes: u32,
}

impl<'a> Relay<'a> {
    /// A relay that connects to Weir from this address.
    pub fn open(from: IpAddr, weir: SocketAddr, sent: &'a SentPoints) -> io::Result<Self> {
        let connection = Connection::open_from(from, weir)?;
        Ok(Self {
            listener: TcpListener::bind("127.0.0.1:0")?,
            sent,
            to_weir: Mutex::new(ToWeir { connection, flushes: 0 }),
            is_closed: AtomicBool::new(false),
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.listener.local_addr().expect("a listener has an address")
    }

    /// Serves connections until the relay is closed and the clients have closed theirs.
    pub fn serve(&self) {
        thread::scope(|scope| {
            for stream in self.listener.incoming().map_while(Result::ok) {
                if self.is_closed.load(Ordering::SeqCst) {
                    return;
                }
                scope.spawn(move || {
                    let mut connection = Connection::over(stream);
                    while let Ok(request) = connection.request() {
                        let answer = self.forward(&request);
                        if connection.push(answer.as_bytes()).is_err() {
                            return;
                        }
                    }
                });
            }
        });
    }

    pub fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        // Wakes `serve`, which may be waiting for a connection.
        let _ = TcpStream::connect(self.address());
    }

    fn forward(&self, request: &Message) -> String {
        let mut to_weir = self.to_weir.lock().unwrap();
        let time_ns = (self.sent.first + INTERVAL * to_weir.flushes).as_nanos();
        to_weir.flushes += 1;
        let points: Vec<_> = request.text().lines().map(|line| point(line, time_ns)).collect();
        let body: String = points.iter().map(SentPoint::line).collect();
        let target = request.start.split(' ').nth(1).expect("a request has a target");
        // Held until the answer is here, so that one write comes after the other.
        let mut sent = self.sent.points.lock().unwrap();
        let answer = to_weir.connection.send(&Request::post(target, body)).unwrap();
        assert_eq!(answer.status(), 204, "{}", answer.text());
        sent.extend(points);
        "HTTP/1.1 204 No Content\r\n\r\n".to_owned()
    }
}

/// A line of the listener's, whose fields have neither blanks nor commas but for an event's text.
fn point(line: &str, time_ns: u128) -> SentPoint {
    let series = line::series(line.as_bytes());
    let (series, rest) = line.split_at(series.len());
    let (fields, _) = rest.trim_start().rsplit_once(' ').expect("a line has a time");
    let pair = |field: &str| {
        let (name, value) = field.split_once('=').expect("a field has a value");
        (name.to_owned(), value.to_owned())
    };
    SentPoint {
        measurement: series.split(',').next().unwrap_or_default().to_owned(),
        series: series.to_owned(),
        time_ns,
        fields: fields.split(',').map(pair).collect(),
    }
}

impl SentPoint {
    fn line(&self) -> String {
        let fields: Vec<_> =
            self.fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("{} {} {}\n", self.series, fields.join(","), self.time_ns)
    }
}
