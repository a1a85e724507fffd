//! A coordinator's connection to an agent: orders go out, reports come in, and both sides hear of
//! each other twice a second. What is heard is also how far the agent's clocks are away.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use meter::sharing::{ClockOffset, ClockSample};
use tokio::io::ReadHalf;
use tokio::net::TcpStream;
use tokio::sync::mpsc::{Sender, channel};
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

use super::handshake;
use super::message::{GREETING_MAX, MESSAGE_MAX, Order, Report, receive, send, send_all};
use crate::exit::Failure;

/// Orders that wait for the connection.
const ORDERS_MAX: usize = 16;
/// Questions for the time before anything else.
const QUESTIONS: u64 = 32;
/// Answers of which the best counts: the last half minute.
const SAMPLES_MAX: usize = 64;

/// What is heard of an agent.
pub enum LinkEvent {
    Report(Report),
    /// It is gone, in words.
    Lost(String),
}

/// What the coordinator has heard, with the number of the agent.
pub type NumberedEvent = (usize, LinkEvent);

/// How far an agent's clocks are ahead.
#[derive(Debug, Clone, Copy)]
pub struct AgentClocks {
    /// The offset of the clock by which it sends.
    pub monotonic: ClockOffset,
    /// The offset of its wall clock.
    pub wall: ClockOffset,
}

/// Questions and answers about the time.
#[derive(Debug)]
struct ClockTrack {
    /// The moment from which this side counts.
    epoch: Instant,
    /// Questions without an answer so far: their numbers, and when they were sent.
    asked: VecDeque<(u64, Duration)>,
    next: u64,
    answers: VecDeque<AgentClocks>,
}

impl ClockTrack {
    fn new(epoch: Instant) -> Self {
        Self { epoch, asked: VecDeque::new(), next: 0, answers: VecDeque::new() }
    }

    fn ask(&mut self) -> Order {
        let number = self.next;
        self.next += 1;
        if self.asked.len() == SAMPLES_MAX {
            self.asked.pop_front();
        }
        self.asked.push_back((number, self.epoch.elapsed()));
        Order::Clock(number)
    }

    fn answer(&mut self, number: u64, at: Duration, wall: SystemTime) {
        let received = self.epoch.elapsed();
        let Some(found) = self.asked.iter().position(|(asked, _)| *asked == number) else {
            return;
        };
        let Some((_, sent)) = self.asked.remove(found) else { return };
        let monotonic = ClockSample { sent, theirs: at, received };
        // Our wall clock at the same moment: the same span before now.
        let ours = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let theirs = wall.duration_since(UNIX_EPOCH).unwrap_or_default();
        let sent = ours.saturating_sub(received.saturating_sub(sent));
        let wall = ClockSample { sent, theirs, received: ours };
        let Some((monotonic, wall)) = monotonic.offset().zip(wall.offset()) else { return };
        if self.answers.len() == SAMPLES_MAX {
            self.answers.pop_front();
        }
        self.answers.push_back(AgentClocks { monotonic, wall });
    }

    fn best(&self) -> Option<AgentClocks> {
        self.answers.iter().copied().min_by_key(|clocks| clocks.monotonic.error)
    }
}

type SharedTrack = Arc<Mutex<ClockTrack>>;

fn locked(track: &SharedTrack) -> MutexGuard<'_, ClockTrack> {
    track.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection to an agent. Dropped, it ends, and the agent stops.
pub struct Link {
    /// Its address as it was named.
    pub name: String,
    /// What its machine is called.
    pub host: String,
    /// Nothing where the connection was ended from here.
    orders: Option<Sender<Order>>,
    track: SharedTrack,
}

