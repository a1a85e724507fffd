//! The console beside a real PgBouncer: whoever reads its tables by name or by place reads ours.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use postgres::Settings;
use postgres::console::{Show, Snapshot};

const PGBOUNCER: &str = "/usr/sbin/pgbouncer";

struct PgBouncer {
    process: Child,
    port: u16,
    _dir: tempfile::TempDir,
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl PgBouncer {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let port = rig::places::free_address().port();
        let ini = dir.path().join("pgbouncer.ini");
        let text = format!(
            "[databases]\none = host=127.0.0.1 port=1\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = any\nadmin_users = adm\n"
        );
        std::fs::write(&ini, text).unwrap();
        // It refuses to run as root; the user must be able to read its file.
        let mut command = Command::new(PGBOUNCER);
        if std::fs::metadata("/proc/self").is_ok_and(|of| {
            use std::os::unix::fs::MetadataExt as _;
            of.uid() == 0
        }) {
            use std::os::unix::fs::PermissionsExt as _;
            let open = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(dir.path(), open).unwrap();
            command.args(["-u", "postgres"]);
        }
        let process = command.arg("-q").arg(&ini).stderr(Stdio::null()).spawn().unwrap();
        Self { process, port, _dir: dir }
    }

    /// The columns of a `SHOW`, or of what it says instead.
    fn columns(&self, table: &str) -> Option<Vec<String>> {
        let deadline = Instant::now() + rig::wait::LONG;
        loop {
            let port = self.port.to_string();
            let asked = Command::new("psql")
                .args(["-X", "-h", "127.0.0.1", "-p", &port, "-U", "adm", "-A", "-F", ","])
                .args(["-c", &format!("show {table}"), "pgbouncer"])
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&asked.stderr).into_owned();
            if asked.status.success() {
                let text = String::from_utf8_lossy(&asked.stdout).into_owned();
                let first = text.lines().next().unwrap_or_default();
                return Some(first.split(',').map(str::to_owned).collect());
            }
            if said.contains("invalid command") {
                return None;
            }
            assert!(Instant::now() < deadline, "{said}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Columns that newer versions have renamed.
fn renamed(column: &str) -> &str {
    if column == "reserve_pool" { "reserve_pool_size" } else { column }
}

#[test]
fn every_table_of_pgbouncer_is_there_with_its_columns_in_order() {
    let pgbouncer = PgBouncer::start();
    let settings = Settings::default();
    let mut compared = 0;
    for (name, show) in Show::ALL {
        let Some(theirs) = pgbouncer.columns(name) else {
            continue;
        };
        let table = show.table(&Snapshot::default(), &settings);
        let mut ours = table.names();
        for column in &theirs {
            let wanted = renamed(column);
            let found = ours.any(|name| name == wanted);
            assert!(found, "SHOW {name}: {column} is missing or out of order");
        }
        compared += 1;
    }
    assert!(compared >= 15, "only {compared} tables were compared");
}
