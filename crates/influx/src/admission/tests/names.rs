//! Names that are known, made, unknown and refused.

use std::time::Duration;

use journal::AppendError;

use super::{Rig, there};
use crate::admission::{NameError, Refusal};
use crate::embedded::Starting;

const LONG: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_nobody_knows_is_made_where_it_is_wanted() {
    for rig in [Rig::with_store(), Rig::with_catalogue(LONG)] {
        let admission = &rig.admission;
        assert_eq!(admission.find("d", ""), Err(NameError::NoDatabase));
        assert_eq!(admission.resolve("d", "", false).await, Err(NameError::NoDatabase));
        let made = admission.resolve("d", "", true).await.unwrap();
        assert_eq!((made.db, &*made.policy), ("d", "autogen"));
        assert_eq!(admission.find("d", ""), Ok(made.clone()));
        assert_eq!(admission.resolve("d", "", false).await, Ok(made.clone()));
        assert_eq!(admission.create_and_find("d", "autogen").await, Ok(made));
        assert_eq!(admission.find("d", "week"), Err(NameError::NoPolicy));
        assert_eq!(admission.resolve("d", "week", true).await, Err(NameError::NoPolicy));
        rig.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_gets_what_another_backend_has() {
    let rig = Rig::with_store();
    rig.catalogue.add("a", there());
    assert_eq!(rig.admission.find("there", ""), Err(NameError::NoDatabase));
    let copied = rig.admission.resolve("there", "", false).await.unwrap();
    assert!(copied.target.is_some());
    assert_eq!(rig.admission.find("there", ""), Ok(copied));
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_the_journal_does_not_take_is_refused() {
    let rig = Rig::with_catalogue(LONG);
    rig.journal.close().await;
    let closed = NameError::Refused(Refusal::Append(AppendError::Closed));
    assert_eq!(rig.admission.resolve("d", "", true).await, Err(closed.clone()));
    assert_eq!(rig.admission.create_and_find("d", "").await, Err(closed));
    assert!(rig.admission.find("there", "").is_ok(), "what is known needs no journal");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_starting_knows_no_names() {
    let rig = Rig::with_idle_store(|journal| {
        let append = journal.append_from_anywhere(1, 1, false, &[b"x"]);
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(append)).unwrap();
    });
    let starting = NameError::Refused(Refusal::Starting(Starting));
    assert_eq!(rig.admission.find("d", ""), Err(starting.clone()));
    assert_eq!(rig.admission.resolve("d", "", true).await, Err(starting));
    rig.journal.close().await;
}
