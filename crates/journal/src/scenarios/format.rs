//! Every format ever written stays readable: the files in `fixtures` are never written again.

use std::path::{Path, PathBuf};

use super::{Rig, assert_accounted, put, put_all};
use crate::inspect::verify;
use crate::{Outcome, Start};

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/version-1")
}

/// Records `0..60` and a control record; the cursor `a` has ten of them delivered or given up.
#[tokio::test]
async fn a_journal_of_version_1_is_read() {
    let rig = Rig::new();
    std::fs::create_dir_all(&rig.settings.dir).unwrap();
    for entry in std::fs::read_dir(fixture()).unwrap() {
        let from = entry.unwrap().path();
        std::fs::copy(&from, rig.settings.dir.join(from.file_name().unwrap())).unwrap();
    }
    let report = verify(&rig.settings.dir).unwrap();
    assert!(report.is_intact(), "{report}");
    assert_eq!(report.segments[0].counts.items, 60);
    let (journal, recovery) = rig.open();
    assert!(recovery.is_clean(), "{recovery}");
    let mut consumer = journal.consumer("a", Start::End).unwrap();
    let status = consumer.status();
    assert_accounted(&status);
    assert_eq!((status.accepted, status.delivered), (60, 5));
    assert_eq!((status.dead_lettered, status.dropped), (3, 2));
    assert_eq!((status.waiting.items, status.waiting.controls), (50, 1));
    let control = consumer.next(1 << 20).await.unwrap();
    let control = control.records().find(|record| record.control).map(|r| r.payload.to_vec());
    assert_eq!(control.as_deref(), Some(&b"CREATE"[..]));
}

/// How the fixture was made. A later version writes another directory, and reads both.
#[tokio::test]
#[ignore = "writes the fixture of the version being developed"]
async fn write_the_fixture() {
    let rig = Rig::new();
    let (journal, _) = rig.open();
    let mut consumer = journal.consumer("a", Start::Oldest).unwrap();
    for n in 0..10 {
        put(&journal, n).await.unwrap();
    }
    let mut up_to = consumer.position();
    while consumer.backlog().items > 0 {
        let chunk = consumer.next(1 << 20).await.unwrap();
        up_to = chunk.end();
        if chunk.items() + consumer.status().delivered >= 10 {
            break;
        }
    }
    let done = Outcome { delivered: 5, dead_lettered: 3, dropped: 2, elsewhere: 0 };
    consumer.commit_and_sync(up_to, done).await.unwrap();
    put_all(&journal, 10..60).await;
    let control = journal.append_from_anywhere(2, 0, true, &[b"CREATE"]);
    control.await.unwrap();
    let end = journal.status().released_end;
    journal.close().await;
    let target = fixture();
    std::fs::create_dir_all(&target).unwrap();
    let segment = rig.segments().remove(0);
    for from in
        [segment.clone(), rig.settings.dir.join("journal.id"), rig.settings.dir.join("a.cursor")]
    {
        std::fs::copy(&from, target.join(from.file_name().unwrap())).unwrap();
    }
    let copy = target.join(segment.file_name().unwrap());
    let copy = std::fs::File::options().write(true).open(copy).unwrap();
    copy.set_len(4096 + end.0).unwrap();
}
