//! Weir in front of one server, and another server with the same contents beside it.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, PoisonError};

use pg::{Client, Config, NoTls};
use rig::postgres::{Cluster, MessageClient, SUPERUSER, Setup as ClusterSetup, rows};
use rig::wait;
use rig::weir::{Setup, Weir};

use super::found::ServerCatalogue;

/// Who logs in. The last one has its connections for as long as it stays.
pub const USERS: [&str; 3] = ["ann", "bob", "sue"];

/// What clients write to.
const TABLES: [&str; 8] =
    ["dated", "noted", "numbered", "triggered", "defaulted", "checked", "ruled", "secrets"];

/// Both servers, and Weir in front of the first.
pub struct Stage {
    through: Mutex<Cluster>,
    pub beside: Cluster,
    pub weir: Weir,
    pub found: ServerCatalogue,
    /// Server connections of each user.
    pub pool: usize,
}

impl Stage {
    /// Starts all of it, with so many sequences that are one client's own.
    pub fn new(pool: usize, clients: usize, lines: &str) -> Self {
        let [through, beside] = [(); 2].map(|()| cluster(clients));
        let found = ServerCatalogue::find(&through, &beside);
        let weir = weir(&through, pool, clients, lines);
        Self { through: Mutex::new(through), beside, weir, found, pool }
    }

    /// How many server connections a user may have.
    pub fn room(&self, user: &str, clients: usize) -> usize {
        if user == USERS[2] { clients.max(1) } else { self.pool }
    }

    /// Clients of one user with the same words at their start: through Weir and directly.
    pub fn twins(&self, user: &str, options: &str) -> io::Result<[MessageClient; 2]> {
        let parameters = [("user", user), ("database", SUPERUSER), ("options", options)];
        let parameters = if options.is_empty() { &parameters[..2] } else { &parameters[..] };
        let through = MessageClient::connect(self.weir.postgres, parameters)?;
        Ok([through, MessageClient::connect(self.beside.address, parameters)?])
    }

    /// An operator at Weir's console.
    pub fn console(&self) -> Client {
        let mut config = Config::new();
        config.host(&self.weir.postgres.ip().to_string()).port(self.weir.postgres.port());
        config.user(SUPERUSER).dbname("weir").connect(NoTls).expect("an operator is let in")
    }

