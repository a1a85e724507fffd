//! Points of a cluster: those that could not be found again, and the database of its table.

use std::time::Duration;

use wire::line::{Options, Outcome, Precision};

use super::Rig;
use crate::admission::{NameError, Points};
use crate::catalogue::Listing;
use crate::clock::now_ns;
use crate::placement::{DATABASE, PreparedTable, WrittenTable};
use crate::settings::{BackendTable, Settings};

const LONG: Duration = Duration::from_secs(60);
const BY_SERIES: &str = "\"series\"";
const BY_HOST: &str = "[\"host\"]";
const TWO_DAYS_NS: i64 = 48 * 3600 * 1_000_000_000;

/// From now on the one member `a` has the points, which are shared out by this.
fn share_out(rig: &Rig, by: &str) {
    let settings: Settings = toml::from_str(&format!(
        "[cluster]\nname = \"c\"\n[[set]]\nname = \"a\"\nmembers = [\"a\"]\n\
         [[placement]]\nsets = [\"a\"]\nsplit-by = {by}\n"
    ))
    .unwrap();
    let written = WrittenTable::of(&settings).unwrap().unwrap();
    let member = BackendTable::new("a", "http://127.0.0.1:1").settings().unwrap();
    let table = written.table(&[member]).unwrap();
    let wanted = PreparedTable { written, table, check_interval: LONG };
    let placement = rig.backends.placement();
    placement.put_in_force(placement.check(Some(wanted), &["a"]).unwrap());
}

fn read(points: Points, lines: &str) -> Points {
    let options =
        Options { precision: Precision::Nanosecond, now_ns: 1, stamp: &[], unsigned: false };
    points.read(lines.as_bytes(), &options, None)
}

fn account(points: u32, reason: Option<&str>) -> Outcome {
    let dropped = u32::from(reason.is_some());
    Outcome { points, dropped, reason: reason.map(str::to_owned), ..Outcome::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn points_that_could_not_be_found_again_are_left_out() {
    let ahead = now_ns() + TWO_DAYS_NS;
    let (good, late) = ("m v=1 1\n", format!("m v=2 {ahead}\n"));
    let (both, field) = (format!("{good}{late}"), "m v=1 1\nm host=\"a\" 2\n");
    let too_late = "points beyond influx.placement's future-max";
    let of_tag = "field \"host\" on measurement \"m\" has the name of a tag that points are \
                  shared out by";
    for (by, lines, account) in [
        (BY_SERIES, both.as_str(), account(1, Some(too_late))),
        (BY_SERIES, &late, account(0, Some(too_late))),
        (BY_SERIES, field, account(2, None)),
        (BY_HOST, &both, account(1, Some(too_late))),
        (BY_HOST, &late, account(0, Some(too_late))),
        (BY_HOST, field, account(1, Some(of_tag))),
    ] {
        let rig = Rig::with_catalogue(LONG);
        share_out(&rig, by);
        let (worker, to) = (rig.worker(), rig.admission.find("there", "").unwrap());
        let room = rig.admission.room_now().unwrap();
        let mut now = read(worker.points(), lines);
        let admitted = worker.admit_now(room, &to, &mut now).unwrap();
        assert_eq!(admitted.outcome, account, "{by} {lines:?} now");
        assert_eq!(admitted.ticket.is_some(), account.points > 0, "{by} {lines:?}");
        assert_eq!(rig.points_refused.get(), u64::from(account.dropped));
        let waited = worker.admit(&to, read(worker.points(), lines)).await;
        assert_eq!(waited.as_ref(), Ok(&account), "{by} {lines:?} with time");
        let aside = rig.admission.admit(&to, read(rig.admission.points(), lines)).await;
        assert_eq!(aside.as_ref(), Ok(&account), "{by} {lines:?} on another thread");
        assert_eq!(rig.points_refused.get(), u64::from(account.dropped) * 3);
        rig.journal.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn points_that_were_read_before_a_reload_are_judged_by_the_table_after_it() {
    let rig = Rig::with_catalogue(LONG);
    let (worker, to) = (rig.worker(), rig.admission.find("there", "").unwrap());
    share_out(&rig, BY_SERIES);
    let points = read(worker.points(), "m v=1 1\nm host=\"a\" 2\n");
    share_out(&rig, BY_HOST);
    let outcome = worker.admit(&to, points).await.unwrap();
    assert_eq!((outcome.points, outcome.dropped), (1, 1));
    rig.journal.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_line_is_noted_what_the_table_looks_at() {
    let rig = Rig::with_catalogue(LONG);
    let noted = || {
        let points = read(rig.admission.points(), "m v=1 1\nm v=1 3\nm v=1 2\n");
        let room_beside_lines = points.room_for(b"m v=1 1") - b"m v=1 1".len();
        (points.newest_ns(), room_beside_lines > 0)
    };
    assert_eq!(noted(), (None, false), "complete copies");
    share_out(&rig, BY_SERIES);
    assert_eq!(noted(), (Some(3), false), "the latest time");
    share_out(&rig, BY_HOST);
    assert_eq!(noted(), (None, true), "a mark of each line");
    rig.journal.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_writes_to_the_database_of_the_table() {
    let rig = Rig::with_catalogue(LONG);
    let mut listing = Listing::default();
    for db in ["there", DATABASE] {
        listing.apply(&crate::admission::change_in(&format!("CREATE DATABASE {db}")));
    }
    rig.catalogue.add("a", listing);
    assert!(rig.admission.find(DATABASE, "").is_ok(), "where there is no table it is as any other");
    share_out(&rig, BY_SERIES);
    assert_eq!(rig.admission.find(DATABASE, ""), Err(NameError::NoDatabase));
    let made = rig.admission.resolve(DATABASE, "", true).await;
    assert_eq!(made, Err(NameError::NoDatabase));
    assert!(rig.admission.find("there", "").is_ok());
    rig.journal.close().await;
}
