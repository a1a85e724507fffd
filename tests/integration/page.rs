//! The operator's page in a real browser, in front of real servers.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use rig::chromium::{Browser, Screen};
use rig::faults::DiskOrder;
use rig::http::{Connection, Request};
use rig::influxd::Influxd;
use rig::postgres::Cluster;
use rig::redis::{Redis, RedisClient};
use rig::wait;
use rig::weir::{Setup, Weir};
use rustix::process::Signal;
use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};

use crate::postgres::scene::{
    client as postgres_client, config as postgres_config, table as postgres_table,
};
use crate::scene::point;

const WIDE: Screen = Screen { width: 1280, height: 900, dark: false };
/// Viewers that have a seat at once.
const VIEWERS_MAX: usize = 16;
/// A name that would do harm where it was taken for more than text.
const HOSTILE: &str = "<img src=x onerror=alert(1)>";

/// Weir before two InfluxDB, a PostgreSQL with a replica, and a Redis whose file it keeps.
struct Everything {
    weir: Weir,
    b: Influxd,
    /// Of a database and a user with a hostile name.
    _client: pg::Client,
    _a: Influxd,
    _primary: Cluster,
    _replica: Cluster,
    _redis: Redis,
}

impl Everything {
    fn start() -> Self {
        let (a, b) = (Influxd::start(), Influxd::start());
        let primary = Cluster::start();
        let replica = primary.replica();
        let redis = Redis::start();
        let mut weir = Setup::new().backend("a", &a.url()).backend("b", &b.url()).prepare();
        let tables = format!(
            "{}[redis]\nlisten = \"{{redis}}\"\n\
             [[redis.backend]]\nname = \"{HOSTILE}\"\nurl = \"{url}\"\n\
             [redis.aof]\ndir = {dir:?}\n[[redis.aof.master]]\nname = \"m\"\nurl = \"{url}\"\n",
            postgres_table(&[&primary, &replica], ""),
            url = redis.url(),
            dir = weir.dir().join("aof"),
        );
        weir.configure(|setup| setup.table(&tables));
        weir.start_again();
        weir.query("CREATE DATABASE db", &[]);
        weir.query(&format!("CREATE DATABASE \"{HOSTILE}\""), &[]);
        let client = hostile_client(&weir);
        let mut all = Self {
            weir,
            b,
            _client: client,
            _a: a,
            _primary: primary,
            _replica: replica,
            _redis: redis,
        };
        all.write(0..100);
        // One writer that overwrites its own point is nothing to look at, but it is shown.
        let mut writer = Connection::open(all.weir.http).unwrap();
        let db: String = HOSTILE.bytes().map(|byte| format!("%{byte:02X}")).collect();
        for value in 1..=2 {
            let line = format!("{} v={value} 1000\n", HOSTILE.replace(' ', "\\ "));
            let write = Request::post(&format!("/write?db={db}"), line);
            assert_eq!(writer.send(&write).unwrap().status(), 204);
        }
        all.weir.wait_delivered();
        all
    }

    fn write(&mut self, points: std::ops::Range<u64>) {
        points.for_each(|n| self.weir.must_write("db", &point(n)));
    }

    fn open(&self, screen: Screen) -> Browser {
        Browser::open(&format!("http://{}/", self.weir.admin), screen)
    }
}

/// A PostgreSQL client whose database and user have a hostile name.
fn hostile_client(weir: &Weir) -> pg::Client {
    let mut superuser = postgres_client(weir).unwrap();
    let quoted = format!("\"{HOSTILE}\"");
    superuser.batch_execute(&format!("CREATE ROLE {quoted} LOGIN SUPERUSER")).unwrap();
    superuser.batch_execute(&format!("CREATE DATABASE {quoted}")).unwrap();
    superuser.batch_execute("SELECT 1 / 0").unwrap_err();
    postgres_config(weir.postgres, HOSTILE, HOSTILE).connect(pg::NoTls).unwrap()
}

/// Where pictures go, if somebody wants to look at them.
fn pictures() -> Option<PathBuf> {
    std::env::var_os("WEIR_TEST_PICTURES").map(PathBuf::from)
}

/// Nothing has left the page's own origin, and the console has nothing to say.
#[track_caller]
fn assert_quiet(browser: &mut Browser, weir: &Weir) {
    browser.listen(Duration::from_millis(100));
    let own = format!("http://{}/", weir.admin);
    let strange: Vec<_> = browser.requests.iter().filter(|url| !url.starts_with(&own)).collect();
    assert!(strange.iter().all(|url| url.as_str() == "about:blank"), "{strange:?}");
    assert_eq!(browser.console, [""; 0]);
}

