//! Weir in front of clusters, and clients through it.

use std::fmt::Write as _;
use std::time::Duration;

use pg::{Client, Config, NoTls};
use rig::postgres::{Cluster, SUPERUSER};
use rig::weir::{Setup, Weir};

/// Weir in front of clusters that trust everyone, with more lines in `[postgres]`.
pub fn weir(clusters: &[&Cluster], lines: &str) -> Weir {
    let mut table = format!(
        "[postgres]\nlisten = \"{{postgres}}\"\npoll-interval = \"200ms\"\n\
         poll-timeout = \"1s\"\n{lines}\n\
         [[postgres.auth]]\naddress = [\"127.0.0.1\"]\nmethod = \"trust\"\n"
    );
    for (name, cluster) in ["a", "b", "c"].iter().zip(clusters) {
        let url = cluster.url();
        let _ = writeln!(table, "[[postgres.backend]]\nname = \"{name}\"\nurl = \"{url}\"");
    }
    Setup::new().table(&table).start()
}

/// A client through Weir.
pub fn client(weir: &Weir) -> Result<Client, pg::Error> {
    let mut config = Config::new();
    config.host(&weir.postgres.ip().to_string()).port(weir.postgres.port());
    config.user(SUPERUSER).dbname(SUPERUSER).connect_timeout(Duration::from_secs(30));
    config.connect(NoTls)
}
