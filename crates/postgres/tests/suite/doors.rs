//! Users that are not in the file, looked up at a server.

use std::sync::Arc;

use postgres::backends::Backends;
use postgres::door::{ClientEvidence, Doors, Salts};
use postgres::settings::{AuthQuery, BackendSettings, Settings, UserSettings};
use rig::postgres::{Auth, Cluster, PASSWORD, SUPERUSER, Setup};
use tokio::runtime::Handle;
use units::secret::Secret;
use watch::metrics::Registry;
use wire::postgres::{Refusal, sqlstate};

/// Whether a password may let `user` in, or what one hears whose password is none, if nobody can
/// say.
async fn known(doors: &Arc<Doors>, backends: &Arc<Backends>, user: &str) -> Result<bool, String> {
    let control = Handle::current();
    let local = Some("127.0.0.1".parse().unwrap());
    let found = doors.clone().find(backends, &control, local, false, "postgres", user).await;
    let door = found.map_err(|refusal| refusal.to_string())?;
    let ask = door.ask(user, &ClientEvidence::default()).map_err(|refusal| refusal.to_string())?;
    if ask.verifier.is_some() {
        return Ok(true);
    }
    let wrong = door.wrong(Refusal::fatal(sqlstate::INVALID_PASSWORD, "wrong"));
    if wrong.code == sqlstate::INVALID_PASSWORD { Ok(false) } else { Err(wrong.to_string()) }
}

fn settings(cluster: &Cluster, remember: units::Duration) -> Settings {
    let query = AuthQuery {
        password: Secret::new(PASSWORD),
        remember,
        query: "SELECT rolname, rolpassword FROM pg_authid WHERE rolname = $1".to_owned(),
        ..AuthQuery::new(SUPERUSER)
    };
    let backend = BackendSettings {
        user: SUPERUSER.to_owned(),
        password: Secret::new(PASSWORD),
        ..BackendSettings::new("a", &cluster.url())
    };
    let file = UserSettings {
        name: "filed".to_owned(),
        password: Secret::new("secret"),
        ..UserSettings::default()
    };
    Settings {
        auth_query: Some(query),
        backend: vec![backend],
        user: vec![file],
        ..Settings::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_that_is_not_in_the_file_is_looked_up_and_remembered() {
    let mut cluster = Setup::new().auth(Auth::Scram).start();
    cluster.sql(
        "CREATE ROLE ann LOGIN PASSWORD 'secret'; CREATE ROLE bare LOGIN;
         CREATE ROLE old LOGIN PASSWORD 'secret' VALID UNTIL '2001-01-01'",
    );
    for remember in [0, 3600] {
        let settings = settings(&cluster, units::Duration::from_secs(remember));
        let doors = Arc::new(Doors::new(&settings, &Salts::passing()).unwrap());
        let registry = Registry::default();
        let backends = Backends::start(&settings, &registry, &Handle::current()).unwrap();
        for _ in 0..2 {
            assert_eq!(known(&doors, &backends, "filed").await, Ok(true));
            assert_eq!(known(&doors, &backends, "ann").await, Ok(true));
            for user in ["old", "bare", "nobody"] {
                assert_eq!(known(&doors, &backends, user).await, Ok(false), "{user}");
            }
        }
        // The connection that was kept is gone; another one is made.
        cluster.restart();
        assert_eq!(known(&doors, &backends, "ann").await, Ok(true));
        // Nobody can say: not that the user does not exist.
        cluster.stop();
        let said = known(&doors, &backends, "ann").await;
        assert_eq!(said.is_ok(), remember > 0, "{said:?}");
        let said = known(&doors, &backends, "stranger").await;
        assert!(said.unwrap_err().contains("57P03"));
        assert_eq!(known(&doors, &backends, "filed").await, Ok(true));
        cluster.start_again();
    }
}
