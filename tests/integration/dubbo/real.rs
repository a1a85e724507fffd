//! Real providers of Dubbo, each version by itself. The provider holds what came against the
//! attachment `expected`, and throws where it is something else.

use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rig::process::Process;
use rig::{machine, places, wait};
use wire::hessian2::Value;

use super::direct::{DirectClient, date_of, object, text_of};
use super::{NOT_TRIED, call};

const SERVICE: &str = "weir.test.EchoService";
/// The service of the second provider, whose pool has two threads: two calls a second fit in it.
const GROUPED: &str = "weir.test.EchoService?version=1.0&group=eu";
const PERSON: &str = "weir.test.Values$Person";
const COLOR: &str = "weir.test.Values$Color";

/// An argument of 1 MiB.
const BIG_BYTES: usize = 1 << 20;

/// Long enough for a Java program to start beside others.
const START: Duration = Duration::from_secs(120);

/// A person with a friend, a constant, a collection and a map.
const ANN: &str = r#"[{"name": "ann", "age": 5, "number": 5000000000, "weight": 1.5, "active": true,
    "color": {"class": "weir.test.Values$Color", "name": "GREEN"}, "tags": ["a", "b"],
    "more": {"x": [1, null]}, "friend": {"class": "weir.test.Values$Person", "name": "bob"}}]"#;

/// Calls by `weir load`: the method, the types and values of its arguments, and what the provider
/// must say of them.
const CALLS: [(&str, &str, &str, &str); 16] = [
    ("echo", "java.lang.String", "[\"text, \u{1f600}\"]", "text, \u{1f600}"),
    ("same", "int", "[7]", "int 7"),
    ("same", "long", "[7]", "long 7"),
    ("same", "long", "[5000000000]", "long 5000000000"),
    ("same", "long", "[{{random 7 7}}]", "long 7"),
    ("same", "java.lang.String", "[\"7\"]", "text 7"),
    (
        "told",
        PERSON,
        ANN,
        "ann 5 5000000000 1.5 true GREEN - [a, b] {x=[1, null]} bob 0 0 0.0 false null - null null \
         null",
    ),
    ("told", PERSON, "[null]", "null"),
    (
        "colors",
        "weir.test.Values$Color,java.util.List<weir.test.Values$Color>",
        "[\"GREEN\", [\"RED\", \"BLUE\"]]",
        "GREEN of [RED, BLUE]",
    ),
    ("people", "int", "[3]", "3"),
    (
        "mapped",
        "java.util.Map<java.lang.String, java.lang.Object>",
        "[{\"b\": [1, null], \"a\": {\"c\": true}}]",
        "{a={c=true}, b=[1, null]}",
    ),
    ("numbers", "int[],byte[],double", "[[1, -2], [3, -4], 0.5]", "[1, -2] [3, -4] 0.5"),
    ("later", "java.util.Date", "[60000]", "60000"),
    ("nothing", "java.lang.Object", "[null]", "null"),
    ("empty", "", "[]", "empty"),
    ("attached", "java.lang.String", "[\"tag\"]", "gray"),
];

#[test]
fn a_real_provider_of_dubbo_2_7_4_has_what_was_sent_and_answers() {
    real("2.7.4.1");
}

#[test]
fn a_real_provider_of_dubbo_2_7_23_has_what_was_sent_and_answers() {
    real("2.7.23");
}

#[test]
fn a_real_provider_of_dubbo_3_has_what_was_sent_and_answers() {
    real("3.3.5");
}

/// A provider of the service, or where it is still starting.
struct RealProvider {
    version: &'static str,
    address: SocketAddr,
    process: Process,
}

impl RealProvider {
    fn start(version: &'static str, place: &Path, options: &[&str]) -> Self {
        let address = places::free_address();
        let port = address.port().to_string();
        let mut script = rig::clients::script("dubbo");
        script.args(["provide", version, &port, "N/A"]).args(options);
        let process = Process::start("provider", &mut script, &place.join(port));
        Self { version, address, process }
    }

    /// Whether it came up; it does not where its jars can't be had.
    #[track_caller]
    fn is_up(&mut self) -> bool {
        let process = &mut self.process;
        let mut ended = None;
        wait::until("a provider or none", START, || {
            ended = process.ended();
            ended.is_some() || process.log().lines().any(|line| line == "ready")
        });
        let Some(status) = ended else { return true };
        assert_eq!(status.code(), Some(NOT_TRIED), "{}", process.log());
        println!("Dubbo {}: not tried\n{}", self.version, process.log());
        false
    }

