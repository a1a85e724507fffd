//! Which server a key is on: beside a running nutcracker before the same servers.

use std::fmt::Write as _;

use rig::places;
use rig::redis::{Redis, RedisClient};

use super::scene::{nutcracker, weir};

#[test]
fn what_twemproxy_has_written_is_found_and_the_other_way_round() {
    let servers = [Redis::start(), Redis::start(), Redis::start()];
    let servers: Vec<&Redis> = servers.iter().collect();
    for (distribution, hash) in [("ketama", "fnv1a_64"), ("modula", "crc16"), ("ketama", "md5")] {
        let lines =
            format!("distribution = {distribution:?}\nhash = {hash:?}\nhash-tag = \"{{}}\"");
        let weir = weir(&servers, &lines, "");
        let (dir, address) = (places::directory(), places::free_address());
        let mut text = format!(
            "pool:\n  listen: {address}\n  redis: true\n  hash: {hash}\n  hash_tag: \"{{}}\"\n  \
             distribution: {distribution}\n  servers:\n"
        );
        for (n, server) in servers.iter().enumerate() {
            let _ = writeln!(text, "   - {}:1 s{n}", server.address);
        }
        let _nutcracker = nutcracker(dir.path(), &text, address);
        let (mut through, mut beside) =
            (RedisClient::connect(weir.redis), RedisClient::connect(address));
        for n in 0..500 {
            let key = format!("{distribution}:{hash}:{n}:{{tag{}}}x", n % 50);
            let value = n.to_string();
            let (one, other) =
                if n % 2 == 0 { (&mut through, &mut beside) } else { (&mut beside, &mut through) };
            assert_eq!(one.ask(&["SET", &key, &value]), "+OK");
            assert_eq!(other.ask(&["GET", &key]), format!("${} {value}", value.len()));
        }
    }
}
