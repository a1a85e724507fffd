//! Drivers of PostgreSQL that nobody here wrote, each by the script of its folder in
//! `tests/clients`: by SCRAM, over TLS or a Unix socket, to Weir, which knows the user's verifier
//! and no password, and from there to the server with what the driver's proof gave away.

use rig::places;
use rig::postgres::{Auth, Cluster, PASSWORD, SUPERUSER, Setup as ClusterSetup};
use rig::tls::Certificate;
use rig::weir::{Setup, Weir};

const USER: &str = "driver";
const SECRET: &str = "a driver's sécret";

/// Weir under TLS before a cluster that asks for SCRAM.
fn weir(cluster: &Cluster, dir: &std::path::Path) -> Weir {
    cluster.create_user(USER, SECRET);
    cluster.create_database(USER, USER);
    let query = format!("SELECT rolpassword FROM pg_authid WHERE rolname = '{USER}'");
    let (verifier, url) = (cluster.value(&query), cluster.url());
    let (certificate, key) = Certificate::new().write(dir);
    let (certificate, key, dir) = (certificate.display(), key.display(), dir.display());
    let table = format!(
        "[postgres]\nlisten = \"{{postgres}}\"\nunix-sockets = \"{dir}\"\n\
         [postgres.tls]\ncertificate = \"{certificate}\"\nkey = \"{key}\"\n\
         [[postgres.user]]\nname = \"{USER}\"\npassword = \"{verifier}\"\n\
         [[postgres.backend]]\nname = \"a\"\nurl = \"{url}\"\n\
         user = \"{SUPERUSER}\"\npassword = \"{PASSWORD}\"\n"
    );
    Setup::new().table(&table).start()
}

#[track_caller]
fn run(folder: &str) {
    let dir = tempfile::tempdir().expect("a directory");
    let cluster = ClusterSetup::new().auth(Auth::Scram).start();
    let weir = weir(&cluster, dir.path());
    let mut script = rig::clients::script(folder);
    script
        .env("WEIR_DIR", dir.path())
        .env("WEIR_PG_HOST", weir.postgres.ip().to_string())
        .env("WEIR_PG_PORT", weir.postgres.port().to_string())
        .env("WEIR_PG_USER", USER)
        .env("WEIR_PG_PASSWORD", SECRET)
        .env("WEIR_PG_DATABASE", USER)
        .env("WEIR_TOKIO_POSTGRES", env!("CARGO_BIN_EXE_tokio-postgres"));
    rig::clients::run(&mut script);
}

#[test]
fn psycopg() {
    places::need("python3");
    run("psycopg");
}

#[test]
fn asyncpg() {
    places::need("python3");
    run("asyncpg");
}

#[test]
fn node_postgres() {
    places::need("npm");
    run("node-postgres");
}

#[test]
fn pgjdbc() {
    places::need("javac");
    run("jdbc");
}

#[test]
fn tokio_postgres() {
    run("tokio-postgres");
}

/// Go is not what `make test` installs, so this is tried where its owner has put it on the `PATH`.
#[test]
fn pgx_where_go_is_on_the_path() {
    if places::find("go").is_none() {
        println!("go is not on the PATH: not tried");
        return;
    }
    run("pgx");
}
