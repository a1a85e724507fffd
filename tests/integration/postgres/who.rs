//! Clients that are known without a password: by the user of the system, and by a certificate.

use std::path::Path;
use std::process::Command;

use pg::NoTls;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair};
use rig::postgres::{Cluster, psql};
use rig::weir::{Setup, Weir};

use super::scene::{said, value};

/// Weir with a Unix socket and TLS in `dir`, in front of a cluster that trusts everyone.
fn weir(cluster: &Cluster, dir: &Path, rules: &str) -> Weir {
    let (certificate, key) = rig::tls::Certificate::new().write(dir);
    let table = format!(
        "[postgres]\nlisten = \"{{postgres}}\"\nunix-sockets = {dir:?}\n\
         [postgres.tls]\ncertificate = {certificate:?}\nkey = {key:?}\nrequired = false\n\
         client-ca = {:?}\n{rules}\n\
         [[postgres.backend]]\nname = \"a\"\nurl = \"{}\"\n",
        dir.join("ca.pem"),
        cluster.url()
    );
    Setup::new().table(&table).start()
}

/// An authority, and certificates that it has signed for these names, as files in `dir`.
fn certificates(dir: &Path, names: &[&str]) {
    let write = |name: String, text: String| {
        use std::os::unix::fs::PermissionsExt as _;
        let file = dir.join(name);
        std::fs::write(&file, text).expect("a file can be written");
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(file, mode).expect("its mode can be set");
    };
    let mut params = CertificateParams::new(Vec::new()).expect("no names are good names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_key = KeyPair::generate().expect("a key can be made");
    let ca = params.self_signed(&ca_key).expect("a certificate can be made");
    write("ca.pem".to_owned(), ca.pem());
    for name in names {
        let mut params = CertificateParams::new(Vec::new()).expect("no names are good names");
        params.distinguished_name.push(DnType::CommonName, *name);
        let key = KeyPair::generate().expect("a key can be made");
        let made = params.signed_by(&key, &ca, &ca_key).expect("a certificate can be made");
        write(format!("{name}.pem"), made.pem());
        write(format!("{name}.key"), key.serialize_pem());
    }
}

/// Who `user` is on the server after a login by TLS, with the certificate of `name`.
fn by_certificate(
    weir: &Weir,
    dir: &Path,
    user: &str,
    name: Option<&str>,
) -> Result<String, String> {
    let (host, port) = (weir.postgres.ip(), weir.postgres.port());
    let mut dsn = format!(
        "host={host} port={port} user={user} dbname=postgres password=secret sslmode=require"
    );
    if let Some(name) = name {
        let (pem, key) = (dir.join(format!("{name}.pem")), dir.join(format!("{name}.key")));
        dsn += &format!(" sslcert={} sslkey={}", pem.display(), key.display());
    }
    psql(&dsn, "SELECT current_user", &[("HOME", dir.as_os_str())])
}

#[test]
fn a_user_of_the_system_is_let_in_by_its_name_or_a_map() {
    let cluster = Cluster::start();
    let me = Command::new("id").arg("-un").output().expect("id is there").stdout;
    let me = String::from_utf8(me).expect("a name").trim().to_owned();
    cluster.sql(&format!(
        "CREATE ROLE ann LOGIN; CREATE ROLE bob LOGIN;
         DO $$ BEGIN CREATE ROLE \"{me}\" LOGIN; EXCEPTION WHEN duplicate_object THEN END $$"
    ));
    let dir = tempfile::tempdir().expect("a directory");
    certificates(dir.path(), &[]);
    let rule = "[[postgres.auth]]\nfrom = \"local\"\nmethod = \"peer\"\n";
    let log_in = |weir: &Weir, user: &str| {
        let mut config = pg::Config::new();
        config.host_path(dir.path()).port(weir.postgres.port()).user(user).dbname("postgres");
        let mut client = config.connect(NoTls).map_err(|error| said(&error))?;
        value(&mut client, "SELECT current_user")
    };
    let failed = |user: &str| Err(format!("28000 peer authentication failed for user \"{user}\""));
    {
        let weir = weir(&cluster, dir.path(), rule);
        assert_eq!(log_in(&weir, &me), Ok(me.clone()));
        assert_eq!(log_in(&weir, "ann"), failed("ann"));
    }
    let weir = weir(&cluster, dir.path(), &format!("{rule}map = {{ {me:?} = [\"ann\"] }}\n"));
    assert_eq!(log_in(&weir, "ann"), Ok("ann".to_owned()));
    assert_eq!(log_in(&weir, "bob"), failed("bob"));
    assert_eq!(log_in(&weir, &me), failed(&me), "the map says all");
}

#[test]
fn a_certificate_lets_in_whom_it_names_and_may_be_asked_for_beside_a_password() {
    let cluster = Cluster::start();
    cluster.sql("CREATE ROLE ann LOGIN; CREATE ROLE app LOGIN; CREATE ROLE bob LOGIN");
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    certificates(dir, &["ann", "deploy"]);
    let rules = "[[postgres.auth]]\nfrom = \"hostssl\"\nuser = [\"ann\"]\nmethod = \"cert\"\n\
                 [[postgres.auth]]\nfrom = \"hostssl\"\nuser = [\"app\"]\nmethod = \"cert\"\n\
                 map = { deploy = [\"app\"] }\n\
                 [[postgres.auth]]\nfrom = \"hostssl\"\nmethod = \"scram-sha-256\"\n\
                 client-certificate = \"verify-ca\"\n\
                 [[postgres.user]]\nname = \"bob\"\npassword = \"secret\"\n";
    let weir = weir(&cluster, dir, rules);
    assert_eq!(by_certificate(&weir, dir, "ann", Some("ann")), Ok("ann".to_owned()));
    assert_eq!(by_certificate(&weir, dir, "app", Some("deploy")), Ok("app".to_owned()));
    for (user, name) in [("ann", Some("deploy")), ("ann", None), ("app", Some("ann"))] {
        let said = by_certificate(&weir, dir, user, name).expect_err("it names somebody else");
        let wanted = format!("certificate authentication failed for user \"{user}\"");
        assert!(said.contains(&wanted), "{user} {name:?}: {said}");
    }
    assert_eq!(by_certificate(&weir, dir, "bob", Some("ann")), Ok("bob".to_owned()));
    let said = by_certificate(&weir, dir, "bob", None).expect_err("a password is not all");
    assert!(said.contains("connection requires a valid client certificate"), "{said}");
}

#[test]
fn rules_that_cannot_hold_are_refused_at_the_start() {
    for (rule, says) in [
        ("method = \"peer\"", "is for Unix sockets"),
        ("from = \"hostssl\"\nmethod = \"cert\"", "needs [postgres.tls]"),
        ("method = \"trust\"\naddress = [\"::1\"]\nmap = { a = [\"b\"] }", "takes no map"),
        ("method = \"md5\"\nclient-certificate = \"verify-ca\"", "needs TLS; write"),
    ] {
        let table = format!(
            "[postgres]\nlisten = \"{{postgres}}\"\n[[postgres.auth]]\n{rule}\n\
             [[postgres.user]]\nname = \"ann\"\npassword = \"secret\"\n\
             [[postgres.backend]]\nname = \"a\"\nurl = \"postgresql://127.0.0.1:1\"\n"
        );
        let (code, log) = Setup::new().table(&table).prepare().start_in_vain();
        assert!(code != Some(0) && log.contains(says), "{rule}: {log}");
    }
}
