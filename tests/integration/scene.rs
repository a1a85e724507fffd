//! What most tests begin with: Weir in front of two fakes, and points that can be told apart.

use rig::fake::Fake;
use rig::sending;
use rig::weir::{Setup, Weir};

/// Nanoseconds of the first point: in the past, so that no server takes it for the future.
const FIRST_NS: u64 = 1_600_000_000_000_000_000;

/// Point number `n`, in the form Weir keeps it: its own series, value and time.
pub fn point(n: u64) -> String {
    format!("load,host=h{} v={n}i,note=\"point {n}\" {}\n", n % 7, FIRST_NS + n)
}

/// Points from `first` on.
pub fn points(first: u64, count: u64) -> String {
    (first..first + count).map(point).collect()
}

/// The requests of a load of single points.
pub fn single_points(db: &str) -> impl FnMut(u64, &mut Vec<u8>) + use<> {
    let target = format!("/write?db={db}");
    move |n, out| sending::put_post(out, &target, point(n).as_bytes())
}

/// Weir in front of two fakes that have the database `db`.
pub struct Scene {
    pub a: Fake,
    pub b: Fake,
    pub weir: Weir,
}

impl Scene {
    pub fn new() -> Self {
        Self::with(|setup| setup)
    }

    /// With changes to the configuration.
    pub fn with(change: impl FnOnce(Setup) -> Setup) -> Self {
        Self::with_b(change, "")
    }

    /// With more lines for the second backend: a short timeout where it is to hang, and nowhere
    /// else, since a busy machine lets a backend that is well miss it, too.
    pub fn with_b(change: impl FnOnce(Setup) -> Setup, b_lines: &str) -> Self {
        let (a, b) = (Fake::start("a", &["db"]), Fake::start("b", &["db"]));
        let setup = Setup::new().backend("a", &a.url()).backend_with("b", &b.url(), b_lines);
        Self { weir: change(setup).start(), a, b }
    }

    /// Writes points one by one, each of which must be acknowledged.
    #[track_caller]
    pub fn write_one_by_one(&self, first: u64, count: u64) {
        let mut connection = rig::http::Connection::open(self.weir.http).unwrap();
        for n in first..first + count {
            let request = rig::http::Request::post("/write?db=db", point(n));
            let answer = connection.send(&request).unwrap();
            assert_eq!(answer.status(), 204, "{}", answer.text());
        }
    }
}

/// Whether `lines` are exactly the points from `first` on, repetitions apart.
#[track_caller]
pub fn assert_points(fake: &Fake, first: u64, count: u64) {
    let mut lines = fake.lines();
    lines.sort();
    lines.dedup();
    let mut expected: Vec<String> =
        (first..first + count).map(|n| point(n).trim_end().to_owned()).collect();
    expected.sort();
    assert_eq!(lines.len(), expected.len(), "as many different points as were acknowledged");
    assert!(lines == expected, "every point as it was sent");
}