#[test]
fn an_operator_sees_a_backend_go_and_come_back_and_a_restart_forgets_nothing() {
    let mut all = Everything::start();
    let mut browser = all.open(WIDE);
    browser.wait_text("Takes writes", wait::LONG);
    browser.wait_true("document.querySelectorAll('.chart canvas').length > 3", wait::LONG);
    for table in ["collisions", "postgres", "redis"] {
        let text = format!("document.getElementById('{table}')?.innerText.includes({HOSTILE:?})");
        browser.wait_true(&text, wait::LONG);
    }
    browser.wait_true("document.images.length === 0", wait::LONG);
    assert_quiet(&mut browser, &all.weir);
    gateways_have_the_same_numbers(&mut browser, &all.weir);

    note_when_a_backend_is_away(&mut browser);
    all.b.kill();
    all.write(100..101);
    // Weir itself has to find out first, by a batch that fails.
    wait::until("/status says so", wait::LONG, || all.weir.account("b").state == "retrying");
    let said = since_1970_ms();
    all.write(101..200);
    browser.wait_true("window.wentAt > 0", wait::LONG);
    let late = browser.value("window.wentAt").as_f64().unwrap() - said;
    assert!(late < 2000.0, "the page said it {late} ms after /status");
    browser.wait_text("100 points wait", wait::LONG);
    browser.wait_text("curl -i http://127.0.0.1", wait::LONG);
    browser.wait_text("backend b went", wait::LONG);
    same_numbers(&mut browser, &all.weir);
    look_from_all_sides(&mut browser);

    all.b.start_again();
    all.weir.wait_delivered();
    browser.wait_text("is back after", wait::LONG);
    browser.wait_true("!document.body.innerText.includes('has been away')", wait::LONG);

    assert!(all.weir.terminate().success());
    browser.wait_text("No news from Weir", Duration::from_secs(5));
    assert_eq!(browser.value("document.body.className"), json!("dead"));
    all.weir.start_again();
    browser.wait_true("document.body.className === ''", wait::LONG);
    for words in ["is back after", "Weir was stopped", "started, pid"] {
        browser.wait_text(words, wait::LONG);
    }
    let shown = browser.value("document.querySelectorAll('#events time').length");
    assert!(shown.as_u64() > Some(4), "{shown}");
    // The browser says itself that it could not connect.
    browser.console.retain(|words| !words.contains("net::ERR_"));
    assert_quiet(&mut browser, &all.weir);
}

fn since_1970_ms() -> f64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap().as_secs_f64() * 1e3
}

/// Has the page itself note when it says so, however slowly the test asks it.
fn note_when_a_backend_is_away(browser: &mut Browser) {
    browser.value(
        "(() => { window.wentAt = 0; const list = document.getElementById('worst'); \
         new MutationObserver(() => { if (!window.wentAt && \
         list.textContent.includes('has been away')) window.wentAt = Date.now(); }) \
         .observe(list, { childList: true, subtree: true, characterData: true }); })()",
    );
}

/// What the page says of PostgreSQL and Redis is what `/status` says.
#[track_caller]
fn gateways_have_the_same_numbers(browser: &mut Browser, weir: &Weir) {
    let mut redis = RedisClient::connect(weir.redis);
    (0..5).for_each(|n| drop(redis.ask(&["SET", &n.to_string(), "x"])));
    let facts = |status: &Value, keys: [(&str, &str); 3]| {
        keys.map(|(key, words)| format!("{} {words}", status[key])).join(", ")
    };
    wait::until("the page has the gateways' numbers", wait::LONG, || {
        let status = weir.ask_admin("/status").json();
        let (postgres, redis) = (&status["postgres"], &status["redis"]);
        let postgres = facts(
            postgres,
            [
                ("connections", "clients"),
                ("waiting", "waiting"),
                ("queries", "statements since the start"),
            ],
        );
        let redis = facts(
            redis,
            [
                ("connections", "clients"),
                ("commands", "commands since the start"),
                ("lane_commands", "by lanes"),
            ],
        );
        let text = browser.text();
        assert_eq!(status["postgres"]["errors"], 1);
        status["redis"]["commands"].as_u64() >= Some(5)
            && text.contains(&postgres)
            && text.contains(&redis)
    });
}

