use super::*;
use crate::settings::BackendTable;

fn catalogue(dir: &Path, names: &[&str]) -> Catalogue {
    let catalogue = Catalogue::open(dir).unwrap();
    for name in names {
        let settings = BackendTable::new(name, "http://127.0.0.1:1").settings().unwrap();
        let client = Client::new(settings.server().unwrap(), None).unwrap();
        catalogue.ask(name, Arc::new(client));
    }
    catalogue
}

fn create(name: &str) -> Change {
    Change::CreateDatabase { name: name.into(), policy: None }
}

fn drop_database(name: &str) -> Change {
    Change::DropDatabase { name: name.into() }
}

fn with(names: &[&str]) -> Listing {
    let mut listing = Listing::default();
    for name in names {
        listing.apply(&create(name));
    }
    listing
}

fn names(catalogue: &Catalogue) -> Vec<String> {
    catalogue.snapshot().databases().map(str::to_owned).collect()
}

#[tokio::test]
async fn every_name_is_accepted_until_someone_has_answered() {
    let dir = tempfile::tempdir().unwrap();
    let catalogue = catalogue(dir.path(), &["a"]);
    assert!(!catalogue.snapshot().known());
    assert_eq!(catalogue.snapshot().lookup("x", "y"), Lookup::Policy("y".into()));
    catalogue.listed("a", Position::ZERO, with(&["d"]));
    let snapshot = catalogue.snapshot();
    assert_eq!(snapshot.lookup("d", ""), Lookup::Policy("autogen".into()));
    assert_eq!(snapshot.lookup("d", "autogen"), Lookup::Policy("autogen".into()));
    assert_eq!(snapshot.lookup("d", "y"), Lookup::NoPolicy);
    assert_eq!(snapshot.lookup("x", ""), Lookup::NoDatabase);
    // The backend cannot be reached: the answer is what was known, and comes soon.
    assert_eq!(catalogue.resolve("x", "").await, Lookup::NoDatabase);
    assert_eq!(catalogue.resolve("d", "").await, Lookup::Policy("autogen".into()));
}

#[tokio::test]
async fn a_dropped_database_stays_dropped_though_a_lagging_backend_lists_it() {
    let dir = tempfile::tempdir().unwrap();
    let catalogue = catalogue(dir.path(), &["a", "b"]);
    catalogue.listed("a", Position::ZERO, with(&["d"]));
    catalogue.listed("b", Position::ZERO, with(&["d"]));
    catalogue.apply(Position(10), &drop_database("d"));
    assert!(names(&catalogue).is_empty());
    catalogue.executed("a", Position(10));
    catalogue.listed("a", Position(10), with(&[]));
    catalogue.listed("b", Position::ZERO, with(&["d"]));
    assert!(names(&catalogue).is_empty());
    catalogue.executed("b", Position(10));
    assert!(names(&catalogue).is_empty());
    assert!(catalogue.lock().pending.is_empty());
}

#[tokio::test]
async fn a_listing_asked_for_before_a_statement_ran_is_not_taken() {
    let dir = tempfile::tempdir().unwrap();
    let catalogue = catalogue(dir.path(), &["a"]);
    catalogue.listed("a", Position::ZERO, with(&[]));
    catalogue.apply(Position(10), &create("d"));
    assert_eq!(names(&catalogue), ["d"]);
    catalogue.executed("a", Position(10));
    assert!(!catalogue.listed("a", Position::ZERO, with(&[])));
    assert_eq!(names(&catalogue), ["d"]);
    assert!(catalogue.listed("a", Position(10), with(&["d", "e"])));
    assert_eq!(names(&catalogue), ["d", "e"]);
}

#[tokio::test]
async fn a_statement_may_have_run_before_it_is_taken_into_account() {
    let dir = tempfile::tempdir().unwrap();
    let catalogue = catalogue(dir.path(), &["a", "b"]);
    catalogue.listed("a", Position::ZERO, with(&["old"]));
    catalogue.listed("b", Position::ZERO, with(&["old"]));
    catalogue.executed("a", Position(10));
    catalogue.apply(Position(10), &create("d"));
    assert_eq!(names(&catalogue), ["d", "old"]);
    catalogue.executed("b", Position(10));
    assert_eq!(names(&catalogue), ["d", "old"]);
    catalogue.executed("a", Position(20));
    catalogue.executed("b", Position(20));
    catalogue.apply(Position(20), &drop_database("d"));
    assert_eq!(names(&catalogue), ["old"]);
    assert!(catalogue.lock().pending.is_empty());
    // Two that are taken in the other order still run in the journal's.
    catalogue.apply(Position(40), &drop_database("e"));
    catalogue.apply(Position(30), &create("e"));
    assert_eq!(names(&catalogue), ["old"]);
}

#[tokio::test]
async fn names_are_known_after_a_restart_with_all_backends_down() {
    let dir = tempfile::tempdir().unwrap();
    {
        let catalogue = catalogue(dir.path(), &["a"]);
        catalogue.listed("a", Position::ZERO, with(&["d"]));
        catalogue.keep().await;
    }
    let opened = catalogue(dir.path(), &["a", "b"]);
    assert!(opened.snapshot().known());
    assert_eq!(names(&opened), ["d"]);
    std::fs::write(dir.path().join("catalogue.json"), b"{").unwrap();
    assert!(!catalogue(dir.path(), &["a"]).snapshot().known());
}

#[tokio::test]
async fn what_only_a_removed_backend_had_is_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let catalogue = catalogue(dir.path(), &["a", "b"]);
    catalogue.listed("a", Position::ZERO, with(&["d", "e"]));
    catalogue.listed("b", Position::ZERO, with(&["d"]));
    catalogue.apply(Position(10), &drop_database("d"));
    catalogue.executed("b", Position(10));
    catalogue.remove("a");
    assert_eq!(names(&catalogue), Vec::<String>::new());
    assert!(!catalogue.listed("a", Position::ZERO, with(&["e"])), "an answer that comes late");
    // One that begins anew keeps what it listed.
    catalogue.apply(Position(20), &create("f"));
    catalogue.executed("b", Position(20));
    let settings = BackendTable::new("b", "http://127.0.0.1:2").settings().unwrap();
    catalogue.ask("b", Arc::new(Client::new(settings.server().unwrap(), None).unwrap()));
    assert_eq!(names(&catalogue), ["f"]);
}
