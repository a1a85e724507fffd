//! A journal whose files have been damaged in any way: it opens or says why not, hands out only
//! records that were appended, in order and unaltered, and is clean when opened once more.
#![no_main]

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use journal::{Ack, Chunk, ConsumeError, Consumer, Journal, Outcome, Settings, Start, inspect};
use libfuzzer_sys::fuzz_target;
use units::{Duration, Size};
use watch::metrics::Registry;

/// Records of the intact journal: several segments, groups of one record and of many.
const RECORDS: u32 = 120;
const CHUNK_BYTES_MAX: usize = 1 << 20;
const CURSOR: &str = "fuzz";

/// The files of an intact journal.
static INTACT: OnceLock<Vec<(String, Vec<u8>)>> = OnceLock::new();

fuzz_target!(|damage: &[u8]| {
    let intact = INTACT.get_or_init(intact);
    let dir = tempdir();
    write_damaged(dir.path(), intact, damage);

    let _ = inspect::inspect(dir.path()).map(|report| report.to_string());
    let _ = inspect::verify(dir.path()).map(|report| report.to_string());
    let Ok((journal, recovery)) = Journal::open(settings(dir.path()), &Registry::default()) else {
        return;
    };
    recovery.to_string();
    let first = read_all(journal);
    if damage.is_empty() {
        assert_eq!(first, RECORDS as usize);
    }

    let (journal, recovery) = Journal::open(settings(dir.path()), &Registry::default())
        .expect("a journal that has been recovered opens");
    assert!(recovery.cut.is_none(), "{recovery}");
    assert!(read_all(journal) <= first);
});

fn tempdir() -> tempfile::TempDir {
    // Memory, where there is such a directory: every run syncs files.
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .expect("a directory for a journal")
}

fn settings(dir: &Path) -> Settings {
    Settings {
        dir: dir.to_owned(),
        ack: Ack::Written,
        segment_size: Size::from_kib(64),
        max_size: Size::from_mib(4),
        group_max: Size::from_kib(32),
        memory_tail: Size::from_kib(8),
        flush_interval: Duration::from_millis(5),
        ..Settings::default()
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime")
}

/// The nth record says which it is, and every byte of it follows from that.
fn payload(n: u32) -> Vec<u8> {
    let len = 8 + (n as usize * 37) % 2_000;
    n.to_le_bytes().into_iter().cycle().take(len).collect()
}

fn intact() -> Vec<(String, Vec<u8>)> {
    let dir = tempdir();
    let (journal, _) =
        Journal::open(settings(dir.path()), &Registry::default()).expect("a new journal");
    let consumer = journal.consumer(CURSOR, Start::Oldest).expect("a new cursor");
    runtime().block_on(async {
        let appender = journal.appender();
        for n in 0..RECORDS {
            let ticket = appender.append(1, n, n % 7 == 0, &[&payload(n)]).expect("room");
            if n % 3 == 0 {
                appender.acknowledged(ticket).await.expect("written");
            }
        }
        journal.close().await;
    });
    drop(consumer);
    fs::read_dir(dir.path())
        .expect("the journal's directory")
        .map(|entry| {
            let path = entry.expect("an entry").path();
            let name = path.file_name().and_then(|name| name.to_str()).expect("a plain name");
            (name.to_owned(), fs::read(&path).expect("a file"))
        })
        .collect()
}

/// Six bytes of input are one damage: which file, what, where, and with which byte.
fn write_damaged(dir: &Path, intact: &[(String, Vec<u8>)], damage: &[u8]) {
    let mut files: Vec<Option<Vec<u8>>> =
        intact.iter().map(|(_, bytes)| Some(bytes.clone())).collect();
    for bytes in damage.chunks(6) {
        let mut one = [0; 6];
        one[..bytes.len()].copy_from_slice(bytes);
        let file = usize::from(one[0]) % files.len();
        let Some(bytes) = &mut files[file] else { continue };
        let at = usize::from(one[2]) | usize::from(one[3]) << 8 | usize::from(one[4]) << 16;
        let at = at % (bytes.len() + 1);
        match one[1] % 5 {
            0 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= one[5]),
            1 => bytes.iter_mut().skip(at).take(512).for_each(|byte| *byte = one[5]),
            2 => bytes.truncate(at),
            3 => bytes.copy_within(at.., at / 2),
            _ => files[file] = None,
        }
    }
    for ((name, _), bytes) in intact.iter().zip(files) {
        if let Some(bytes) = bytes {
            fs::write(dir.join(name), bytes).expect("room for a journal");
        }
    }
}

/// How many records the journal hands out.
fn read_all(journal: Journal) -> usize {
    let Ok(mut consumer) = journal.consumer(CURSOR, Start::Oldest) else { return 0 };
    runtime().block_on(async {
        journal.close().await;
        let mut count = 0;
        let mut next = 0;
        while let Some(chunk) = next_chunk(&mut consumer).await {
            for record in chunk.records() {
                assert!(record.items >= next, "{} after {next}", record.items);
                assert_eq!(record.payload, payload(record.items));
                next = record.items + 1;
                count += 1;
            }
            consumer
                .commit(chunk.end(), Outcome { delivered: chunk.items(), ..Outcome::default() });
        }
        count
    })
}

async fn next_chunk(consumer: &mut Consumer) -> Option<Chunk> {
    match consumer.next(CHUNK_BYTES_MAX).await {
        Ok(chunk) => Some(chunk),
        Err(ConsumeError::Closed) => None,
        Err(error) => panic!("{error}"),
    }
}
