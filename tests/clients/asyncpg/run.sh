#!/bin/bash
# asyncpg: the binary protocol, named prepared statements, a pool, transactions, cursors, COPY.
set -euo pipefail
. "$(dirname "$0")/../kept.sh"
kept_python asyncpg==0.32.0
"$PYTHON" - <<'END'
import asyncio, os, ssl, asyncpg

trust = ssl.create_default_context()
trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
where = dict(host=os.environ["WEIR_PG_HOST"], port=int(os.environ["WEIR_PG_PORT"]),
             user=os.environ["WEIR_PG_USER"], password=os.environ["WEIR_PG_PASSWORD"],
             database=os.environ["WEIR_PG_DATABASE"], ssl=trust)

async def main():
    for wrong in (dict(where, password="wrong"), dict(where, user="nobody")):
        try:
            await asyncpg.connect(**wrong)
            raise SystemExit("a wrong password was taken")
        except asyncpg.InvalidPasswordError:
            pass
    c = await asyncpg.connect(**where)
    await c.execute("DROP TABLE IF EXISTS asyncpg_client")
    await c.execute("CREATE TABLE asyncpg_client (n int PRIMARY KEY, t text, j jsonb)")
    await c.executemany("INSERT INTO asyncpg_client VALUES ($1, $2, $3)",
                        [(n, f"ü{n}", "{}") for n in range(50)])
    statement = await c.prepare("SELECT t FROM asyncpg_client WHERE n = $1")
    assert [await statement.fetchval(n) for n in range(50)] == [f"ü{n}" for n in range(50)]
    try:
        await c.execute("INSERT INTO asyncpg_client VALUES ($1)", 1)
        raise SystemExit("a duplicate was taken")
    except asyncpg.UniqueViolationError:
        pass
    try:
        async with c.transaction():
            await c.execute("DELETE FROM asyncpg_client")
            async with c.transaction():
                await c.execute("SELECT 1 / 0")
    except asyncpg.DivisionByZeroError:
        pass
    async with c.transaction():
        found = [row["n"] async for row in c.cursor("SELECT n FROM asyncpg_client ORDER BY n",
                                                    prefetch=7)]
    assert found == list(range(50)), found
    records = [(n, "copied", None) for n in range(100, 1100)]
    await c.copy_records_to_table("asyncpg_client", records=records)
    assert await c.fetchval("SELECT count(*) FROM asyncpg_client") == 1050
    # A plan that the table's change makes stale is made anew, not reported.
    await c.execute("ALTER TABLE asyncpg_client ADD more int")
    assert len(await c.fetchrow("SELECT * FROM asyncpg_client WHERE n = $1", 5)) == 4
    # More of them listen, and more go back to a pool, than there are server connections.
    heard = asyncio.Queue()
    listeners = [await asyncpg.connect(**where) for _ in range(30)]
    for listener in listeners:
        await listener.add_listener("Asyncpg", lambda *about: heard.put_nowait(about[2:]))
    await c.execute("SELECT pg_notify('Asyncpg', 'ü')")
    # All hear it before any goes: who goes first may not have heard it yet.
    for _ in listeners:
        assert await asyncio.wait_for(heard.get(), 60) == ("Asyncpg", "ü")
    for listener in listeners:
        await listener.close()
    await c.close()

    async def client(pool, name):
        for n in range(50):
            async with pool.acquire() as c:
                assert await c.fetchval("SELECT $1::int + $2::int", name, n) == name + n
    async with asyncpg.create_pool(**where, min_size=5, max_size=30) as pool:
        await asyncio.gather(*(client(pool, name) for name in range(40)))
        await pool.execute("DROP TABLE asyncpg_client")

asyncio.run(main())
END
