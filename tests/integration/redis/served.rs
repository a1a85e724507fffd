//! Commands and their answers.

use rig::redis::{Redis, RedisClient, valkeys};
use rig::wait;

use super::scene::{ADMIN, admin, client, key_on, weir};

#[test]
fn commands_are_answered_as_by_the_server() {
    let server = Redis::start();
    let weir = weir(&[&server], "", "");
    let mut client = client(&weir);
    for (line, wanted) in [
        ("PING", "+PONG"),
        ("PING hello", "$5 hello"),
        ("ECHO hello", "$5 hello"),
        ("SET a 1", "+OK"),
        ("GET a", "$1 1"),
        ("get a", "$1 1"),
        ("GET none", "$-1"),
        ("INCR a", ":2"),
        ("LPUSH l x y", ":2"),
        ("LRANGE l 0 -1", "*2 $1 y $1 x"),
        ("INCR l", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("MSET b 2 c 3", "+OK"),
        ("MGET a b none c", "*4 $1 2 $1 2 $-1 $1 3"),
        ("DEL a b none", ":2"),
        ("EVAL return{KEYS[1],ARGV[1]} 1 k v", "*2 $1 k $1 v"),
        ("EVAL return{1,{2,3}} 0", "*2 :1 *2 :2 :3"),
        ("DBSIZE", ":2"),
        ("SCAN 0 COUNT 100", "*2 $1 0 *2 $1 c $1 l"),
        ("OBJECT ENCODING c", "$3 int"),
    ] {
        let heard = client.line(line);
        let (mut heard, mut wanted) = (heard, wanted.to_owned());
        if line.starts_with("SCAN") {
            // In any order.
            heard = heard.replace("$1 l $1 c", "$1 c $1 l");
            wanted = wanted.replace("$1 l $1 c", "$1 c $1 l");
        }
        assert_eq!(heard, wanted, "{line}");
    }
}

#[test]
fn what_cannot_be_is_an_error_and_the_connection_stays() {
    let server = Redis::start();
    let weir = weir(&[&server], "", "");
    let mut client = client(&weir);
    for (line, wanted) in [
        ("NOSUCH a", "-ERR unknown command 'NOSUCH'"),
        ("GET", "-ERR wrong number of arguments for 'get' command"),
        ("GET a b", "-ERR wrong number of arguments for 'get' command"),
        ("FLUSHALL", "-NOPERM weir: FLUSHALL is for users with admin = true"),
        ("SELECT 16", "-ERR DB index is out of range"),
        ("SELECT x", "-ERR value is not an integer or out of range"),
        ("HELLO 4", "-NOPROTO unsupported protocol version"),
        ("EXEC", "-ERR EXEC without MULTI"),
        ("DISCARD", "-ERR DISCARD without MULTI"),
        ("EVAL return 2 a", "-ERR Number of keys can't be greater than number of args"),
    ] {
        assert_eq!(client.line(line), wanted, "{line}");
    }
    for line in [
        "SYNC",
        "PSYNC ? -1",
        "REPLCONF listening-port 1",
        "SHUTDOWN",
        "DEBUG SLEEP 1",
        "CONFIG SET save 1",
        "CLIENT NO-EVICT ON",
        "SCRIPT DEBUG YES",
        "SWAPDB 0 1",
        "CLUSTER INFO",
        "ACL LIST",
        "REPLICAOF NO ONE",
    ] {
        let heard = client.line(line);
        assert!(heard.starts_with("-ERR weir: "), "{line}: {heard}");
    }
    assert_eq!(client.line("PING"), "+PONG");
    assert_eq!(client.line("QUIT"), "+OK");
    assert!(client.is_closed());
}

#[test]
fn what_weir_does_not_know_has_a_connection_of_its_own() {
    let renamed = "--rename-command GET MY.GET --rename-command BLPOP MY.BLPOP \
                   --rename-command FLUSHALL MY.WIPE --rename-command SCARD MY.COUNT";
    let args: Vec<&str> = renamed.split_whitespace().collect();
    let servers = [Redis::start_with(&args), Redis::start_with(&args)];
    let servers: Vec<&Redis> = servers.iter().collect();
    let weir = weir(&servers, "", "");
    let mut client = client(&weir);
    for n in 0..10 {
        client.send(format!("SET k{n} {n}\r\nMY.GET k{n}\r\nAPPEND k{n} x\r\n").as_bytes());
        let heard = [client.hear(), client.hear(), client.hear()];
        assert_eq!(heard, ["+OK".to_owned(), format!("$1 {n}"), ":2".to_owned()]);
    }
    assert!(client.line("MY.COUNT k1").starts_with("-WRONGTYPE"));
    assert!(client.line("MY.BLPOP k1 0").contains("it may block"));
    assert!(client.line("MY.WIPE").starts_with("-NOPERM weir: MY.WIPE"));
    assert_eq!(client.line("SELECT 3"), "+OK");
    assert_eq!(client.line("MY.GET k1"), "$-1");
    assert_eq!(client.line("NO.SUCH k1"), "-ERR unknown command 'NO.SUCH'");
}

/// The name and version that `HELLO` tells.
fn release(client: &mut RedisClient) -> String {
    let hello = client.line("HELLO");
    hello.split(" $5 proto").next().unwrap_or_default().to_owned()
}

#[test]
fn clients_are_told_of_the_release_that_all_servers_have_at_least() {
    let redis = Redis::start();
    let told = |servers: &[&Redis], wanted: &str| {
        let weir = weir(servers, "", "");
        let mut ann = client(&weir);
        // A server tells it where it is connected to.
        assert_eq!(ann.line("DBSIZE"), ":0");
        let version = wanted.rsplit(' ').next().unwrap();
        // Before the first has told it there is a usual one.
        wait::until("servers have told it", wait::LONG, || {
            release(&mut ann) == wanted
                && ann.line("INFO server").contains(&format!("_version:{version}"))
        });
    };
    let alone = release(&mut redis.client());
    told(&[&redis], &alone);
    for program in valkeys() {
        let valkey = Redis::start_as(&program, &[]);
        told(&[&valkey], &release(&mut valkey.client()));
        // It is compatible with a release that is later than that of Debian's Redis.
        told(&[&valkey, &redis], &alone);
    }
}

#[test]
fn both_versions_of_the_protocol_are_spoken() {
    let server = Redis::start();
    let weir = weir(&[&server], "", "");
    let [mut two, mut three] = [client(&weir), client(&weir)];
    let hello = three.line("HELLO 3 SETNAME me");
    assert!(hello.starts_with("%7 $6 server $5 redis $7 version"), "{hello}");
    assert_eq!(three.line("HSET h f v"), ":1");
    assert_eq!(three.line("HGETALL h"), "%1 $1 f $1 v");
    assert_eq!(two.line("HGETALL h"), "*2 $1 f $1 v");
    assert_eq!(three.line("GET none"), "_");
    assert_eq!(three.line("CLIENT GETNAME"), "$2 me");
    assert_eq!(two.line("CLIENT GETNAME"), "$-1");
    assert!(two.line("HELLO").starts_with("*14 $6 server"));
    assert!(three.line("HELLO 2").starts_with("*14 $6 server"));
    assert_eq!(three.line("HGETALL h"), "*2 $1 f $1 v");
    assert_eq!(three.line("RESET"), "+RESET");
    assert_eq!(three.line("CLIENT GETNAME"), "$-1");
    // As by hand.
    two.send(b"SET x 'a b'\r\n\r\nGET x\r\n*0\r\n*-10\r\nPING\r\n");
    assert_eq!([two.hear(), two.hear(), two.hear()], ["+OK", "$3 a b", "+PONG"]);
}

#[test]
fn each_client_has_its_database() {
    let server = Redis::start();
    let weir = weir(&[&server], "", "");
    let [mut zero, mut one] = [client(&weir), client(&weir)];
    assert_eq!(one.line("SELECT 1"), "+OK");
    for turn in 0..20 {
        assert_eq!(zero.line(&format!("SET k zero{turn}")), "+OK");
        assert_eq!(one.line(&format!("SET k one{turn}")), "+OK");
        assert_eq!(zero.line("GET k"), format!("${} zero{turn}", 4 + turn.to_string().len()));
        assert_eq!(one.line("GET k"), format!("${} one{turn}", 3 + turn.to_string().len()));
    }
    // Each is answered before the next, at whatever database.
    let mut pipeline = String::new();
    for n in 0..100 {
        pipeline += &format!("SELECT {}\r\nINCR n\r\nSELECT 0\r\nMOVE n 5\r\nGET n\r\n", n % 3);
    }
    one.send(pipeline.as_bytes());
    let heard: Vec<String> = (0..500).map(|_| one.hear()).collect();
    let mut direct = server.client();
    direct.line("FLUSHALL");
    direct.send(pipeline.as_bytes());
    let wanted: Vec<String> = (0..500).map(|_| direct.hear()).collect();
    assert_eq!(heard, wanted);
}

#[test]
fn keys_on_several_servers_are_one_answer() {
    let servers = [Redis::start(), Redis::start(), Redis::start()];
    let servers: Vec<&Redis> = servers.iter().collect();
    let weir = weir(&servers, "hash = \"murmur\"", ADMIN);
    let mut client = admin(&weir);
    let keys: Vec<String> = (0..300).map(|n| format!("key:{n}")).collect();
    let words = |name: &str, each: &dyn Fn(&String) -> Vec<String>| -> Vec<String> {
        std::iter::once(name.to_owned()).chain(keys.iter().flat_map(each)).collect()
    };
    let mut ask =
        |words: Vec<String>| client.ask(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let mset = words("MSET", &|key| vec![key.clone(), format!("v{key}")]);
    assert_eq!(ask(mset), "+OK");
    let wanted: String = keys.iter().map(|k| format!(" ${} v{k}", k.len() + 1)).collect();
    assert_eq!(ask(words("MGET", &|key| vec![key.clone()])), format!("*300{wanted}"));
    assert_eq!(ask(words("EXISTS", &|key| vec![key.clone(), key.clone()])), ":600");
    assert_eq!(ask(words("TOUCH", &|key| vec![key.clone()])), ":300");
    assert_eq!(ask(vec!["DBSIZE".into()]), ":300");
    for server in &servers {
        let own = server.client().line("DBSIZE");
        assert!(own[1..].parse::<usize>().unwrap() > 30, "{own}");
    }
    let (mut cursor, mut seen) = ("0".to_owned(), std::collections::BTreeSet::new());
    loop {
        let page = ask(vec!["SCAN".into(), cursor, "COUNT".into(), "7".into()]);
        let words: Vec<&str> = page.split(' ').collect();
        cursor = words[2].to_owned();
        seen.extend(words[4..].iter().filter(|word| !word.starts_with('$')).map(|w| w.to_string()));
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(seen, keys.iter().cloned().collect());
    assert_eq!(ask(vec!["KEYS".into(), "key:1?".into()]).split(' ').count(), 21);
    assert_eq!(ask(words("UNLINK", &|key| vec![key.clone()])), ":300");
    let script = ask(vec!["SCRIPT".into(), "LOAD".into(), "return 7".into()]);
    let sha = script.split(' ').nth(1).unwrap().to_owned();
    assert_eq!(ask(vec!["SCRIPT".into(), "EXISTS".into(), sha.clone(), "no".into()]), "*2 :1 :0");
    for n in 0..20 {
        assert_eq!(ask(vec!["EVALSHA".into(), sha.clone(), "1".into(), format!("k{n}")]), ":7");
    }
    assert_eq!(ask(vec!["FLUSHALL".into()]), "+OK");
    assert_eq!(ask(vec!["DBSIZE".into()]), ":0");
    drop(weir);
}

#[test]
fn a_part_that_fails_names_its_server() {
    let mut servers = [Redis::start(), Redis::start()];
    let weir = {
        let servers: Vec<&Redis> = servers.iter().collect();
        weir(&servers, "timeout = \"1s\"", "")
    };
    let keys: Vec<String> = {
        let servers: Vec<&Redis> = servers.iter().collect();
        (0..2).map(|n| key_on(&servers, &weir, n)).collect()
    };
    let mut client = client(&weir);
    servers[1].client().line("FLUSHALL");
    servers[1].client().ask(&["LPUSH", &keys[1], "x"]);
    let heard = client.ask(&["RENAME", &keys[0], &keys[1]]);
    assert_eq!(heard, "-CROSSSLOT weir: its keys are on several servers");
    let heard = client.ask(&["EVAL", "return 1", "2", &keys[0], &keys[1]]);
    assert_eq!(heard, "-CROSSSLOT weir: its keys are on several servers");
    servers[1].kill();
    wait::until("it is down", wait::LONG, || {
        client.ask(&["MGET", &keys[0], &keys[1]]).starts_with("-ERR weir: not sent: s1 cannot be")
    });
    assert_eq!(client.ask(&["GET", &keys[0]]), "$1 x");
    servers[1].start_again();
    wait::until("it is there again", wait::LONG, || {
        client.ask(&["MGET", &keys[0], &keys[1]]) == "*2 $1 x $-1"
    });
}

#[test]
fn large_values_go_through_as_they_are() {
    let server = Redis::start();
    let weir = weir(&[&server], "max-command = \"1MiB\"", "");
    let mut client = client(&weir);
    for size in [200 << 10, 300 << 10, 5 << 20, 40 << 20] {
        let value = "x".repeat(size);
        assert_eq!(client.ask(&["SET", "big", &value]), "+OK", "{size}");
        assert_eq!(client.ask(&["STRLEN", "big"]), format!(":{size}"));
        assert!(client.ask(&["GET", "big"]) == format!("${size} {value}"));
    }
    // What does not end with the value can't be sent before it is whole.
    let value = "x".repeat(2 << 20);
    let heard = client.ask(&["SET", "big", &value, "EX", "10"]);
    assert_eq!(heard, "-ERR weir: the command is larger than max-command");
}

#[test]
fn a_command_of_a_module_rides_a_lane_once_it_is_named() {
    let renamed = ["--rename-command", "GET", "my.get", "--rename-command", "MSET", "my.mset"];
    let servers = [Redis::start_with(&renamed), Redis::start_with(&renamed)];
    let named = "[[redis.command]]\nname = \"My.Get\"\nreads = true\n\
                 [[redis.command]]\nname = \"my.mset\"\nadmin = true\n\
                 last-key = -1\nkey-step = 2\n";
    let admin = format!("{ADMIN}[[redis.user]]\nname = \"ann\"\npassword = \"p\"\n{named}");
    let weir = weir(&servers.each_ref(), "", &admin);
    let [mut ann, mut root] = [client(&weir), client(&weir)];
    assert_eq!([ann.line("AUTH ann p"), root.line("AUTH p")], ["+OK", "+OK"]);
    for n in 0..20 {
        let key = format!("k{n}");
        assert_eq!(ann.ask(&["SET", &key, "x"]), "+OK");
        assert_eq!(ann.ask(&["MY.GET", &key]), "$1 x");
    }
    assert!(ann.line("MY.SET a 1").starts_with("-ERR unknown command"));
    assert!(ann.line("MY.MSET a 1").starts_with("-NOPERM"));
    let many: Vec<String> = (0..20).map(|n| format!("k{n} 1")).collect();
    let heard = root.line(&format!("MY.MSET {}", many.join(" ")));
    assert_eq!(heard, "-CROSSSLOT weir: its keys are on several servers");
    for line in ["MULTI", "MY.MSET a 1 a 2", "MY.GET a"] {
        assert!(root.line(line).starts_with('+'), "{line}");
    }
    assert_eq!(root.line("EXEC"), "*2 +OK $1 2");
    let ridden = weir.metrics().sum("weir_redis_commands_total", &[("way", "lane")]);
    assert!(ridden >= 40.0, "{ridden}");
}

#[test]
fn functions_are_the_same_on_all_servers() {
    let servers = [Redis::start(), Redis::start()];
    let servers = servers.each_ref();
    let weir = weir(&servers, "", "");
    let keys = [0, 1].map(|n| key_on(&servers, &weir, n));
    let mut client = client(&weir);
    let library = |name: &str, gives: &str| {
        format!(
            "#!lua name={name}\nredis.register_function{{function_name='{name}', \
             callback=function(k) return {{'{gives}', redis.call('GET', k[1])}} end, \
             flags={{'no-writes'}}}}"
        )
    };
    assert_eq!(client.ask(&["FUNCTION", "LOAD", &library("f", "one")]), "$1 f");
    let again = client.ask(&["FUNCTION", "LOAD", &library("f", "two")]);
    assert_eq!(again, "-ERR weir: s0: Library 'f' already exists");
    for server in servers {
        assert!(server.client().line("FUNCTION LIST").starts_with("*1 "));
    }
    for key in &keys {
        for name in ["FCALL", "FCALL_RO"] {
            assert_eq!(client.ask(&[name, "f", "1", key]), "*2 $3 one $1 x");
        }
        assert_eq!(client.ask(&["FCALL", "none", "1", key]), "-ERR Function not found");
    }
    let both = client.ask(&["FCALL", "f", "2", &keys[0], &keys[1]]);
    assert_eq!(both, "-CROSSSLOT weir: its keys are on several servers");
    let replaced = client.ask(&["FUNCTION", "LOAD", "REPLACE", &library("f", "two")]);
    assert_eq!(replaced, "$1 f");
    for key in &keys {
        assert_eq!(client.ask(&["FCALL", "f", "1", key]), "*2 $3 two $1 x");
    }
    // One that only one server has is called where its key is there.
    servers[1].client().ask(&["FUNCTION", "LOAD", &library("g", "g")]);
    assert_eq!(client.ask(&["FCALL", "g", "1", &keys[0]]), "-ERR Function not found");
    assert_eq!(client.ask(&["FCALL", "g", "1", &keys[1]]), "*2 $1 g $1 x");
    assert_eq!(client.line("FUNCTION DELETE f"), "+OK");
    assert_eq!(client.line("FUNCTION DELETE f"), "-ERR weir: s0: Library not found");
    for (server, left) in servers.iter().zip(["*0", "*1 "]) {
        assert!(server.client().line("FUNCTION LIST").starts_with(left));
    }
}

#[test]
fn a_key_by_chance_is_one_of_any_server() {
    let servers = [Redis::start(), Redis::start()];
    let servers = servers.each_ref();
    let weir = weir(&servers, "", "");
    let mut client = client(&weir);
    assert_eq!(client.line("RANDOMKEY"), "$-1");
    // Of an empty server and one with a key it is that key.
    let only = key_on(&servers, &weir, 1);
    servers[0].client().line("FLUSHALL");
    for _ in 0..20 {
        assert_eq!(client.line("RANDOMKEY"), format!("${} {only}", only.len()));
    }
    let other = key_on(&servers, &weir, 0);
    let wanted = [&only, &other].map(|key| format!("${} {key}", key.len()));
    let mut seen = std::collections::BTreeSet::new();
    wait::until("either was given", wait::LONG, || {
        let heard = client.line("RANDOMKEY");
        seen.insert(heard);
        seen.len() == 2
    });
    assert!(wanted.iter().all(|key| seen.contains(key)), "{seen:?}");
    assert_eq!(client.line("SELECT 1"), "+OK");
    assert_eq!(client.line("RANDOMKEY"), "$-1");
}

#[test]
fn what_scan_does_not_take_is_an_error_that_says_so() {
    let servers = [Redis::start(), Redis::start()];
    let servers = servers.each_ref();
    let weir = weir(&servers, "", "");
    let mut client = client(&weir);
    let keys = [0, 1].map(|n| key_on(&servers, &weir, n));
    for (line, wanted) in [
        ("SCAN", "-ERR wrong number of arguments for 'scan' command"),
        ("SCAN x", "-ERR invalid cursor"),
        ("SCAN -1", "-ERR invalid cursor"),
        ("SCAN 0 COUNT", "-ERR weir: s0: syntax error"),
        ("SCAN 1 COUNT 0", "-ERR weir: s1: syntax error"),
        ("SCAN 1 COUNT x", "-ERR weir: s1: value is not an integer or out of range"),
        ("SCAN 0 NONSENSE 1", "-ERR weir: s0: syntax error"),
    ] {
        assert_eq!(client.line(line), wanted, "{line}");
    }
    // A cursor that nobody gave ends somewhere, too.
    assert!(client.line("SCAN 9007199254740991 COUNT 10").starts_with("*2 $"));
    let [first, second] = ["SCAN 0 COUNT 100", "SCAN 1 COUNT 100"].map(|line| client.line(line));
    assert!(first.starts_with("*2 $1 1 *") && first.contains(&keys[0]), "{first}");
    assert!(second.starts_with("*2 $1 0 *") && second.contains(&keys[1]), "{second}");
    assert_eq!(client.line("SCAN 0 MATCH none* TYPE string"), "*2 $1 1 *0");
}