/// The table's numbers are those of `/status`.
#[track_caller]
fn same_numbers(browser: &mut Browser, weir: &Weir) {
    let row = "[...document.querySelectorAll('#influx tbody tr')].map((row) => \
               [...row.children].map((cell) => cell.textContent))";
    wait::until("the page has the status's numbers", wait::LONG, || {
        let rows = browser.value(row);
        let accounts = weir.accounts();
        rows.as_array().is_some_and(|rows| rows.len() == accounts.len())
            && accounts.iter().all(|account| {
                let is_it = |row: &&Value| row[0] == json!(account.name);
                let Some(row) = rows.as_array().and_then(|rows| rows.iter().find(is_it)) else {
                    return false;
                };
                let shown = |column: usize| row[column].as_str().unwrap_or_default().to_owned();
                shown(1) == account.state
                    && shown(2) == account.waiting.to_string()
                    && shown(7) == account.delivered.to_string()
            })
    });
}

/// Nothing is wider than the window, and no two parts lie on each other, wide and narrow, light
/// and dark.
#[track_caller]
fn look_from_all_sides(browser: &mut Browser) {
    for (width, dark) in [(1280, false), (1280, true), (400, false), (400, true)] {
        browser.show_on(Screen { width, height: 900, dark });
        browser.wait_true(&format!("innerWidth === {width}"), wait::LONG);
        browser.wait_true("document.documentElement.scrollWidth <= innerWidth", wait::LONG);
        let overlapping = browser.value(
            "(() => { const all = [...document.querySelectorAll('header > *, #state, #worst > li, \
             .tile, .chart, .part, #events')].filter((of) => of.offsetHeight > 0 && \
             getComputedStyle(of).position !== 'absolute').map((of) => \
             [of.id || of.className || of.tagName, of.getBoundingClientRect()]); \
             const hits = []; all.forEach(([a, p], i) => all.slice(i + 1).forEach(([b, q]) => { \
             if (p.left < q.right - 1 && q.left < p.right - 1 && p.top < q.bottom - 1 && \
             q.top < p.bottom - 1) hits.push(a + ' ' + b); })); return hits; })()",
        );
        assert_eq!(overlapping, json!([]), "{width} {dark}");
        if let Some(dir) = pictures() {
            browser.listen(Duration::from_secs(2));
            let scheme = if dark { "dark" } else { "light" };
            browser.picture(&dir.join(format!("page-{width}-{scheme}.png")));
        }
    }
    browser.show_on(WIDE);
}

#[test]
fn a_stream_that_falls_silent_greys_the_page_and_it_comes_back_by_itself() {
    let mut weir = Setup::new().embedded().start();
    let mut browser = Browser::open(&format!("http://{}/", weir.admin), WIDE);
    browser.wait_text("Takes writes", wait::LONG);
    weir.running().signal(Signal::STOP);
    browser.wait_true("document.body.className === 'dead'", Duration::from_secs(6));
    assert!(browser.text().contains("What is below is of"), "{}", browser.text());
    weir.running().signal(Signal::CONT);
    browser.wait_true("document.body.className === ''", wait::LONG);
    let shown = "document.querySelector('#store .facts').textContent";
    wait::until("the page has the store's numbers", wait::LONG, || {
        let store = &weir.ask_admin("/status").json()["influx"]["store"];
        let series = format!("{} series, {} queries running", store["series"], store["queries"]);
        browser.value(shown).as_str().is_some_and(|shown| shown.contains(&series))
    });
    assert_quiet(&mut browser, &weir);
}

#[test]
fn the_page_can_be_used_by_keyboard_and_a_screen_reader_hears_what_changes() {
    let mut weir = Setup::new().embedded().start();
    let mut browser = Browser::open(&format!("http://{}/", weir.admin), WIDE);
    browser.wait_text("Takes writes", wait::LONG);
    let spoken = "document.getElementById('spoken').textContent";
    browser.wait_true(&format!("{spoken} === 'Nothing is wrong.'"), wait::LONG);
    browser.press("Tab");
    let focused = "document.activeElement.id || document.activeElement.className";
    assert_eq!(browser.value(focused), json!("skip"));
    browser.press("Enter");
    browser.wait_true("document.activeElement.id === 'worst'", wait::LONG);
    for stop in ["events", "span-second", "span-minute"] {
        browser.press("Tab");
        assert_eq!(browser.value(focused), json!(stop));
    }
    browser.press("Enter");
    let pressed = "document.getElementById('span-minute').getAttribute('aria-pressed') === 'true'";
    browser.wait_true(pressed, wait::LONG);
    weir.configure(|setup| setup.top("unknown-key = 1"));
    weir.reload();
    browser.wait_true(&format!("{spoken}.includes('reload was refused')"), wait::LONG);
    // It is spoken once, and not each second.
    browser.value("document.getElementById('spoken').textContent = ''");
    let live = "document.getElementById('stream').textContent";
    let second = browser.value(live);
    wait::until("another second is shown", wait::LONG, || browser.value(live) != second);
    assert_eq!(browser.value(spoken), json!(""));
    assert_quiet(&mut browser, &weir);
}