    /// Waits until both servers have the same locks and temporary tables: what somebody has left is
    /// gone from both.
    ///
    /// # Errors
    /// They have not within ten seconds.
    pub fn even(&self, admins: &mut [Client; 2]) -> Result<(), String> {
        const LEFT: &str = "SELECT (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'), \
            (SELECT count(*) FROM pg_class WHERE relpersistence = 't' AND relkind = 'r'), \
            (SELECT count(*) FROM pg_locks l JOIN pg_class c ON c.oid = l.relation \
             WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace \
             AND l.mode IN ('RowShareLock', 'RowExclusiveLock', 'AccessExclusiveLock'))";
        let begun = std::time::Instant::now();
        loop {
            let [a, b] =
                admins.each_mut().map(|admin| rows(admin, LEFT).map_err(|e| e.to_string()));
            let (a, b) = (a?, b?);
            if a == b {
                return Ok(());
            }
            if begun.elapsed() > std::time::Duration::from_secs(10) {
                let what = "advisory locks, temporary tables, locked tables";
                return Err(format!("{what} are {a:?} behind Weir and {b:?} directly"));
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }

    /// Gives the first server the rows and sequences of the second.
    ///
    /// # Errors
    /// A server does not do it.
    pub fn level(&self, admins: &mut [Client; 2]) -> Result<(), String> {
        let [to, from] = admins;
        let said = |error: pg::Error| error.to_string();
        to.batch_execute("SET session_replication_role = replica").map_err(said)?;
        for table in TABLES {
            let all = format!("SELECT coalesce(json_agg(t), '[]')::text FROM {table} t");
            let all = rows(from, &all).map_err(said)?.remove(0).remove(0).unwrap_or_default();
            let all = all.replace('\'', "''");
            let columns = format!("json_populate_recordset(NULL::{table}, '{all}')");
            let sql = format!("DELETE FROM {table}; INSERT INTO {table} SELECT * FROM {columns}");
            to.batch_execute(&sql).map_err(|error| format!("{table}: {error:?}"))?;
        }
        self.level_sequences(admins)
    }

    /// Gives the first server the sequences of the second.
    ///
    /// # Errors
    /// A server does not do it.
    pub fn level_sequences(&self, [to, from]: &mut [Client; 2]) -> Result<(), String> {
        let said = |error: pg::Error| error.to_string();
        let names = "SELECT oid::regclass::text FROM pg_class WHERE relkind = 'S'";
        for name in rows(from, names).map_err(said)?.into_iter().flatten().flatten() {
            let state = format!("SELECT last_value, is_called FROM {name}");
            let state = rows(from, &state).map_err(said)?.remove(0);
            let [Some(last), Some(called)] = &state[..] else { continue };
            let set = format!("SELECT setval('{name}', {last}, '{called}')");
            to.batch_execute(&set).map_err(|error| format!("{name}: {error:?}"))?;
        }
        Ok(())
    }

    /// Whether both servers have the same rows.
    ///
    /// # Errors
    /// They have not, or do not answer.
    pub fn same_rows(&self, admins: &mut [Client; 2]) -> Result<(), String> {
        for table in TABLES {
            let sql = format!("SELECT t::text FROM {table} t ORDER BY 1");
            let [a, b] =
                admins.each_mut().map(|admin| rows(admin, &sql).map_err(|e| e.to_string()));
            let (a, b) = (a?, b?);
            if a != b {
                let at = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
                let (a, b) = (a.get(at), b.get(at));
                return Err(format!("{table}: {a:?} behind Weir, and directly {b:?}"));
            }
        }
        Ok(())
    }

    /// Stops the first server at once and starts it again.
    pub fn restart(&self) {
        let mut through = self.through.lock().unwrap_or_else(PoisonError::into_inner);
        through.stop_at_once();
        through.start_again();
        // Temporary tables of those who were connected stay behind on any server.
        through.sql(
            "DO $$ DECLARE orphan text; BEGIN
                 FOR orphan IN SELECT oid::regclass FROM pg_class
                     WHERE relpersistence = 't' AND relkind = 'r'
                 LOOP EXECUTE 'DROP TABLE ' || orphan || ' CASCADE'; END LOOP;
             END $$",
        );
    }

    /// Superusers at both servers.
    pub fn admins(&self) -> [Client; 2] {
        let through = self.through.lock().unwrap_or_else(PoisonError::into_inner);
        [&*through, &self.beside].map(|cluster| cluster.connect().expect("the rig is let in"))
    }
}

fn cluster(clients: usize) -> Cluster {
    let cluster = ClusterSetup::new()
        .setting("lock_timeout", "400ms")
        .setting("autovacuum", "off")
        .setting("log_min_messages", "fatal")
        .start();
    cluster.sql(include_str!("contents.sql"));
    for client in 0..clients {
        cluster.sql(&format!(
            "CREATE SEQUENCE own_{client}; GRANT ALL ON SEQUENCE own_{client} TO public"
        ));
    }
    cluster
}

fn weir(cluster: &Cluster, pool: usize, clients: usize, lines: &str) -> Weir {
    let url = cluster.url();
    let sue = USERS[2];
    let table = format!(
        "[postgres]\nlisten = \"{{postgres}}\"\npoll-interval = \"200ms\"\n\
         poll-timeout = \"20s\"\n{lines}\n\
         [postgres.pool]\nsize = {pool}\n\
         [postgres.console]\nadmin-users = [\"{SUPERUSER}\"]\n\
         [[postgres.auth]]\naddress = [\"127.0.0.1\"]\nmethod = \"trust\"\n\
         [[postgres.user]]\nname = \"{sue}\"\nmode = \"session\"\npool-size = {}\n\
         [[postgres.backend]]\nname = \"a\"\nurl = \"{url}\"\n",
        clients.max(1) + 8
    );
    let weir = Setup::new().table(&table).start();
    let parameters = [("user", SUPERUSER), ("database", SUPERUSER)];
    wait::until("Weir has found its server", wait::LONG, || {
        MessageClient::connect(weir.postgres, &parameters).is_ok()
    });
    weir
}

/// Weir in front of a server, with all as it comes.
pub fn plain_weir(cluster: &Cluster) -> Weir {
    let url = cluster.url();
    let table = format!(
        "[postgres]\nlisten = \"{{postgres}}\"\npoll-interval = \"200ms\"\n\
         [[postgres.auth]]\naddress = [\"127.0.0.1\"]\nmethod = \"trust\"\n\
         [[postgres.backend]]\nname = \"a\"\nurl = \"{url}\"\n"
    );
    Setup::new().table(&table).start()
}

/// Ends some of the tellers' server processes, and now and then all of the server.
pub fn disturb(cluster: &mut Cluster, turn: u64) {
    match turn % 100 {
        40 => cluster.restart(),
        80 => {
            cluster.stop_at_once();
            cluster.start_again();
        }
        _ => {
            // It may be just starting.
            let _ = cluster.try_sql(
                "WITH theirs AS MATERIALIZED (SELECT pid FROM pg_stat_activity \
                 WHERE usename = 'teller' AND random() < 0.2) \
                 SELECT pg_terminate_backend(pid) FROM theirs",
            );
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }
}

/// Clients that have a server connection, by their port, as the console has it.
pub fn holders(console: &mut Client) -> Result<BTreeMap<u16, String>, String> {
    let shown = console.simple_query("SHOW CLIENTS").map_err(|error| error.to_string())?;
    let mut holders = BTreeMap::new();
    for message in shown {
        let pg::SimpleQueryMessage::Row(row) = message else { continue };
        let of = |column: &str| row.get(column).unwrap_or_default().to_owned();
        if !of("link").is_empty() {
            holders.insert(of("port").parse().unwrap_or(0), of("user"));
        }
    }
    Ok(holders)
}
