#!/bin/bash
# node-postgres (pg): SCRAM over TLS, a pool, parameters, named statements, transactions, errors.
set -euo pipefail
. "$(dirname "$0")/../kept.sh"
cd "$WEIR_DIR"
mkdir -p node && cd node
kept_node pg@8.23.1
cat >main.js <<'END'
const assert = require("node:assert");
const { Client, Pool } = require("pg");

const where = {
  host: process.env.WEIR_PG_HOST, port: Number(process.env.WEIR_PG_PORT),
  user: process.env.WEIR_PG_USER, password: process.env.WEIR_PG_PASSWORD,
  database: process.env.WEIR_PG_DATABASE, ssl: { rejectUnauthorized: false },
  enableChannelBinding: true,
};

async function main() {
  for (const wrong of [{ ...where, password: "wrong" }, { ...where, user: "nobody" }]) {
    const client = new Client(wrong);
    await assert.rejects(client.connect(), { code: "28P01" });
  }
  const pool = new Pool({ ...where, max: 10 });
  await pool.query("DROP TABLE IF EXISTS node_client");
  await pool.query("CREATE TABLE node_client (n int PRIMARY KEY, t text)");
  const insert = { name: "insert", text: "INSERT INTO node_client VALUES ($1, $2)" };
  await Promise.all([...Array(100).keys()].map(
    (n) => pool.query({ ...insert, values: [n, `ü${n}`] })));
  const read = { name: "read", text: "SELECT t FROM node_client WHERE n = $1" };
  await Promise.all([...Array(100).keys()].map(async (n) => {
    assert.strictEqual((await pool.query({ ...read, values: [n] })).rows[0].t, `ü${n}`);
  }));
  await assert.rejects(pool.query({ ...insert, values: [1, "again"] }), { code: "23505" });

  const client = await pool.connect();
  await client.query("BEGIN");
  await client.query("DELETE FROM node_client");
  await assert.rejects(client.query("SELECT 1 / 0"), { code: "22012" });
  await assert.rejects(client.query("SELECT 1"), { code: "25P02" });
  await client.query("ROLLBACK");
  const several = await client.query("SELECT 1 AS a; SELECT 2 AS b");
  assert.deepStrictEqual(several.map((result) => result.rows), [[{ a: 1 }], [{ b: 2 }]]);
  client.release();
  assert.strictEqual((await pool.query("SELECT count(*) FROM node_client")).rows[0].count, "100");
  await pool.query("DROP TABLE node_client");
  await pool.end();
}
main().catch((error) => { console.error(error); process.exit(1); });
END
node main.js
