//! Who wrote which points, and that collisions are looked for among those the journal has.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use watch::metrics::{Counter, Registry};
use watch::watchdog::Pulse;
use wire::line::{MarkKey, Marks, Notes, Options, Precision, Sample, Sampler};

use super::Rig;
use crate::admission::{Admission, Points, WorkerAdmission};
use crate::aside::Aside;
use crate::collisions::{Collisions, Source};
use crate::settings::CollisionSettings;

const OPTIONS: Options<'_> =
    Options { precision: Precision::Nanosecond, now_ns: 1, stamp: &[], unsigned: false };

/// The chosen points with the numbers of the connections that wrote them.
fn written(points: &Points) -> Vec<(u32, &str)> {
    let text = |record| std::str::from_utf8(record).unwrap();
    points.written().map(|point| (point.source.connection, text(point.record))).collect()
}

#[test]
fn each_point_is_its_writers_whatever_is_left_out() {
    let sample = Some(Sample::new(Sampler::new(1, 1.0)));
    let marks = Some(Marks::new(MarkKey::default()));
    let mut points = Points::new(Vec::new(), Notes { marks, newest: None, sample });
    let [ann, bob] = [1, 2].map(|connection| Some(Source { connection, address: 7 }));
    for (datagram, source) in [
        ("m f=1 1\nm f=2 2", ann),
        ("m f=3 3", ann),
        ("m f=4 4\nm f=5 5", bob),
        ("m f=6 6", ann),
        ("m f=7 7", None),
    ] {
        points.add_whole(datagram.as_bytes(), &OPTIONS, || source).unwrap();
    }
    let of_all = [
        (1, "m f=1 1\n"),
        (1, "m f=2 2\n"),
        (1, "m f=3 3\n"),
        (2, "m f=4 4\n"),
        (2, "m f=5 5\n"),
        (1, "m f=6 6\n"),
    ];
    assert_eq!(written(&points), of_all);
    assert_eq!(points.leave_out(&[0, 4], Some("why".to_owned())), 2);
    assert_eq!(written(&points), [of_all[1], of_all[2], of_all[3], of_all[5]]);
}

#[test]
fn a_body_has_room_for_its_bytes_and_a_note_of_each_line() {
    let marked = Notes { marks: Some(Marks::new(MarkKey::default())), ..Notes::default() };
    let points = Points::new(Vec::new(), marked);
    let of_a_line = points.room_for(b"");
    assert!(of_a_line > 0);
    assert_eq!(points.room_for(b"m f=1\nm f=2"), 11 + 2 * of_a_line);
    assert_eq!(points.room_for(b"m f=1\nm f=2\n"), 12 + 3 * of_a_line, "at most");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_overwrites_another_is_noticed_once_the_journal_has_the_point() {
    let rig = Rig::with_catalogue(Duration::from_secs(60));
    let collisions = Collisions::new(&CollisionSettings::default(), &Registry::new()).unwrap();
    let admission = Admission::new(
        Arc::clone(&rig.catalogue),
        Arc::clone(&rig.backends),
        None,
        &rig.journal,
        Aside::new(Handle::current()),
        Counter::new(),
        Some(Arc::clone(&collisions)),
    );
    let worker = WorkerAdmission::new(Arc::clone(&admission), &rig.journal, Pulse::new("test"));
    let to = admission.find("there", "").unwrap();
    let source = |host| Some(collisions.add_source(SocketAddr::from(([127, 0, 0, host], 1)), None));
    let overwritten = || {
        let status = serde_json::to_value(collisions.status(true)).unwrap();
        status["measurements"][0]["overwritten"]["hosts"].as_u64().unwrap_or(0)
    };
    let first = worker.points().read(b"m f=1 1", &OPTIONS, source(1));
    worker.admit(&to, first).await.unwrap();
    assert_eq!(overwritten(), 0);
    let second = worker.points().read(b"m f=2 1", &OPTIONS, source(2));
    worker.admit(&to, second).await.unwrap();
    assert_eq!(overwritten(), 1);
    let third = admission.points().read(b"m f=3 1", &OPTIONS, source(3));
    admission.admit(&to, third).await.unwrap();
    assert_eq!(overwritten(), 2);
    rig.journal.close().await;
    let refused = worker.points().read(b"m f=4 1", &OPTIONS, source(4));
    worker.admit(&to, refused).await.unwrap_err();
    assert_eq!(overwritten(), 2, "the journal does not have it");
}
