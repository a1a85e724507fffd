//! Every setting of PgBouncer (1.25 and before) and what becomes of it. The tables of
//! `docs/pgbouncer.md` are made from these.

/// What becomes of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum To {
    /// The key of this path under `[postgres]`, a number.
    Count(&'static str),
    /// The same, a duration; PgBouncer gives seconds.
    Seconds(&'static str),
    /// The same, a list of words.
    Words(&'static str),
    /// Something that needs more than a new name; in words.
    As(&'static str),
    /// Nothing, for this reason.
    Nothing(&'static str),
}

use To::{As, Count, Nothing, Seconds, Words};

const LOG: &str = "Weir logs to standard error, see [log]; the service manager keeps it";
const COUNTED: &str = "counted and measured in /metrics instead of being logged";
const RESOLVED: &str = "names are resolved by the system at each new connection";
const TLS: &str = "rustls offers TLS 1.2 and 1.3 with safe ciphers and curves only";
const PROCESS: &str = "the service manager's business";
const SOCKET: &str = "set as it should be for every socket";
const RESERVE: &str =
    "lanes take the load that a reserve is for; raise pool.size where leases wait";
const RESTART: &str = "for PgBouncer's restart, which hands sockets over";
const ONE_PROCESS: &str = "one process uses all cores, so a cancel request finds its statement";

/// `[pgbouncer]`.
pub const GATEWAY: &[(&str, To)] = &[
    ("admin_users", Words("console.admin-users")),
    ("application_name_add_host", As("`application-name = \"client-and-address\"`")),
    ("auth_dbname", As("`[postgres.auth-query]` `database`")),
    ("auth_file", As("`[[postgres.user]]`, one for each line")),
    ("auth_hba_file", As("`[[postgres.auth]]`, one for each line")),
    ("auth_ident_file", As("`map` of each `[[postgres.auth]]`; patterns are not known")),
    ("auth_ldap_options", Nothing("there is no LDAP; see `auth_type`")),
    ("auth_query", As("`[postgres.auth-query]` `query`, unless it is PgBouncer's own")),
    ("auth_type", As("`[[postgres.auth]]`; none is `md5`, but SCRAM for clear passwords")),
    ("auth_user", As("`[postgres.auth-query]` `user`")),
    ("autodb_idle_timeout", Nothing("an unused database costs nothing once its connections are")),
    ("cancel_wait_timeout", Seconds("timeouts.cancel")),
    ("client_idle_timeout", Seconds("timeouts.idle")),
    ("client_login_timeout", Seconds("timeouts.login")),
    ("client_tls13_ciphers", Nothing(TLS)),
    ("client_tls_ca_file", As("`[postgres.tls]` `client-ca`")),
    ("client_tls_cert_file", As("`[postgres.tls]` `certificate`")),
    ("client_tls_ciphers", Nothing(TLS)),
    ("client_tls_dheparams", Nothing(TLS)),
    ("client_tls_ecdhcurve", Nothing(TLS)),
    ("client_tls_key_file", As("`[postgres.tls]` `key`")),
    ("client_tls_protocols", Nothing(TLS)),
    ("client_tls_sslmode", As("`[postgres.tls]`, its `required`, and `allow-cleartext`")),
    ("conffile", Nothing("`--config` of the command line")),
    ("default_pool_size", Count("pool.size")),
    ("disable_pqexec", Nothing("psql speaks the simple protocol; parameters are the guard")),
    ("dns_max_ttl", Nothing(RESOLVED)),
    ("dns_nxdomain_ttl", Nothing(RESOLVED)),
    ("dns_zone_check_period", Nothing(RESOLVED)),
    ("idle_transaction_timeout", Seconds("timeouts.idle-in-transaction")),
    ("ignore_startup_parameters", Words("ignore-startup-parameters")),
    ("job_name", Nothing(PROCESS)),
    ("listen_addr", As("`listen`")),
    ("listen_backlog", Nothing(SOCKET)),
    ("listen_port", As("the port in `listen`")),
    ("log_connections", Nothing(COUNTED)),
    ("log_disconnections", Nothing(COUNTED)),
    ("log_pooler_errors", Nothing(COUNTED)),
    ("log_stats", Nothing(COUNTED)),
    ("logfile", Nothing(LOG)),
    ("login_notify_message", Nothing("a notice at each login breaks drivers that expect none")),
    ("max_client_conn", Count("max-connections")),
    ("max_db_client_connections", Count("max-connections-per-database")),
    ("max_db_connections", Count("pool.max-per-database")),
    ("max_packet_size", As("`max-message`, at most 1GiB")),
    ("max_prepared_statements", As("`prepared-statements`; they can't be turned off")),
    ("max_user_client_connections", Count("max-connections-per-user")),
    ("max_user_connections", Count("pool.max-per-user")),
    ("min_pool_size", Count("pool.min-idle")),
    ("peer_id", Nothing(ONE_PROCESS)),
    ("pidfile", Nothing(PROCESS)),
    ("pkt_buf", Nothing("buffers are as large as what goes through them")),
    ("pool_idle_timeout", Nothing("a pool without connections costs nothing")),
    ("pool_mode", As("`mode`; `statement` becomes `transaction`")),
    ("query_timeout", Seconds("timeouts.query")),
    ("query_wait_notify", Nothing("waiting clients are seen in SHOW CLIENTS and /metrics")),
    ("query_wait_timeout", Seconds("timeouts.query-wait")),
    ("reserve_pool_size", Nothing(RESERVE)),
    ("reserve_pool_timeout", Nothing(RESERVE)),
    ("resolv_conf", Nothing(RESOLVED)),
    ("sbuf_loopcnt", Nothing("a large answer takes its turns with others in any case")),
    (
        "scram_iterations",
        Nothing("4096, as PostgreSQL; only for passwords that are given in clear"),
    ),
    ("server_check_delay", Nothing("a closed server connection is seen at once, without asking")),
    ("server_check_query", Nothing("a closed server connection is seen at once, without asking")),
    ("server_connect_timeout", As("`connect-timeout` of each `[[postgres.backend]]`")),
    ("server_fast_close", Nothing("KILL does it for one database")),
    ("server_idle_timeout", Seconds("pool.idle-timeout")),
    ("server_lifetime", Seconds("pool.max-age")),
    ("server_login_retry", Seconds("pool.login-retry")),
    ("server_reset_query", Nothing("DISCARD ALL, wherever a session leaves state behind")),
    ("server_reset_query_always", Nothing("state that a session leaves behind is seen and undone")),
    ("server_round_robin", Nothing("reads are spread by what is in flight at each server")),
    ("server_tls13_ciphers", Nothing(TLS)),
    ("server_tls_ca_file", As("`ca` of each `[[postgres.backend]]`")),
    ("server_tls_cert_file", As("`certificate` of each `[[postgres.backend]]`")),
    ("server_tls_ciphers", Nothing(TLS)),
    ("server_tls_key_file", As("`key` of each `[[postgres.backend]]`")),
    ("server_tls_protocols", Nothing(TLS)),
    ("server_tls_sslmode", As("`tls` of each `[[postgres.backend]]`")),
    ("service_name", Nothing(PROCESS)),
    ("so_reuseport", Nothing("Weir's workers do that by themselves")),
    ("stats_period", Nothing("60 s for the averages in SHOW; /metrics has counts since the start")),
    ("stats_users", Words("console.stats-users")),
    ("suspend_timeout", Nothing(RESTART)),
    ("syslog", Nothing(LOG)),
    ("syslog_facility", Nothing(LOG)),
    ("syslog_ident", Nothing(LOG)),
    ("tcp_defer_accept", Nothing(SOCKET)),
    ("tcp_keepalive", Nothing(SOCKET)),
    ("tcp_keepcnt", Nothing(SOCKET)),
    ("tcp_keepidle", Nothing(SOCKET)),
    ("tcp_keepintvl", Nothing(SOCKET)),
    ("tcp_socket_buffer", Nothing(SOCKET)),
    ("tcp_user_timeout", As("`tcp-user-timeout` above the tables; 0 is Weir's 60s")),
    ("track_extra_parameters", Nothing("every setting of a session is kept for it")),
    ("transaction_timeout", Seconds("timeouts.transaction")),
    ("unix_socket_dir", As("`unix-sockets`, and the `url` of servers without a host")),
    ("unix_socket_group", Nothing("make the directory setgid, see `unix-socket-mode`")),
    ("unix_socket_mode", As("`unix-socket-mode`")),
    ("user", Nothing(PROCESS)),
    ("verbose", Nothing("`level` in `[log]`")),
];

/// A line of `[databases]`: keys of `[[postgres.database]]`.
pub const DATABASE: &[(&str, To)] = &[
    ("application_name", As("`settings`")),
    ("auth_dbname", As("`[postgres.auth-query]` `database`, where all say the same")),
    ("auth_query", As("`[postgres.auth-query]` `query`, where all say the same")),
    ("auth_user", As("`[postgres.auth-query]` `user`, where all say the same")),
    ("client_encoding", As("`settings`")),
    ("connect_query", As("`settings`, where it is `SET`; else nothing: use ALTER ROLE ... SET")),
    ("datestyle", As("`settings`")),
    ("dbname", As("`dbname`")),
    ("host", As("a `[[postgres.backend]]`, or one for each of a list")),
    ("load_balance_hosts", Nothing("reads are spread by what is in flight at each server")),
    ("max_db_client_connections", Count("max-connections")),
    ("max_db_connections", Count("max-server-connections")),
    ("min_pool_size", Count("min-idle")),
    ("password", As("`password`")),
    ("pool_mode", As("`mode`")),
    ("pool_size", Count("pool-size")),
    ("port", As("the port in the `url` of the `[[postgres.backend]]`")),
    ("query_wait_timeout", Seconds("query-wait")),
    ("reserve_pool", Nothing(RESERVE)),
    ("reserve_pool_size", Nothing(RESERVE)),
    ("server_lifetime", Seconds("max-age")),
    ("timezone", As("`settings`")),
    ("user", As("`user`")),
];

/// A line of `[users]`: keys of `[[postgres.user]]`.
pub const USER: &[(&str, To)] = &[
    ("client_idle_timeout", Seconds("idle")),
    ("idle_transaction_timeout", Seconds("idle-in-transaction")),
    ("max_user_client_connections", Count("max-connections")),
    ("max_user_connections", Count("max-server-connections")),
    ("pool_mode", As("`mode`")),
    ("pool_size", Count("pool-size")),
    ("query_timeout", Seconds("query")),
    ("query_wait_timeout", Seconds("query-wait")),
    ("reserve_pool_size", Nothing(RESERVE)),
    ("transaction_timeout", Seconds("transaction")),
];

/// What becomes of a key; `None` is one that PgBouncer does not know either.
pub fn find(keys: &[(&str, To)], name: &str) -> Option<To> {
    keys.iter().find(|(known, _)| *known == name).map(|(_, to)| *to)
}

/// A duration of PgBouncer's, in seconds with a fraction, as TOML.
pub fn seconds(value: &str) -> Option<String> {
    let seconds: f64 = value.parse().ok()?;
    if !(0.0..1e9).contains(&seconds) {
        return None;
    }
    let whole = std::time::Duration::from_millis((seconds * 1000.0).round() as u64);
    Some(units::draft::text(&units::Duration::from(whole).to_string()))
}

/// A list of words, as TOML.
pub fn words(value: &str) -> Vec<String> {
    let words = value.split([',', ' ', '\t']).map(str::trim).filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}
