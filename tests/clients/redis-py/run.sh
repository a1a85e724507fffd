#!/bin/bash
# redis-py, in RESP2 and RESP3, each server that it is given in turn: a pool of threads, pipelines,
# transactions with WATCH, scripts, blocking commands, streams, subscriptions, asyncio, errors.
set -euo pipefail
. "$(dirname "$0")/../kept.sh"
kept_python redis==8.1.0
mkdir -p "$WEIR_DIR/redis-py"
cat >"$WEIR_DIR/redis-py/main.py" <<'END'
import asyncio, os, sys, threading, time
import redis, redis.asyncio
from concurrent.futures import ThreadPoolExecutor

port, protocol = int(sys.argv[1]), int(sys.argv[2])
where = dict(host=os.environ["WEIR_REDIS_HOST"], port=port, protocol=protocol,
             username=os.environ["WEIR_REDIS_USER"], password=os.environ["WEIR_REDIS_PASSWORD"])

def refused(kind, words, what):
    try:
        what()
    except kind as error:
        assert words in str(error), error
        return
    raise SystemExit(f"{words} was expected")

refused(redis.AuthenticationError, "invalid username-password pair",
        lambda: redis.Redis(**dict(where, password="wrong")).ping())

pool = redis.BlockingConnectionPool(max_connections=10, timeout=30, **where)
r = redis.Redis(connection_pool=pool)
assert r.ping() and r.echo("hello") == b"hello"
r.set("{p}n", 0)

def work(n):
    one = redis.Redis(connection_pool=pool)
    for turn in range(30):
        key, value = f"p:{n}", f"{n}.{turn}." + "x" * (turn * 300)
        assert one.set(key, value)
        assert one.get(key) == value.encode()
        one.incr("{p}n")
        pipe = one.pipeline(transaction=False)
        for m in range(20):
            pipe.hset(f"p:h{n}", m, turn)
            pipe.hget(f"p:h{n}", m)
        assert pipe.execute()[1::2] == [str(turn).encode()] * 20

with ThreadPoolExecutor(20) as threads:
    list(threads.map(work, range(20)))
assert r.get("{p}n") == b"600"
r.set("big", b"v" * (5 << 20))
assert r.get("big") == b"v" * (5 << 20)

def add():
    for _ in range(20):
        r.transaction(lambda pipe: (n := int(pipe.get("{p}t") or 0), pipe.multi(),
                                    pipe.set("{p}t", n + 1), pipe.rpush("{p}l", n)), "{p}t")

r.delete("{p}t", "{p}l")
threads = [threading.Thread(target=add) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert r.get("{p}t") == b"80"
assert r.lrange("{p}l", 0, -1) == [str(n).encode() for n in range(80)]
with r.pipeline() as pipe:
    pipe.watch("{p}t")
    r.incr("{p}t")
    pipe.multi()
    pipe.incr("{p}t")
    refused(redis.WatchError, "Watched variable changed", pipe.execute)
with r.pipeline() as pipe:
    found = pipe.set("{p}s", "text").incr("{p}s").get("{p}s").execute(raise_on_error=False)
    assert found[0] is True and found[2] == b"text" and isinstance(found[1], redis.ResponseError)
refused(redis.ResponseError, "WRONGTYPE", lambda: r.lpush("{p}s", 1))

script = r.register_script("return redis.call('INCRBY', KEYS[1], ARGV[1])")
r.delete("{p}x")
assert [script(keys=["{p}x"], args=[3]), script(keys=["{p}x"], args=[4])] == [3, 7]

r.delete("{p}q", "{p}st")
waiting = ThreadPoolExecutor(1).submit(lambda: r.blpop(["{p}q", "{p}r"], timeout=20))
time.sleep(0.1)
r.rpush("{p}q", "late")
assert list(waiting.result()) == [b"{p}q", b"late"]
assert r.blpop("{p}nothing", timeout=1) is None
r.xgroup_create("{p}st", "g", mkstream=True)
first = r.xadd("{p}st", {"a": 1})
assert first in repr(r.xreadgroup("g", "c", {"{p}st": ">"}, block=1000)).encode()
assert r.xack("{p}st", "g", first) == 1

for key in r.scan_iter("sc*"):
    r.delete(key)
keys = {f"sc{n}".encode() for n in range(500)}
r.mset({key: 1 for key in keys})
assert set(r.scan_iter("sc*", count=37)) == keys
assert r.mget(sorted(keys)) == [b"1"] * 500 and r.delete(*keys) == 500
assert r.zadd("{p}z", {"a": 1.5}) in (0, 1) and r.zscore("{p}z", "a") == 1.5
assert r.geoadd("{p}geo", (13.36, 38.11, "P")) in (0, 1) and r.geopos("{p}geo", "P")[0]

def hears(subscriber, kind, data):
    until = time.time() + 20
    while time.time() < until:
        said = subscriber.get_message(timeout=1)
        if said and said["type"] == kind:
            assert said["data"] == data, said
            return
    raise SystemExit(f"no {kind}")

ears = r.pubsub()
ears.subscribe("news")
ears.psubscribe("ne*")
hears(ears, "subscribe", 1)
hears(ears, "psubscribe", 2)
r.publish("news", "one")
hears(ears, "message", b"one")
hears(ears, "pmessage", b"one")
ears.ping()
ears.punsubscribe()
ears.unsubscribe()
ears.subscribe("other")
hears(ears, "subscribe", 1)
r.publish("other", "two")
hears(ears, "message", b"two")
ears.close()
got, gathered = [], threading.Event()
ears = r.pubsub()
ears.subscribe(loud=lambda said: (got.append(said["data"]), gathered.set()))
thread = ears.run_in_thread(sleep_time=0.01)
until = time.time() + 20
while not gathered.is_set() and time.time() < until:
    r.publish("loud", "three")
    time.sleep(0.05)
thread.stop()
thread.join()
assert got[0] == b"three"

async def many():
    pool = redis.asyncio.BlockingConnectionPool(max_connections=20, timeout=30, **where)
    async with redis.asyncio.Redis(connection_pool=pool) as a:
        await asyncio.gather(*(a.set(f"as{n}", n) for n in range(200)))
        found = await asyncio.gather(*(a.get(f"as{n}") for n in range(200)))
        assert found == [str(n).encode() for n in range(200)]
        async with a.pipeline(transaction=True) as pipe:
            assert await pipe.set("{p}as", 1).incr("{p}as").execute() == [True, 2]
        async with a.pubsub() as ears:
            await ears.subscribe("as")
            assert (await ears.get_message(timeout=5))["type"] == "subscribe"
            await a.publish("as", "four")
            assert (await ears.get_message(timeout=20))["data"] == b"four"

    await pool.aclose()

asyncio.run(many())
r.close()
print(f"redis-py {redis.__version__} RESP{protocol}")
END
for port in $WEIR_REDIS_PORTS; do
    for protocol in 2 3; do "$PYTHON" "$WEIR_DIR/redis-py/main.py" "$port" $protocol; done
done
