//! A catalogue that Weir's own user may not look into.

use rig::postgres::Cluster;
use rig::weir::Setup;

use pg::NoTls;

use super::scene::{config, until_known};

#[test]
fn reads_are_proven_where_weir_itself_may_not_connect_to_the_database() {
    let cluster = Cluster::start();
    cluster.sql("CREATE DATABASE tenant");
    cluster.sql(
        "CREATE ROLE weir LOGIN IN ROLE pg_monitor; CREATE ROLE app LOGIN;
         REVOKE CONNECT ON DATABASE tenant FROM public;
         GRANT CONNECT ON DATABASE tenant TO app",
    );
    let url = cluster.url().replace("postgres@", "");
    let table = format!(
        "[postgres]\nlisten = \"{{postgres}}\"\n\
         [[postgres.auth]]\naddress = [\"127.0.0.1\"]\nmethod = \"trust\"\n\
         [[postgres.backend]]\nname = \"a\"\nurl = \"{url}\"\nuser = \"weir\"\n"
    );
    let weir = Setup::new().table(&table).start();
    let mut app = config(weir.postgres, "app", "tenant").connect(NoTls).expect("it is let in");
    until_known(&weir, &mut app);
}
