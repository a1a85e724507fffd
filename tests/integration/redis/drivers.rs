//! Drivers of Redis that nobody here wrote, each by the script of its folder in `tests/clients`: to
//! a server itself, and through Weir to one server, to two that share keys, to a Cluster, and to a
//! Valkey where that can be had. What they find is to be the same.

use rig::places;
use rig::redis::{Redis, RedisCluster, valkey};
use rig::weir::Weir;

use super::scene::weir;

const USER: &str = "driver";
const SECRET: &str = "a driver's secret";

/// Weir before servers whose keys are together where they have the same tag.
fn before(servers: &[&Redis], lines: &str) -> Weir {
    let user = format!("[[redis.user]]\nname = \"{USER}\"\npassword = \"{SECRET}\"\n");
    weir(servers, lines, &user)
}

#[track_caller]
fn run(folder: &str) {
    let direct =
        Redis::start_with(&["--user", USER, "on", &format!(">{SECRET}"), "~*", "&*", "+@all"]);
    let servers = [Redis::start(), Redis::start(), Redis::start()];
    let cluster = RedisCluster::start(3, false, &[]);
    let other = valkey().map(|program| Redis::start_as(&program, &[]));
    let mut all = vec![
        before(&[&servers[0]], ""),
        before(&[&servers[1], &servers[2]], "hash-tag = \"{}\""),
        before(&[&cluster.nodes[0]], "distribution = \"cluster\""),
    ];
    all.extend(other.iter().map(|server| before(&[server], "")));
    let ports: Vec<String> = std::iter::once(direct.address)
        .chain(all.iter().map(|weir| weir.redis))
        .map(|address| address.port().to_string())
        .collect();
    let dir = places::directory();
    let mut script = rig::clients::script(folder);
    script
        .env("WEIR_DIR", dir.path())
        .env("WEIR_REDIS_HOST", direct.address.ip().to_string())
        .env("WEIR_REDIS_PORTS", ports.join(" "))
        .env("WEIR_REDIS_USER", USER)
        .env("WEIR_REDIS_PASSWORD", SECRET);
    rig::clients::run(&mut script);
}

#[test]
fn redis_py() {
    places::need("python3");
    run("redis-py");
}

#[test]
fn node_redis() {
    places::need("npm");
    run("node-redis");
}

#[test]
fn jedis() {
    places::need("mvn");
    run("jedis");
}

/// Go is not what `make test` installs, so this is tried where its owner has put it on the `PATH`.
#[test]
fn go_redis_where_go_is_on_the_path() {
    if places::find("go").is_none() {
        println!("go is not on the PATH: not tried");
        return;
    }
    run("go-redis");
}