    /// What a load of a method says.
    fn load(&self, method: &str, types: &str, arguments: &str, more: &[&str]) -> String {
        let own = ["--types", types, "--arguments", arguments, "--rate", "20"];
        call(self.address, SERVICE, method, &[&own, more].concat())
    }
}

#[track_caller]
fn real(version: &'static str) {
    // A virtual machine that starts takes the CPUs from whoever measures.
    let _alone = machine::alone();
    let place = places::directory();
    let mut provider = RealProvider::start(version, place.path(), &[]);
    if !provider.is_up() {
        return;
    }
    let dump = format!("dump.directory={}", place.path().display());
    let options = ["threads=2", "version=1.0", "group=eu", "class-check=WARN", &*dump];
    let mut grouped = RealProvider::start(version, place.path(), &options);
    // Each load takes a second, most of which is waited for.
    thread::scope(|scope| {
        scope.spawn(|| arguments_arrive(&provider));
        scope.spawn(|| big_texts_arrive(&provider, place.path()));
        scope.spawn(|| exceptions_and_timeouts_are_told(&provider));
        scope.spawn(|| answers_are_whole(&provider));
        assert!(grouped.is_up());
        class_is_checked(&provider, &grouped);
        group_is_called_and_its_pool_is_full(&grouped);
    });
}

#[track_caller]
fn arguments_arrive(provider: &RealProvider) {
    let version = provider.version;
    for calls in CALLS.chunks(4) {
        thread::scope(|scope| {
            for way in [&[][..], &["--generic"]] {
                for (method, types, arguments, words) in calls {
                    scope.spawn(move || {
                        let expected = format!("expected={words}");
                        let attachments = ["--attachment", &*expected, "--attachment", "tag=gray"];
                        let more = [&attachments[..], way].concat();
                        let said = provider.load(method, types, arguments, &more);
                        assert!(said.contains("no errors"), "{version} {method} {way:?}: {said}");
                    });
                }
            }
        });
    }
    // What is wrong does fail.
    let said = provider.load("same", "int", "[7]", &["--attachment", "expected=long 7"]);
    let words = "exception java.lang.IllegalStateException: not as expected: int 7";
    assert!(said.contains(words), "{version}: {said}");
}

/// What Java makes of a text that has no letters beyond ASCII.
fn hash_code(text: &str) -> i32 {
    text.bytes().fold(0, |hash: i32, byte| hash.wrapping_mul(31).wrapping_add(i32::from(byte)))
}

#[track_caller]
fn big_texts_arrive(provider: &RealProvider, place: &Path) {
    let big: String = ('a'..='y').cycle().take(BIG_BYTES).collect();
    let file = place.join("big.csv");
    std::fs::write(&file, format!("text\n{big}\n")).expect("a file");
    let data = file.display().to_string();
    let expected = format!("expected={BIG_BYTES} {}", hash_code(&big));
    for way in [&[][..], &["--generic"]] {
        let more = ["--data", &data, "--attachment", &expected, "--rate", "2"];
        let own = ["--types", "java.lang.String", "--arguments", "[\"{{text}}\"]"];
        let said = call(provider.address, SERVICE, "big", &[&own[..], &more, way].concat());
        assert!(said.contains("no errors"), "{} {way:?}: {said}", provider.version);
    }
    let mut client = DirectClient::connect(provider.address, SERVICE);
    let big = format!("{big}\u{1f600}");
    let answer = client.value("echo", &["java.lang.String"], &[Value::from(&*big)], None);
    assert!(answer.as_str() == Some(&*big), "{}", provider.version);
}

#[track_caller]
fn exceptions_and_timeouts_are_told(provider: &RealProvider) {
    let version = provider.version;
    for way in [&[][..], &["--generic"]] {
        for (how, words) in [
            ("own", "exception weir.test.Values$OwnException: it is not to be"),
            ("other", "exception java.lang.IllegalStateException: not in this state: other"),
        ] {
            let argument = format!("[\"{how}\"]");
            let said = provider.load("fails", "java.lang.String", &argument, way);
            assert!(said.contains(words), "{version} {way:?}: {said}");
        }
    }
    let mut client = DirectClient::connect(provider.address, SERVICE);
    let thrown = client.exception("fails", &["java.lang.String"], &["own".into()]);
    assert_eq!(thrown.class.name, "weir.test.Values$OwnException", "{version}");
    assert_eq!(thrown.get("code"), Some(&Value::Int(7)), "{version}");
    let said = provider.load("slow", "long", "[400]", &["--timeout", "100ms"]);
    assert!(said.contains("no answer in time"), "{version}: {said}");
    let said = call(provider.address, "weir.test.Nobody", "echo", &[]);
    // Dubbo 3 can't read the arguments of a service that it does not know.
    let words = if version.starts_with('3') { "status 40 BAD_REQUEST" } else { "weir.test.Nobody" };
    assert!(said.contains(words), "{version}: {said}");
}

