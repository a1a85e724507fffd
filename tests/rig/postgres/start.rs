//! What a cluster is to be like.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::{Cluster, PASSWORD, SUPERUSER, account, template};
use crate::tls::Certificate;

/// What each cluster is started with: room for many clients, replicas that follow at once.
const SETTINGS: &str = "\
listen_addresses = '127.0.0.1'
max_connections = 400
wal_level = replica
max_wal_senders = 10
wal_keep_size = '1GB'
hot_standby = on
wal_retrieve_retry_interval = '100ms'
wal_receiver_status_interval = '1s'
log_line_prefix = '%m [%p] %q%u@%d '
";

/// What a cluster goes without when no test of it cuts the power.
const FAST: &str = "\
fsync = off
full_page_writes = off
";

/// How clients prove who they are. The superuser is trusted on the Unix socket in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Auth {
    /// Clients log in without a password (`trust`).
    Trust,
    /// Clients log in by SCRAM-SHA-256.
    Scram,
    /// MD5, with verifiers of that kind.
    Md5,
    /// The password in the clear.
    Password,
}

impl Auth {
    const fn name(self) -> &'static str {
        match self {
            Self::Trust => "trust",
            Self::Scram => "scram-sha-256",
            Self::Md5 => "md5",
            Self::Password => "password",
        }
    }
}

/// A cluster before it starts.
#[derive(Debug, Clone)]
pub struct Setup {
    auth: Auth,
    tls: bool,
    durable: bool,
    own_identity: bool,
    hba: Vec<String>,
    settings: Vec<(String, String)>,
    environment: Vec<(String, String)>,
    files: Vec<(String, String)>,
}

impl Default for Setup {
    fn default() -> Self {
        Self::new()
    }
}

impl Setup {
    /// Trust, no TLS, nothing synced.
    pub fn new() -> Self {
        Self {
            auth: Auth::Trust,
            tls: false,
            durable: false,
            own_identity: false,
            hba: Vec::new(),
            settings: Vec::new(),
            environment: Vec::new(),
            files: Vec::new(),
        }
    }

    /// How clients prove who they are.
    #[must_use]
    pub fn auth(mut self, auth: Auth) -> Self {
        self.auth = auth;
        self
    }

    /// Takes TLS too, with a certificate of its own: see [`Cluster::certificate`].
    #[must_use]
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// Syncs as PostgreSQL does by default.
    #[must_use]
    pub fn durable(mut self) -> Self {
        self.durable = true;
        self
    }

    /// A system identifier that no other cluster has, for a second more.
    #[must_use]
    pub fn own_identity(mut self) -> Self {
        self.own_identity = true;
        self
    }

    /// A line of `pg_hba.conf`, before those for everyone.
    #[must_use]
    pub fn hba(mut self, line: &str) -> Self {
        self.hba.push(line.to_owned());
        self
    }

    /// A setting of `postgresql.conf`.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A variable of the server's environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A file in the data directory, which only the server may read.
    #[must_use]
    pub fn file(mut self, name: &str, text: &str) -> Self {
        self.files.push((name.to_owned(), text.to_owned()));
        self
    }

    /// Starts it and waits until it answers.
    ///
    /// # Panics
    /// When PostgreSQL is missing or does not start.
    pub fn start(self) -> Cluster {
        let mut cluster = Cluster::empty(self);
        template::make(&cluster.data(), !cluster.setup.own_identity);
        cluster.certificate = cluster.setup.tls.then(Certificate::new);
        cluster.configure();
        cluster.start_again();
        if cluster.setup.auth == Auth::Md5 {
            // The one of the template is for SCRAM.
            cluster.sql(&format!("ALTER ROLE {SUPERUSER} PASSWORD '{}'", quoted(PASSWORD)));
        }
        cluster
    }

    /// The variables that the server's process is started with.
    pub(super) fn environment(&self) -> &[(String, String)] {
        &self.environment
    }

    fn access(&self) -> String {
        let method = self.auth.name();
        // The rig itself always gets in.
        let mut text =
            format!("local all {SUPERUSER} trust\nlocal replication {SUPERUSER} trust\n");
        for line in &self.hba {
            let _ = writeln!(text, "{line}");
        }
        let _ = write!(
            text,
            "local all all {method}\n\
             host all all 127.0.0.1/32 {method}\n\
             host replication all 127.0.0.1/32 {method}\n"
        );
        text
    }
}

impl Cluster {
    /// Writes its configuration; what comes last in the file holds.
    pub(super) fn configure(&self) {
        let (data, setup) = (self.data(), &self.setup);
        let mut text = format!("\n{SETTINGS}");
        let _ = writeln!(text, "port = {}", self.address.port());
        let _ = writeln!(text, "unix_socket_directories = '{}'", self.sockets.path().display());
        if !setup.durable {
            text.push_str(FAST);
        }
        if setup.auth == Auth::Md5 {
            text.push_str("password_encryption = md5\n");
        }
        if let Some(certificate) = &self.certificate {
            let (certificate, key) = certificate.write(&data);
            own(&certificate);
            own(&key);
            text.push_str(
                "ssl = on\nssl_cert_file = 'certificate.pem'\nssl_key_file = 'key.pem'\n",
            );
        }
        for (name, value) in &setup.settings {
            let _ = writeln!(text, "{name} = '{}'", quoted(value));
        }
        for (name, text) in &setup.files {
            let path = data.join(name);
            std::fs::write(&path, text).expect("a file can be written");
            own(&path);
        }
        let file = OpenOptions::new().append(true).open(data.join("postgresql.conf"));
        file.expect("the configuration").write_all(text.as_bytes()).expect("room on the disk");
        std::fs::write(data.join("pg_hba.conf"), setup.access()).expect("a file can be written");
    }
}

/// Gives a file to the server and keeps it from others, which it insists on for a key.
fn own(path: &Path) {
    let private = PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(path, private).expect("our own file");
    account::give(path);
}

pub(super) fn quoted(text: &str) -> String {
    text.replace('\'', "''")
}