#[test]
fn a_viewer_without_a_seat_is_told_so_and_has_the_next_one() {
    let weir = Setup::new().embedded().start();
    let mut viewers = silent_viewers(&weir);
    let mut browser = Browser::open(&format!("http://{}/", weir.admin), WIDE);
    browser.wait_text("503: 16 viewers look at this Weir already", wait::LONG);
    browser.wait_text("The page tries again by itself", wait::LONG);
    viewers.pop();
    browser.wait_text("Takes writes", wait::LONG);
    browser.wait_true("document.body.className === ''", wait::LONG);
    // The browser says itself what was refused.
    browser.console.retain(|words| !words.contains("503"));
    assert_quiet(&mut browser, &weir);
}

#[test]
fn six_hundred_frames_at_once_leave_the_heap_flat() {
    let weir = Setup::new().embedded().start();
    let url = format!("http://{}/", weir.admin);
    let mut browser = Browser::open(&url, WIDE);
    browser.wait_text("Takes writes", wait::LONG);
    // From here on each stream is many frames at once, of seconds to come, and ends.
    let replaced = "window.served = 0; const own = window.fetch.bind(window); let one = null; \
         window.fetch = async (path, more) => { if (path !== 'live') return own(path, more); \
           if (!one) { const live = await own('live'); const reader = live.body.getReader(); \
             let heard = ''; while (!/data: .*\\n\\n/.test(heard)) \
               heard += new TextDecoder().decode((await reader.read()).value); \
             await reader.cancel(); one = JSON.parse(heard.match(/data: (.*)\\n/)[1]); } \
           const from = 1 + window.served * 600; window.served += 1; \
           const frames = Array.from({ length: 600 }, (_, n) => 'data: ' + JSON.stringify({ \
             ...one, number: one.number + from + n, at: one.at + from + n }) + '\\n\\n'); \
           return new Response(frames.join('')); };";
    browser.command("Page.addScriptToEvaluateOnNewDocument", json!({ "source": replaced }));
    browser.command("Page.navigate", json!({ "url": url }));
    browser.wait_true("window.served >= 2", wait::LONG);
    let heap = "(gc(), performance.memory.usedJSHeapSize)";
    let before = browser.value(heap).as_f64().unwrap();
    browser.wait_true("window.served >= 5", wait::LONG);
    let after = browser.value(heap).as_f64().unwrap();
    assert!(after < before + 4e6, "{before} {after}");
    assert_quiet(&mut browser, &weir);
}

/// Viewers who have all seats, and never read.
fn silent_viewers(weir: &Weir) -> Vec<Connection> {
    let viewer = |_| {
        let mut viewer = Connection::open(weir.admin).unwrap();
        viewer.push(&Request::get("/live").encode()).unwrap();
        assert_eq!(viewer.head().unwrap().status(), 200);
        viewer
    };
    (0..VIEWERS_MAX).map(viewer).collect()
}

#[test]
fn viewers_that_never_read_and_a_crowd_at_the_port_hold_up_no_client() {
    let (primary, redis) = (Cluster::start(), Redis::start());
    let tables = format!(
        "{}[redis]\nlisten = \"{{redis}}\"\n[[redis.backend]]\nname = \"s0\"\nurl = \"{}\"\n",
        postgres_table(&[&primary], ""),
        redis.url()
    );
    let setup = Setup::new().embedded().influx("auto-create-database = true");
    let weir = setup.table(&tables).start();
    let mut sql = postgres_client(&weir).unwrap();
    let mut commands = RedisClient::connect(weir.redis);
    let silent = silent_viewers(&weir);
    let refused = weir.ask_admin("/live");
    assert!(refused.status() == 503 && refused.text().contains("16 viewers"));
    let half: Vec<Socket> = (0..1000).filter_map(|_| knock(weir.admin)).collect();
    assert!(half.len() > 900, "{}", half.len());
    let begun = Instant::now();
    for n in 0..200 {
        weir.must_write("db", &point(n));
        sql.simple_query("SELECT 1").unwrap();
        assert_eq!(commands.ask(&["SET", "k", "v"]), "+OK");
    }
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    drop((silent, half));
    wait::until("the port answers again", wait::LONG, || {
        rig::http::send(weir.admin, &Request::get("/health")).is_ok_and(|a| a.status() == 200)
    });
}

