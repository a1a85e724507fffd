const assert = require("node:assert");
const { createClient, createClientPool, WatchError, defineScript } = require("redis");

const [port, RESP] = [Number(process.argv[2]), Number(process.argv[3])];
const where = {
  socket: { host: process.env.WEIR_REDIS_HOST, port, reconnectStrategy: false },
  username: process.env.WEIR_REDIS_USER, password: process.env.WEIR_REDIS_PASSWORD, RESP,
};
const numbers = (count) => [...Array(count).keys()];

// Where it hangs is said; a test that is merely ended from outside says nothing.
let at = "the beginning";
const limit = setTimeout(() => {
  console.error(`node-redis hangs: ${at}`);
  process.exit(1);
}, 120_000);

async function connected(more) {
  const client = createClient({ ...where, ...more });
  client.on("error", (error) => { console.error(at, error); });
  await client.connect();
  return client;
}

function once(subscribe) {
  return new Promise((resolve, reject) => {
    const heard = (...said) => resolve(said);
    subscribe(heard).catch(reject);
  });
}

async function plain(client) {
  at = "plain commands";
  assert.strictEqual(await client.ping(), "PONG");
  const keys = numbers(300).map((n) => `n:k:${n}`);
  await Promise.all(keys.map((key, n) => client.set(key, `${n}${"x".repeat(n * 10)}`)));
  const found = await Promise.all(keys.map((key) => client.get(key)));
  found.forEach((value, n) => assert.strictEqual(value, `${n}${"x".repeat(n * 10)}`));
  assert.strictEqual((await client.mGet(keys)).length, 300);
  const scanned = new Set();
  for await (const some of client.scanIterator({ MATCH: "n:k:*", COUNT: 31 })) {
    some.forEach((key) => scanned.add(key));
  }
  assert.strictEqual(scanned.size, 300);
  assert.strictEqual(await client.del(keys), 300);
  const big = "v".repeat(5 << 20);
  await client.set("n:big", big);
  assert.strictEqual(await client.get("n:big"), big);
  await client.del("n:h");
  await client.hSet("n:h", { a: "1", b: "2" });
  assert.deepStrictEqual({ ...(await client.hGetAll("n:h")) }, { a: "1", b: "2" });
  await client.zAdd("n:z", [{ score: 1.5, value: "a" }]);
  assert.strictEqual(await client.zScore("n:z", "a"), 1.5);
  await assert.rejects(client.lPush("n:h", "x"), /WRONGTYPE/);
  assert.strictEqual(await client.eval("return {KEYS[1], ARGV[1]}",
    { keys: ["n:h"], arguments: ["x"] }).then((all) => all.join()), "n:h,x");
}

async function transactions(client) {
  at = "transactions";
  await client.set("{n}t", "0");
  const all = await client.multi().incr("{n}t").incr("{n}t").get("{n}t").exec();
  assert.deepStrictEqual(all, [1, 2, "2"]);
  const piped = await client.multi().set("n:1", "a").set("n:2", "b").get("n:1").execAsPipeline();
  assert.deepStrictEqual(piped, ["OK", "OK", "a"]);
  await assert.rejects(client.multi().set("{n}s", "text").incr("{n}s").exec());
  at = "watched keys";
  const other = await connected();
  await other.watch("{n}t");
  await client.incr("{n}t");
  await assert.rejects(other.multi().incr("{n}t").exec(), WatchError);
  assert.strictEqual(await other.get("{n}t"), "3");
  at = "close";
  await other.close();
}

