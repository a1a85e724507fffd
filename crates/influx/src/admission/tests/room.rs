//! No room: of the journal, and of a store that is too far behind it.

use std::time::Duration;

use journal::AppendError;
use store::catalogue::{Ids, Target};

use super::{Rig, points};
use crate::admission::{Destination, NotAdmitted, Refusal};

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