#[track_caller]
fn answers_are_whole(provider: &RealProvider) {
    let version = provider.version;
    let mut client = DirectClient::connect(provider.address, SERVICE);
    // One who is a friend of himself, there and back.
    let fields = [
        ("name", "ann".into()),
        ("number", Value::Long(1 << 40)),
        ("born", Value::Date(60_000)),
        ("friend", Value::Reference(0)),
    ];
    let expected = "ann 0 1099511627776 0.0 false null 60000 null null itself";
    let changed = client.value("changed", &[PERSON], &[object(PERSON, fields)], Some(expected));
    let Value::Object(changed) = changed else { panic!("{version}: {changed:?}") };
    assert_eq!(changed.class.name, PERSON, "{version}");
    assert_eq!(text_of(&changed, "name"), "ann!", "{version}");
    assert_eq!(changed.get("number"), Some(&Value::Long((1 << 40) + 1)), "{version}");
    assert_eq!(date_of(&changed, "born"), 60_000, "{version}");
    assert_eq!(changed.get("friend"), Some(&Value::Reference(0)), "{version}");
    let cyclic = client.value("cyclic", &[], &[], None);
    let Value::Object(cyclic) = cyclic else { panic!("{version}: {cyclic:?}") };
    assert_eq!(text_of(&cyclic, "name"), "ring", "{version}");
    assert_eq!(cyclic.get("friend"), Some(&Value::Reference(0)), "{version}");
    let people = client.value("people", &["int"], &[Value::Int(3)], Some("3"));
    let Value::List(people) = people else { panic!("{version}: {people:?}") };
    let colors = ["RED", "GREEN", "BLUE"];
    assert_eq!(people.elements.len(), colors.len(), "{version}");
    for (number, (person, color)) in people.elements.iter().zip(colors).enumerate() {
        let Value::Object(person) = person else { panic!("{version}: {person:?}") };
        assert_eq!(text_of(person, "name"), format!("p{number}"), "{version}");
        let constant = object(COLOR, [("name", color.into())]);
        assert_eq!(person.get("color"), Some(&constant), "{version}");
    }
    let later = client.value("later", &["java.util.Date"], &[Value::Date(60_000)], Some("60000"));
    assert_eq!(later, Value::Date(61_000), "{version}");
    let nothing = client.value("nothing", &["java.lang.Object"], &[Value::Null], Some("null"));
    assert_eq!(nothing, Value::Null, "{version}");
    assert_eq!(client.value("empty", &[], &[], Some("empty")), Value::Null, "{version}");
}

/// Dubbo 3 makes no object of a class that no method names, but where it is told to.
#[track_caller]
fn class_is_checked(provider: &RealProvider, unchecked: &RealProvider) {
    let version = provider.version;
    let load = |provider: &RealProvider, service: &str, more: &[&str]| {
        let stranger = "[{\"class\": \"weir.test.Values$Stranger\", \"name\": \"eve\"}]";
        let own = ["--types", "java.lang.Object", "--arguments", stranger, "--rate", "2"];
        let expected = ["--attachment", "expected=a stranger called eve"];
        call(provider.address, service, "nothing", &[&own[..], &expected, more].concat())
    };
    for (way, words) in [
        (&[][..], "not as expected: {name=eve}"),
        (&["--generic"], "Serialized class weir.test.Values$Stranger is not in allow list"),
    ] {
        let words = if version.starts_with('3') { words } else { "no errors" };
        let said = load(provider, SERVICE, way);
        assert!(said.contains(words), "{version} {way:?}: {said}");
        let said = load(unchecked, GROUPED, way);
        assert!(said.contains("no errors"), "{version} {way:?}: {said}");
    }
}

#[track_caller]
fn group_is_called_and_its_pool_is_full(provider: &RealProvider) {
    let version = provider.version;
    let text = ["--types", "java.lang.String", "--arguments", "[\"text\"]", "--rate", "2"];
    let said = call(provider.address, GROUPED, "echo", &text);
    assert!(said.contains("no errors"), "{version}: {said}");
    let said = call(provider.address, &GROUPED.replace("eu", "us"), "echo", &text);
    assert!(said.contains("Not found exported service: us/"), "{version}: {said}");
    let slow = ["--types", "long", "--arguments", "[400]", "--threads", "1"];
    let said = call(provider.address, GROUPED, "slow", &slow);
    let words = "status 100 SERVER_THREADPOOL_EXHAUSTED_ERROR: ";
    assert!(said.contains(words), "{version}: {said}");
}
