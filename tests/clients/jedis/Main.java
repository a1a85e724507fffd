import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.function.Function;
import redis.clients.jedis.*;
import redis.clients.jedis.exceptions.*;
import redis.clients.jedis.params.*;
import redis.clients.jedis.resps.*;

public class Main {
    static void check(boolean holds, Object what) {
        if (!holds) throw new AssertionError(what);
    }

    static void together(int count, ThrowingConsumer work) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(count);
        List<Future<Object>> all = new ArrayList<>();
        for (int n = 0; n < count; n++) {
            int own = n;
            all.add(threads.submit(() -> { work.accept(own); return null; }));
        }
        for (Future<Object> one : all) one.get(60, TimeUnit.SECONDS);
        threads.shutdown();
    }

    interface ThrowingConsumer { void accept(int n) throws Exception; }

    static void pooled(JedisPool pool) throws Exception {
        try (Jedis r = pool.getResource()) { r.set("{j}n", "0"); }
        together(20, n -> {
            for (int turn = 0; turn < 30; turn++) {
                try (Jedis r = pool.getResource()) {
                    String key = "j:" + n, value = n + "x".repeat(turn * 300);
                    check(r.set(key, value).equals("OK"), key);
                    check(r.get(key).equals(value), key);
                    r.incr("{j}n");
                }
            }
        });
        try (Jedis r = pool.getResource()) {
            check(r.get("{j}n").equals("600"), "all increments");
            String big = "v".repeat(5 << 20);
            r.set("j:big", big);
            check(r.get("j:big").equals(big), "big");
        }
    }

    static void pipelined(Jedis r) {
        Pipeline pipe = r.pipelined();
        List<Response<String>> found = new ArrayList<>();
        for (int n = 0; n < 500; n++) {
            pipe.set("j:p" + n, "" + n);
            found.add(pipe.get("j:p" + n));
        }
        pipe.sync();
        for (int n = 0; n < 500; n++) check(found.get(n).get().equals("" + n), n);
        Set<String> keys = new HashSet<>();
        String cursor = ScanParams.SCAN_POINTER_START;
        do {
            ScanResult<String> page = r.scan(cursor, new ScanParams().match("j:p*").count(37));
            keys.addAll(page.getResult());
            cursor = page.getCursor();
        } while (!cursor.equals(ScanParams.SCAN_POINTER_START));
        check(keys.size() == 500, keys.size());
        check(r.mget(keys.toArray(new String[0])).size() == 500, "mget");
        check(r.del(keys.toArray(new String[0])) == 500, "del");
    }

    static void transactions(JedisPool pool) throws Exception {
        try (Jedis r = pool.getResource()) { r.del("{j}t"); }
        together(4, n -> {
            try (Jedis r = pool.getResource()) {
                for (int done = 0; done < 20; ) {
                    r.watch("{j}t");
                    String before = r.get("{j}t");
                    Transaction t = r.multi();
                    t.set("{j}t", "" + (before == null ? 1 : Integer.parseInt(before) + 1));
                    if (t.exec() != null) done++;
                }
            }
        });
        try (Jedis r = pool.getResource()) {
            check(r.get("{j}t").equals("80"), r.get("{j}t"));
            Transaction t = r.multi();
            t.set("{j}s", "text");
            t.incr("{j}s");
            Response<String> last = t.get("{j}s");
            List<Object> all = t.exec();
            check(all.get(1) instanceof JedisDataException && last.get().equals("text"), all);
            t = r.multi();
            t.set("{j}s", "other");
            t.discard();
            check(r.get("{j}s").equals("text"), "discard");
            try {
                r.lpush("{j}s", "x");
                throw new AssertionError("a wrong type was taken");
            } catch (JedisDataException error) {
                check(error.getMessage().startsWith("WRONGTYPE"), error);
            }
        }
    }

    static void scripted(Jedis r) {
        r.del("{j}x");
        String number = r.scriptLoad("return redis.call('INCRBY', KEYS[1], ARGV[1])");
        for (long wanted : new long[] {3, 6}) {
            Object found = r.evalsha(number, List.of("{j}x"), List.of("3"));
            check(found.equals(wanted), found);
        }
    }

    static void blocking(JedisPool pool) throws Exception {
        try (Jedis r = pool.getResource(); Jedis waits = pool.getResource()) {
            r.del("{j}q", "{j}st");
            Future<List<String>> waiting = CompletableFuture.supplyAsync(() -> waits.blpop(20, "{j}q"));
            Thread.sleep(50);
            r.rpush("{j}q", "late");
            check(waiting.get(30, TimeUnit.SECONDS).equals(List.of("{j}q", "late")), "blpop");
            check(waits.blpop(0.1, "{j}nothing") == null, "blpop");
            r.xgroupCreate("{j}st", "g", new StreamEntryID("0-0"), true);
            StreamEntryID id = r.xadd("{j}st", Map.of("a", "1"), XAddParams.xAddParams());
            var read = waits.xreadGroup("g", "c", XReadGroupParams.xReadGroupParams().block(1000),
                Map.of("{j}st", StreamEntryID.XREADGROUP_UNDELIVERED_ENTRY));
            check(read.get(0).getValue().get(0).getID().equals(id), read);
            check(r.xack("{j}st", "g", id) == 1, "xack");
        }
    }

    static void subscriptions(JedisPool pool) throws Exception {
        CountDownLatch subscribed = new CountDownLatch(2), heard = new CountDownLatch(2);
        List<String> said = Collections.synchronizedList(new ArrayList<>());
        JedisPubSub ears = new JedisPubSub() {
            @Override public void onSubscribe(String channel, int count) {
                psubscribe("ne*");
                subscribed.countDown();
            }
            @Override public void onPSubscribe(String pattern, int count) { subscribed.countDown(); }
            @Override public void onMessage(String channel, String message) {
                said.add(message);
                heard.countDown();
            }
            @Override public void onPMessage(String pattern, String channel, String message) {
                said.add(message);
                heard.countDown();
            }
        };
        Thread thread = new Thread(() -> {
            try (Jedis r = pool.getResource()) { r.subscribe(ears, "news"); }
        });
        thread.start();
        check(subscribed.await(20, TimeUnit.SECONDS), "subscribed");
        try (Jedis r = pool.getResource()) { r.publish("news", "one"); }
        check(heard.await(20, TimeUnit.SECONDS), "messages");
        check(said.equals(List.of("one", "one")), said);
        ears.unsubscribe();
        ears.punsubscribe();
        thread.join(20_000);
        check(!thread.isAlive(), "the subscriber ends");
    }

    public static void main(String[] args) throws Exception {
        HostAndPort where =
            new HostAndPort(System.getenv("WEIR_REDIS_HOST"), Integer.parseInt(args[0]));
        RedisProtocol protocol = args[1].equals("3") ? RedisProtocol.RESP3 : RedisProtocol.RESP2;
        Function<String, JedisClientConfig> config = password -> DefaultJedisClientConfig.builder()
            .user(System.getenv("WEIR_REDIS_USER")).password(password)
            .protocol(protocol).timeoutMillis(30_000).build();
        try (Jedis wrong = new Jedis(where, config.apply("wrong"))) {
            wrong.ping();
            throw new AssertionError("a wrong password was taken");
        } catch (JedisAccessControlException error) {
            check(error.getMessage().startsWith("WRONGPASS"), error);
        }
        JedisClientConfig own = config.apply(System.getenv("WEIR_REDIS_PASSWORD"));
        ConnectionPoolConfig size = new ConnectionPoolConfig();
        JedisPoolConfig limits = new JedisPoolConfig();
        limits.setMaxTotal(10);
        limits.setMaxWait(Duration.ofMinutes(1));
        try (JedisPool pool = new JedisPool(limits, where, own)) {
            pooled(pool);
            try (Jedis r = pool.getResource()) {
                pipelined(r);
                scripted(r);
            }
            transactions(pool);
            blocking(pool);
            subscriptions(pool);
        }
        size.setMaxTotal(5);
        try (JedisPooled many = new JedisPooled(size, where, own)) {
            together(20, n -> check(many.incr("{j}u:" + n) > 0, n));
            try (AbstractTransaction t = many.multi()) {
                t.set("{j}v", "1");
                t.incr("{j}v");
                check(t.exec().equals(List.of("OK", 2L)), "a transaction");
            }
        }
        System.out.println("jedis RESP" + args[1]);
    }
}