async function pooled() {
  at = "a pool";
  const pool = createClientPool(where, { minimum: 2, maximum: 8 });
  pool.on("error", (error) => console.error(at, error));
  await pool.connect();
  await pool.set("{n}p", "0");
  await Promise.all(numbers(200).map(() => pool.incr("{n}p")));
  assert.strictEqual(await pool.get("{n}p"), "200");
  await pool.del("{n}w");
  const add = () => pool.execute(async (client) => {
    for (;;) {
      await client.watch("{n}w");
      const n = Number(await client.get("{n}w") ?? 0);
      try {
        return await client.multi().set("{n}w", String(n + 1)).exec();
      } catch (error) {
        if (!(error instanceof WatchError)) throw error;
      }
    }
  });
  at = "watched keys of a pool";
  await Promise.all(numbers(20).map(add));
  assert.strictEqual(await pool.get("{n}w"), "20");
  at = "closing a pool";
  await pool.close();
}

async function blocking(client) {
  at = "blocking commands";
  const waits = await connected();
  await client.del(["{n}q", "{n}st"]);
  const waiting = waits.blPop("{n}q", 20);
  await client.rPush("{n}q", "late");
  assert.deepStrictEqual({ ...(await waiting) }, { key: "{n}q", element: "late" });
  assert.strictEqual(await waits.blPop("{n}nothing", 0.1), null);
  at = "streams";
  await client.xGroupCreate("{n}st", "g", "0", { MKSTREAM: true });
  const id = await client.xAdd("{n}st", "*", { a: "1" });
  const read = await waits.xReadGroup("g", "c", { key: "{n}st", id: ">" }, { BLOCK: 1000 });
  assert.ok(JSON.stringify(read).includes(id));
  assert.strictEqual(await client.xAck("{n}st", "g", id), 1);
  at = "giving up what waits";
  const never = waits.blPop("{n}never", 0);
  waits.destroy();
  await assert.rejects(never);
}

async function subscriptions(client) {
  at = "subscriptions";
  const ears = client.duplicate();
  ears.on("error", (error) => console.error(at, error));
  await ears.connect();
  let message = once((heard) => ears.subscribe("news", heard));
  const pattern = once((heard) => ears.pSubscribe("ne*", heard));
  const shard = once((heard) => ears.sSubscribe("shard", heard));
  // In RESP2 the two are subscribed one behind the other; each is confirmed before this.
  await ears.ping();
  await client.publish("news", "one");
  await client.sPublish("shard", "two");
  assert.deepStrictEqual(await message, ["one", "news"]);
  assert.deepStrictEqual(await pattern, ["one", "news"]);
  assert.deepStrictEqual(await shard, ["two", "shard"]);
  at = "ending subscriptions";
  await ears.unsubscribe("news");
  await ears.pUnsubscribe();
  await ears.sUnsubscribe();
  await ears.unsubscribe();
  at = "commands behind subscriptions";
  assert.strictEqual(await ears.ping(), "PONG");
  assert.strictEqual(await ears.set("n:e", "x"), "OK");
  message = once((heard) => ears.subscribe(["news", "more"], heard));
  await ears.ping();
  await client.publish("more", "three");
  assert.deepStrictEqual(await message, ["three", "more"]);
  at = "closing a subscriber";
  await ears.close();
}

async function scripts() {
  at = "scripts";
  const add = defineScript({
    NUMBER_OF_KEYS: 1, SCRIPT: "return redis.call('INCRBY', KEYS[1], ARGV[1])",
    parseCommand(parser, key, by) { parser.pushKey(key); parser.push(String(by)); },
    transformReply: (reply) => reply,
  });
  const client = await connected({ scripts: { add } });
  await client.del("{n}x");
  assert.deepStrictEqual([await client.add("{n}x", 3), await client.add("{n}x", 4)], [3, 7]);
  client.destroy();
}

async function wrong() {
  at = "a wrong password";
  const client = createClient({ ...where, password: "wrong" });
  client.on("error", () => {});
  await assert.rejects(client.connect(), /WRONGPASS/);
}

async function main() {
  await wrong();
  const client = await connected();
  await plain(client);
  await transactions(client);
  await pooled();
  await blocking(client);
  await subscriptions(client);
  await scripts();
  at = "the end";
  await client.quit();
  clearTimeout(limit);
  console.log(`node-redis RESP${RESP}`);
}
main().catch((error) => { console.error(at, error); process.exit(1); });
