use std::path::Path;

use serde::Deserialize;
use units::draft::Conversion;

use super::{RelayError, relay};
use crate::settings::Settings;

/// As its repository has it, of the version with buffers and the one with UDP.
const BUFFERED: &str = r#"
[[http]]
name = "example-http"
bind-addr = "127.0.0.1:9096"

[[http.output]]
name = "local1"
location = "http://127.0.0.1:8086/write"
buffer-size-mb = 100
max-batch-kb = 50
max-delay-interval = "5s"

[[http.output]]
name = "local2"
location = "http://127.0.0.1:7086/write"
timeout = "20s"
skip-tls-verification = true
"#;
const UDP: &str = r#"
[[udp]]
name = "example-udp"
bind-addr = ":9096"
read-buffer = 4096
precision = "s"
output = [
    { name="local1", location="127.0.0.1:8089", mtu=512 },
]
"#;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    influx: Settings,
}

/// What a file becomes, which must be a configuration that can be used, and what is to be done.
#[track_caller]
fn migrated(content: &str) -> (Settings, Vec<String>, String) {
    let Conversion { toml, to_do } = relay(Path::new("relay.toml"), content).unwrap();
    let file: File = toml::from_str(&toml).unwrap_or_else(|error| panic!("{error}\n{toml}"));
    if let Err(error) = file.influx.validate() {
        panic!("{error}\n{toml}");
    }
    for backend in &file.influx.backend {
        backend.validate().unwrap_or_else(|error| panic!("{error}\n{toml}"));
    }
    (file.influx, to_do, toml)
}

#[test]
fn what_the_relay_wrote_to_weir_writes_to() {
    let (settings, to_do, text) = migrated(BUFFERED);
    assert_eq!(to_do, Vec::<String>::new(), "{text}");
    assert_eq!(settings.listen, ["127.0.0.1:9096".parse().unwrap()]);
    let [one, two] = &settings.backend[..] else { panic!("two servers") };
    assert_eq!((one.name.as_str(), one.url.as_str()), ("local1", "http://127.0.0.1:8086"));
    assert_eq!((two.timeout.to_string(), two.insecure_skip_verify), ("20s".to_owned(), true));
    for words in ["buffer-size-mb = 100", "max-batch-kb = 50", "max-delay-interval = 5s"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn points_by_udp_need_a_database_and_go_to_the_same_servers() {
    let (settings, to_do, text) = migrated(&format!("{BUFFERED}{UDP}"));
    let udp = &settings.udp[0];
    assert_eq!((udp.listen, udp.precision.as_str()), ("[::]:9096".parse().unwrap(), "s"));
    assert_eq!((settings.backend.len(), udp.receive_buffer.to_string()), (2, "4KiB".to_owned()));
    assert!(to_do.len() == 1 && to_do[0].contains("write the database of its points"), "{text}");
    // Alone, nobody knows where its server takes HTTP.
    let (settings, to_do, _) = migrated(UDP);
    assert_eq!(settings.backend[0].url, "http://127.0.0.1:8086");
    assert!(to_do[0].contains("put its port in place of 8086"), "{to_do:?}");
}

#[test]
fn what_one_weir_can_not_do_is_something_to_do() {
    let second = |location: &str, address: &str| {
        let output = format!("output = [{{ location = {location:?} }}]");
        format!("{BUFFERED}[[http]]\nname = \"b\"\nbind-addr = {address:?}\n{output}\n")
    };
    let told = |content: &str| migrated(content).1.join("\n");
    let words = told(&second("http://10.0.0.9:8086/write", ":9097"));
    assert!(words.contains("[[http]] b has other servers"), "{words}");
    let one = "[[http]]\nbind-addr = \"cache:1\"\n\
               output = [{ name = \"a/b\", location = \"http://h:8086/api/v2/write?org=o\" }]\n\
               rate-limit = 5\n";
    let (settings, to_do, text) = migrated(one);
    assert_eq!(settings.backend[0].name, "a-b");
    assert!(to_do.join("\n").contains("is not a server's /write"), "{to_do:?}");
    assert!(to_do.join("\n").contains("bind-addr = \"cache:1\""), "{to_do:?}");
    assert!(text.contains("- rate-limit = 5"), "{text}");
    // The same servers behind two addresses are one Weir.
    let twice = BUFFERED.replace("9096", "9097");
    let (settings, to_do, _) = migrated(&format!("{BUFFERED}{twice}"));
    assert_eq!((settings.listen.len(), settings.backend.len(), to_do.len()), (2, 2, 0));
}

#[test]
fn what_is_not_a_file_of_the_relay_is_refused() {
    for (content, words) in [
        ("[influx]\nlisten = \"127.0.0.1:8086\"", "neither [[http]] nor [[udp]]"),
        ("", "neither [[http]] nor [[udp]]"),
        ("[[http]", "it is not TOML"),
        ("http = 5", "http is not a list of tables"),
        ("[[http]]\nname = \"a\"\nbind-addr = 5", "[[http]] a: bind-addr is not a text in quotes"),
        (
            "[[http]]\noutput = [{ name = \"a\", location = \"h\", max-batch-kb = -1 }]",
            "[[output]] a of [[http]] number 1: max-batch-kb is not a number",
        ),
    ] {
        let error: RelayError = relay(Path::new("x.toml"), content).unwrap_err();
        assert!(error.to_string().contains(words), "{content}: {error}");
    }
}
