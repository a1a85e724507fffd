//! What becomes of points: admitted, refused for their types, or neither for a while.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use journal::{AckError, Tickets};
use wire::line::{MarkKey, Marks, Options, Outcome, Precision};

use super::{Rig, points};
use crate::admission::{Admitted, NotAdmitted, Points, Refusal};

const CONFLICT: &str = "field type conflict: input field \"f\" on measurement \"m\" is type \
                        integer, already exists as type float";

/// The account of a write of which so many points conflict.
fn account(points: u32, dropped: u32) -> Outcome {
    let reason = (dropped > 0).then(|| CONFLICT.to_owned());
    Outcome { points, dropped, reason, ..Outcome::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn points_of_another_type_than_their_field_are_left_out() {
    let rig = Rig::with_store();
    rig.write("m f=1 1\n").await;
    let (worker, to) = (rig.worker(), rig.database().await);
    for (lines, account) in [
        ("m f=2 2\nm g=1 2\n", account(2, 0)),
        ("m f=2i 2\nm g=2 3\n", account(1, 1)),
        ("m f=2i 2\nm f=3i,g=2 3\n", account(0, 2)),
        ("", account(0, 0)),
    ] {
        let room = rig.admission.room_now().unwrap();
        let mut now = points(lines);
        let refused = rig.points_refused.get();
        let admitted = worker.admit_now(room, &to, &mut now).unwrap();
        assert_eq!(admitted.outcome, account, "{lines:?} now");
        assert_eq!(admitted.ticket.is_some(), account.points > 0, "{lines:?}");
        assert_eq!(rig.points_refused.get() - refused, u64::from(account.dropped));
        let waited = worker.admit(&to, points(lines)).await.unwrap();
        assert_eq!(waited, account, "{lines:?} with time");
        let aside = rig.admission.admit(&to, points(lines)).await.unwrap();
        assert_eq!(aside, account, "{lines:?} on another thread");
        let all = u64::from(account.dropped) * 3;
        assert_eq!(rig.points_refused.get() - refused, all);
    }
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_that_a_write_under_way_promises_is_waited_for() {
    let rig = Rig::with_store();
    let (worker, to) = (rig.worker(), rig.database().await);
    // A write that is checked, and never comes into the journal.
    let store = Arc::clone(rig.embedded.as_ref().unwrap().store());
    let lines = b"m f=1 1\n";
    let ids = to.target.unwrap().ids;
    let marks = Marks::of(MarkKey::default(), lines);
    store::Checker::new(store).check(ids, lines, &marks, 0, usize::MAX).unwrap();

    let room = rig.admission.room_now().unwrap();
    let mut now = points("m f=2i 2\n");
    assert_eq!(worker.admit_now(room, &to, &mut now), Err(NotAdmitted::NotNow));
    assert_eq!((now.count(), now.lines()), (1, b"m f=2i 2\n".as_slice()), "nothing was done");
    let outcome = worker.admit(&to, now).await.unwrap();
    assert_eq!(outcome, account(1, 0), "the promise came to nothing");
    rig.admission.readable().await.unwrap();
    let conflict = rig.admission.admit(&to, points("m f=2 3\n")).await.unwrap();
    assert_eq!((conflict.points, conflict.dropped), (0, 1));
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn datagrams_are_gathered_whole_or_not_at_all_and_checked_together() {
    let rig = Rig::with_store();
    let (worker, to) = (rig.worker(), rig.database().await);
    rig.write("m f=1 1\n").await;
    let options =
        Options { precision: Precision::Nanosecond, now_ns: 7, stamp: &[], unsigned: false };
    let mut gathered = worker.points();
    gathered.add_whole(b"m f=2 2\nm f=3i 3", &options, || None).unwrap();
    gathered.add_whole(b"m f=4 4\nm f=", &options, || None).unwrap_err();
    gathered.add_whole(b"m f=5 5\nm g=t", &options, || None).unwrap();
    assert_eq!(gathered.lines(), b"m f=2 2\nm f=3i 3\nm f=5 5\nm g=t 7\n");
    let room = rig.admission.room_now().unwrap();
    let admitted = worker.admit_now(room, &to, &mut gathered).unwrap();
    assert_eq!(admitted.outcome, account(3, 1));
    assert_eq!(gathered.lines(), b"m f=2 2\nm f=5 5\nm g=t 7\n");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_buffer_of_lines_is_used_again_unless_it_is_large() {
    let rig = Rig::with_catalogue(Duration::from_secs(60));
    let worker = rig.worker();
    for (capacity, kept) in [(100, true), (2 << 20, false)] {
        worker.recycle(Points::of_lines(Vec::with_capacity(capacity)));
        assert_eq!(worker.points().capacity() >= capacity, kept);
    }
    let to = rig.admission.find("there", "").unwrap();
    worker.admit(&to, points("m f=1 1\n")).await.unwrap();
    let empty = worker.points();
    assert!(empty.lines().is_empty() && empty.capacity() > 0, "that of the write");
    rig.journal.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acknowledgement_that_never_comes_is_waited_for_no_longer_than_the_timeout() {
    let rig = Rig::with_catalogue(Duration::from_millis(50));
    let to = rig.admission.find("there", "").unwrap();
    let (writer, other) = (rig.worker(), rig.worker());
    let room = rig.admission.room_now().unwrap();
    let admit = || writer.admit_now(room, &to, &mut points("m f=1 1\n")).unwrap();
    // For whoever has appended nothing, the second record of another one never comes.
    let (_, admitted) = (admit(), admit());
    let mut waiting = Tickets::new();
    waiting.push(admitted.ticket.unwrap(), "second");
    let settled = poll_fn(|cx| other.poll_acknowledged(&mut waiting, cx)).await;
    assert_eq!(settled, Some(("second", Err(AckError::Timeout))));
    let waited = rig.admission.acknowledged(admitted).await;
    assert_eq!(waited, Err(Refusal::Unacknowledged(AckError::Timeout)));

    let mut waiting = Tickets::new();
    let Admitted { ticket, .. } = admit();
    waiting.push(ticket.unwrap(), "third");
    let settled = poll_fn(|cx| writer.poll_acknowledged(&mut waiting, cx)).await;
    assert!(settled.is_some_and(|(which, _)| which == "third"));
    rig.journal.close().await;
}