/// Begins a connection without waiting for it, and sends half a request where it is there at once.
fn knock(address: SocketAddr) -> Option<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).ok()?;
    socket.set_nonblocking(true).ok()?;
    // It is under way.
    let _ = socket.connect(&address.into());
    let _ = socket.send(b"GET /status HTTP/1.1\r\nHo");
    Some(socket)
}

#[test]
fn two_hundred_backends_are_in_the_table_and_the_worst_are_drawn() {
    let away = |n: u64| (format!("away-{n:03}"), "http://127.0.0.1:9");
    let all = (0..200).map(away).collect::<Vec<_>>();
    let setup = all.iter().fold(Setup::new(), |setup, (name, url)| setup.backend(name, url));
    let weir = setup.influx("auto-create-database = true").start();
    let mut browser = Browser::open(&format!("http://{}/", weir.admin), WIDE);
    browser.wait_text("Takes writes", wait::LONG);
    weir.must_write("db", &point(1));
    browser.wait_text("has been away", wait::LONG);
    let rows = "document.querySelectorAll('#influx tbody tr').length";
    browser.wait_true(&format!("{rows} === 200"), wait::LONG);
    browser.value(
        "(() => { const search = document.querySelector('#influx input'); search.value = '-163'; \
         search.dispatchEvent(new Event('input')); })()",
    );
    browser.wait_true(&format!("{rows} === 1"), wait::LONG);
    let legend = "document.querySelectorAll('#chart-waiting .u-series').length";
    browser.wait_true(&format!("{legend} > 1 && {legend} <= 10"), wait::LONG);
    let lines = "document.getElementById('chart-waiting').textContent";
    assert!(!browser.value(lines).as_str().unwrap().contains("away-163"));
    browser.value("document.querySelector('#influx tbody button').click()");
    browser.wait_true(&format!("{lines}.includes('away-163')"), wait::LONG);
    browser.wait_true(&format!("{legend} <= 10"), wait::LONG);
    let findings = "document.querySelectorAll('#worst > li').length";
    browser.wait_true(&format!("{findings} === 20"), wait::LONG);
    let history = weir.ask_admin("/history").text();
    assert!(history.len() < 8 << 20, "{}", history.len());
    assert_quiet(&mut browser, &weir);
}

#[test]
fn a_terminal_shows_the_same_until_it_is_interrupted() {
    let mut weir = Setup::new().embedded().start();
    let log = weir.dir().join("watch");
    let mut command = std::process::Command::new(rig::places::weir());
    command.args(["status", "--watch"]).env("WEIR_CONFIG", weir.config());
    let process = rig::process::Process::start("weir status --watch", &mut command, &log);
    for words in ["Nothing is wrong", "what happened, newest first", "started, pid"] {
        wait::until(words, wait::LONG, || process.log().contains(words));
    }
    assert!(weir.terminate().success());
    wait::until("it says that it hears nothing", wait::LONG, || process.log().contains("NO NEWS"));
    weir.start_again();
    wait::until("it knows what was before", wait::LONG, || {
        let (log, stopped) = (process.log(), "Weir was stopped");
        log.rsplit("NO NEWS").next().is_some_and(|newest| newest.contains(stopped))
    });
}

#[test]
fn a_disk_that_is_full_or_in_the_way_leaves_the_page_without_its_file_alone() {
    let setup = Setup::new().with_faults().embedded();
    let mut weir = setup.influx("auto-create-database = true").prepare();
    let dir = weir.journal_dir().join("admin");
    std::fs::create_dir_all(weir.journal_dir()).unwrap();
    let full = DiskOrder::give(&dir, "full");
    weir.start_again();
    weir.wait_log("the page's history can't be kept");
    weir.must_write("db", &point(1));
    assert!(weir.ask_admin("/history").text().contains("started, pid"));
    assert!(weir.terminate().success());
    assert!(!dir.join("history").exists());
    drop(full);
    std::fs::write(&dir, "in the way").unwrap();
    weir.start_again();
    wait::until("it is said again", wait::LONG, || {
        weir.log().matches("the page's history can't be kept").count() == 2
    });
    weir.must_write("db", &point(2));
    assert!(weir.ask_admin("/history").text().contains("started, pid"));
}