impl Link {
    /// Connects to the agent of that number, and measures its clocks, which count from `epoch`
    /// here.
    pub async fn open(
        number: usize,
        name: &str,
        secret: &[u8],
        epoch: Instant,
        heard: Sender<NumberedEvent>,
    ) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::other(format!("agent {name}: {error}"));
        let track = Arc::new(Mutex::new(ClockTrack::new(epoch)));
        let opened = async {
            let (mut stream, host) = open_first(name, secret).await?;
            for _ in 0..QUESTIONS {
                let question = locked(&track).ask();
                send(&mut stream, &question).await?;
                let mut report = receive(&mut stream, MESSAGE_MAX).await?;
                while matches!(report, Report::Alive) {
                    report = receive(&mut stream, MESSAGE_MAX).await?;
                }
                match report {
                    Report::Clock { number, at, wall } => locked(&track).answer(number, at, wall),
                    _ => return Err(io::Error::other("it does not answer what it was asked")),
                }
            }
            Ok((stream, host))
        };
        let (stream, host) = opened.await.map_err(failed)?;
        let (reading, writing) = tokio::io::split(stream);
        let (orders, to_send) = channel(ORDERS_MAX);
        let (asked, answered) = (Arc::clone(&track), Arc::clone(&track));
        tokio::spawn(async move {
            // The connection ends with the first of the two.
            let why = tokio::select! {
                written = send_all(writing, to_send, || locked(&asked).ask()) => match written {
                    Ok(()) => return,
                    Err(error) => error.to_string(),
                },
                why = read(reading, number, &heard, answered) => why,
            };
            let _ = heard.send((number, LinkEvent::Lost(why))).await;
        });
        Ok(Self { name: name.to_owned(), host, orders: Some(orders), track })
    }

    /// Sends an order; where the agent is gone, that is heard elsewhere.
    pub fn order(&self, order: Order) {
        let _ = self.orders.as_ref().map(|orders| orders.try_send(order));
    }

    /// Whether the agent is gone, and takes no order.
    pub fn is_gone(&self) -> bool {
        self.orders.as_ref().is_none_or(Sender::is_closed)
    }

    /// Ends the connection, and with it what the agent sends.
    pub fn cut(&mut self) {
        self.orders = None;
    }

    /// How far its clocks are ahead, by the best of the last answers.
    pub fn clocks(&self) -> Option<AgentClocks> {
        locked(&self.track).best()
    }
}

/// Connects to the first address of a name at which an agent is.
async fn open_first(name: &str, secret: &[u8]) -> io::Result<(TlsStream<TcpStream>, String)> {
    let addresses: Vec<SocketAddr> = tokio::net::lookup_host(name).await?.collect();
    let mut last = io::Error::other("its name has no address");
    for address in addresses {
        match timeout(GREETING_MAX, handshake::connect(address, secret)).await {
            Ok(Ok(opened)) => return Ok(opened),
            Ok(Err(error)) => last = error,
            Err(_) => last = io::Error::other(format!("no answer in {GREETING_MAX:?}")),
        }
    }
    Err(last)
}

/// Hands on what the agent says, until it is gone or silent; gives why it is.
async fn read(
    mut stream: ReadHalf<TlsStream<TcpStream>>,
    number: usize,
    heard: &Sender<NumberedEvent>,
    track: SharedTrack,
) -> String {
    loop {
        match receive(&mut stream, MESSAGE_MAX).await {
            Err(error) => break error.to_string(),
            Ok(Report::Alive) => {}
            Ok(Report::Clock { number, at, wall }) => locked(&track).answer(number, at, wall),
            // Where there is no room, the agent has to wait.
            Ok(report) => match heard.send((number, LinkEvent::Report(report))).await {
                Ok(()) => {}
                Err(_) => break "nobody listens to it any more".to_owned(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_once_and_for_its_own_question() {
        let mut track = ClockTrack::new(Instant::now());
        for _ in 0..3 {
            track.ask();
        }
        let wall = SystemTime::now() + Duration::from_secs(3);
        track.answer(9, Duration::from_secs(5), wall);
        assert!(track.best().is_none(), "nobody asked that");
        track.answer(1, Duration::from_secs(5), wall);
        let clocks = track.best().unwrap();
        track.answer(1, Duration::from_secs(50), wall);
        assert_eq!(track.answers.len(), 1);
        let near = |ahead: i64, seconds: i64| (ahead - seconds * 1_000_000_000).abs() < 200_000_000;
        assert!(near(clocks.monotonic.ahead_ns, 5) && near(clocks.wall.ahead_ns, 3), "{clocks:?}");
    }
}
