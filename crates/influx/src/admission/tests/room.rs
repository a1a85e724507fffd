//! No room: of the journal, and of a store that is too far behind it.

use std::time::Duration;

use disk::Faults;
use journal::{AckError, AppendError};
use store::catalogue::{Ids, Target};
use units::{Duration as Span, Size};

use super::{Rig, points, with_catalogue};
use crate::admission::{Destination, NotAdmitted, Points, Refusal};

fn somewhere() -> Destination<'static> {
    let target = Target { ids: Ids { db: 1, policy: 2 }, duration_ns: 0 };
    Destination { db: "d", policy: "autogen".into(), target: Some(target) }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_points_are_admitted_while_the_store_is_too_far_behind() {
    let rig = Rig::with_idle_store(|_| {});
    let worker = rig.worker();
    let room = rig.admission.room_now().expect("nothing has been written");
    let long = format!("m f=\"{}\" 1\n", "x".repeat(1 << 20));
    let admitted = worker.admit_now(room, &somewhere(), &mut points(&long)).unwrap();
    assert!(admitted.ticket.is_some());
    while rig.admission.room_now().is_some() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for refused in [
        rig.admission.room().await.map(drop),
        worker.admit(&somewhere(), points("m f=1 1\n")).await.map(drop),
        rig.admission.admit(&somewhere(), points("m f=1 1\n")).await.map(drop),
    ] {
        assert!(matches!(refused, Err(Refusal::Behind(_))), "{refused:?}");
    }
    let nothing = worker.admit(&somewhere(), points("")).await.unwrap();
    assert_eq!(nothing.points, 0, "no points need no room");
    rig.journal.close().await;
}

/// A point that takes a little over a mebibyte.
fn mebibyte() -> Points {
    points(&format!("m f=\"{}\" 1\n", "x".repeat(1 << 20)))
}

/// Admits until points are refused for this reason; all forms hear it then. A disk that is slow
/// for a moment is no reason to stop.
async fn are_refused_in_all_forms(rig: &Rig, reason: AppendError) {
    let (worker, to) = (rig.worker(), rig.admission.find("there", "").unwrap());
    let room = rig.admission.room_now().unwrap();
    let refused = Refusal::Append(reason);
    loop {
        match worker.admit_now(room, &to, &mut mebibyte()) {
            Ok(_) => {}
            Err(NotAdmitted::Refused(refusal)) if refusal == refused => break,
            Err(NotAdmitted::Refused(Refusal::Append(AppendError::Busy))) => {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(worker.admit(&to, mebibyte()).await, Err(refused.clone()));
    assert_eq!(rig.admission.admit(&to, mebibyte()).await, Err(refused));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_points_are_admitted_where_the_journal_is_full() {
    let small = |of: &mut journal::Settings| of.max_size = Size::from_mib(16);
    let rig = Rig::on(&Faults::default(), small, with_catalogue);
    let slow = rig.journal.consumer("slow", journal::Start::Oldest).unwrap();
    are_refused_in_all_forms(&rig, AppendError::Full).await;
    drop(slow);
    rig.journal.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_points_are_admitted_beyond_the_next_group_while_the_disk_stands_still() {
    let faults = Faults::default();
    let rig = Rig::on(&faults, |of| of.group_max = Size::from_mib(4), with_catalogue);
    faults.hold_syncs(true);
    are_refused_in_all_forms(&rig, AppendError::Busy).await;
    faults.hold_syncs(false);
    rig.journal.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn points_whose_sync_does_not_end_in_time_are_not_known_to_be_safe() {
    let faults = Faults::default();
    let soon = |of: &mut journal::Settings| of.ack_timeout = Span::from_millis(500);
    let rig = Rig::on(&faults, soon, with_catalogue);
    let (worker, to) = (rig.worker(), rig.admission.find("there", "").unwrap());
    let written = worker.admit(&to, points("m f=1 1\n")).await;
    assert!(written.is_ok(), "{written:?}");
    faults.hold_syncs(true);
    let late = Refusal::Unacknowledged(AckError::Timeout);
    assert_eq!(worker.admit(&to, points("m f=1 2\n")).await, Err(late.clone()));
    assert_eq!(rig.admission.admit(&to, points("m f=1 3\n")).await, Err(late));
    faults.hold_syncs(false);
    rig.journal.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_no_record_can_hold_is_refused_and_so_is_any_at_the_end() {
    let rig = Rig::with_store();
    let (worker, to) = (rig.worker(), rig.database().await);
    let room = rig.admission.room_now().unwrap();
    let long = format!("m f=\"{}\" 1\n", "x".repeat(5 << 20));
    let too_large = |refusal: &Refusal| {
        assert!(matches!(refusal, Refusal::Append(AppendError::TooLarge { .. })), "{refusal:?}");
    };
    match worker.admit_now(room, &to, &mut points(&long)) {
        Err(NotAdmitted::Refused(refusal)) => too_large(&refusal),
        other => panic!("{other:?}"),
    }
    too_large(&worker.admit(&to, points(&long)).await.unwrap_err());
    too_large(&rig.admission.admit(&to, points(&long)).await.unwrap_err());

    rig.journal.close().await;
    let closed = Refusal::Append(AppendError::Closed);
    let now = worker.admit_now(room, &to, &mut points("m g=1 1\n"));
    assert_eq!(now, Err(NotAdmitted::Refused(closed.clone())));
    assert_eq!(worker.admit(&to, points("m g=1 1\n")).await, Err(closed.clone()));
    assert_eq!(rig.admission.admit(&to, points("m g=1 1\n")).await, Err(closed));
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_no_record_can_hold_is_refused() {
    let rig = Rig::with_catalogue(Duration::from_secs(60));
    let name = "d".repeat(1 << 16);
    let to = Destination { db: &name, policy: "".into(), target: None };
    let room = rig.admission.room_now().unwrap();
    let refusal = Refusal::NameTooLong(crate::record::NameTooLong);
    let now = rig.worker().admit_now(room, &to, &mut points("m f=1 1\n"));
    assert_eq!(now, Err(NotAdmitted::Refused(refusal.clone())));
    assert_eq!(rig.admission.admit(&to, points("m f=1 1\n")).await, Err(refusal));
    rig.journal.close().await;
}
