//! Queries whose clients do not read: left behind a piece, gone on with by another thread.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context as TaskContext, Poll, Waker};

use wire::influxql::{Params, parse};

use super::context::{Context, FlowControl, Limits};
use super::encode::{self, Format};
use crate::store::testing::TestStore;
use units::Size;

/// Bytes that a query may hand out between two moments at which it is held up.
const PIECE_BYTES_MAX: usize = 1 << 20;

/// Holds a query up once, behind each piece.
#[derive(Default)]
struct Reluctant {
    bytes: AtomicUsize,
    most: AtomicUsize,
}

impl FlowControl for Reluctant {
    fn may_send(&self) -> bool {
        let bytes = self.bytes.swap(0, Ordering::Relaxed);
        self.most.fetch_max(bytes, Ordering::Relaxed);
        bytes == 0
    }
}

fn store() -> TestStore {
    let line = |n: u64| {
        let (host, row) = (n % 50, n / 50);
        format!("m,host=h{host},dc=d{} f={n},i={row}i,s=\"text {n}\" {}\n", host % 3, row * 1000)
    };
    TestStore::with(&(0..50_000).map(line).collect::<String>())
}

const QUERIES: &[&str] = &[
    "SELECT * FROM m",
    "SELECT f, s FROM m GROUP BY host ORDER BY time DESC",
    "SELECT * FROM m GROUP BY *; SELECT count(f) FROM m; SELECT nothing FROM m",
    "SELECT mean(f), max(i) FROM m WHERE time >= 0 AND time < 1000000 \
     GROUP BY time(1u), host fill(0)",
    "SELECT derivative(mean(f), 1u) FROM m WHERE time < 1000000 GROUP BY time(1u), host",
    "SELECT max FROM (SELECT max(f) FROM m GROUP BY time(1u), host) WHERE time < 1000000",
    "SELECT i + f FROM m WHERE s =~ /7/; SHOW SERIES; SHOW TAG VALUES WITH KEY =~ /./",
    "SHOW MEASUREMENTS; SHOW FIELD KEYS; SELECT * FROM m; DROP MEASUREMENT \"\"; SELECT * FROM m",
];

const FORMATS: &[Format] = &[
    Format { csv: false, pretty: false, epoch: None, chunk_size: None },
    Format { csv: true, pretty: false, epoch: None, chunk_size: None },
    Format { csv: false, pretty: true, epoch: None, chunk_size: None },
    Format { csv: false, pretty: false, epoch: None, chunk_size: Some(777) },
];

/// What is answered; where `reluctant` is there with a thread for each piece.
fn answered(
    store: &TestStore,
    text: &str,
    format: Format,
    reluctant: Option<&Arc<Reluctant>>,
) -> (Vec<u8>, usize) {
    let statements = parse(text, &Params::default()).unwrap();
    let mut context = Context::new("db", 1_700_000_000_000_000_000);
    context.chunk_size = format.chunk_size;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    context.pool = Some(Arc::new(pool));
    context.limits = Limits { memory: Size::from_mib(64), ..Limits::default() };
    context.flow = reluctant.map(|reluctant| Arc::clone(reluctant) as _);
    let all = Arc::new(Mutex::new(Vec::new()));
    let (into, count) = (Arc::clone(&all), reluctant.map(Arc::clone));
    let out = move |piece: bytes::Bytes| {
        into.lock().unwrap().extend_from_slice(&piece);
        if let Some(count) = &count {
            count.bytes.fetch_add(piece.len(), Ordering::Relaxed);
        }
        ControlFlow::Continue(())
    };
    let mut encoder = encode::new(format, Box::new(out));
    let cancel = context.cancel.clone();
    let of_store = Arc::clone(&store.store);
    let query = async move {
        let refused = || Err(crate::refusal::QueryError("no".to_owned()));
        super::answer(&of_store, &statements, &context, &mut *encoder, &mut |_| refused()).await;
    };
    let mut query: std::pin::Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(query);
    let mut held_up = 0;
    loop {
        let mut poll = || query.as_mut().poll(&mut TaskContext::from_waker(Waker::noop()));
        let polled = match reluctant {
            Some(_) => std::thread::scope(|scope| scope.spawn(poll).join().unwrap()),
            None => poll(),
        };
        match polled {
            Poll::Ready(()) => break,
            Poll::Pending => held_up += 1,
        }
    }
    drop(query);
    assert_eq!(cancel.memory(), 0, "{text}: all memory is given back");
    let all = all.lock().unwrap().clone();
    (all, held_up)
}

#[test]
fn a_query_that_is_held_up_behind_each_piece_answers_the_same_byte_for_byte() {
    let store = store();
    for text in QUERIES {
        for format in FORMATS {
            let (whole, at_once) = answered(&store, text, *format, None);
            assert_eq!(at_once, 0);
            let reluctant = Arc::new(Reluctant::default());
            let (held_up, times) = answered(&store, text, *format, Some(&reluctant));
            assert!(whole == held_up, "{text} as {format:?}");
            let most = reluctant.most.load(Ordering::Relaxed);
            assert!(most <= PIECE_BYTES_MAX, "{text} as {format:?}: {most} bytes in one go");
            // What is shorter than an encoder holds goes out at its end.
            let is_cut = whole.len() > encode::HELD_BYTES;
            let least = (whole.len() / PIECE_BYTES_MAX).max(usize::from(is_cut));
            assert!(times >= least, "{text} as {format:?}: {times}");
        }
    }
}

#[test]
fn a_row_that_is_long_in_an_answer_does_not_make_a_piece_long() {
    let tag = "t".repeat(3000);
    let text = "x".repeat(5000);
    let line = |n: u64| format!("m,host={tag} f={n},s=\"{text}\" {n}\n");
    let store = TestStore::with(&(0..2000).map(line).collect::<String>());
    for query in ["SELECT f FROM m GROUP BY host", "SELECT s FROM m", "SELECT * FROM m"] {
        for format in FORMATS {
            let reluctant = Arc::new(Reluctant::default());
            let (_, times) = answered(&store, query, *format, Some(&reluctant));
            let most = reluctant.most.load(Ordering::Relaxed);
            let chunk = if format.chunk_size.is_some() { 777 * 8100 } else { 0 };
            assert!(most <= PIECE_BYTES_MAX + chunk, "{query} as {format:?}: {most} bytes");
            assert!(times > 0);
        }
    }
}

#[test]
fn a_client_chunk_counts_against_the_memory_of_its_query() {
    let store = store();
    let statements = parse("SELECT * FROM m", &Params::default()).unwrap();
    let mut context = Context::new("db", 0);
    context.chunk_size = Some(1_000_000);
    let limits = Limits { memory: Size::from_mib(1), ..Limits::default() };
    context.cancel = super::context::Cancel::new(&limits);
    let all = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&all);
    let out = move |piece: bytes::Bytes| {
        into.lock().unwrap().extend_from_slice(&piece);
        ControlFlow::Continue(())
    };
    let format = Format { chunk_size: context.chunk_size, ..Format::default() };
    let mut encoder = encode::new(format, Box::new(out));
    super::run(&store.store, &statements, &context, &mut *encoder, &mut |_| Ok(()));
    let text = String::from_utf8(all.lock().unwrap().clone()).unwrap();
    assert!(text.contains("query memory limit exceeded"), "{text:.300}");
    assert_eq!(context.cancel.memory(), 0);
}
