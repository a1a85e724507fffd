#!/bin/bash
# psycopg (libpq): SCRAM bound to TLS, parameters, prepared statements, transactions, COPY, errors,
# pipelines, notices, a cursor on the server, cancels over TLS; direct TLS and protocol 3.2, since
# its wheels have a libpq of their own (18).
set -euo pipefail
. "$(dirname "$0")/../kept.sh"
kept_python 'psycopg[binary]==3.3.9'
"$PYTHON" - <<'END'
import os, psycopg, threading
from psycopg import errors

where = dict(host=os.environ["WEIR_PG_HOST"], port=os.environ["WEIR_PG_PORT"],
             user=os.environ["WEIR_PG_USER"], password=os.environ["WEIR_PG_PASSWORD"],
             dbname=os.environ["WEIR_PG_DATABASE"], sslmode="require")

def value(connection, sql, *given, **more):
    return connection.execute(sql, given or None, **more).fetchone()[0]

with psycopg.connect(**where, channel_binding="require") as c:
    assert value(c, "SELECT current_user") == where["user"]
with psycopg.connect(**where, sslnegotiation="direct", channel_binding="require",
                     min_protocol_version="3.2", max_protocol_version="latest") as c:
    assert c.pgconn.full_protocol_version == 30002
    cancelled = []
    def cancel():
        try:
            c.cancel_safe()
        except psycopg.Error as error:
            cancelled.append(error)
    other = threading.Timer(1, cancel)
    other.start()
    try:
        c.execute("SELECT pg_sleep(60)")
        raise SystemExit("a cancel did nothing")
    except errors.QueryCanceled:
        pass
    other.join()
    assert not cancelled, cancelled
for wrong in (dict(where, password="wrong"), dict(where, user="nobody")):
    try:
        psycopg.connect(**wrong)
        raise SystemExit("a wrong password was taken")
    except psycopg.OperationalError as error:
        assert f"authentication failed for user \"{wrong['user']}\"" in str(error), error

with psycopg.connect(**where, autocommit=True, application_name="psycopg") as c:
    c.execute("DROP TABLE IF EXISTS psycopg_client")
    c.execute("CREATE TABLE psycopg_client (n int PRIMARY KEY, t text, b bytea)")
    for n in range(20):
        c.execute("INSERT INTO psycopg_client VALUES (%s, %s, %s)", (n, f"ü{n}", bytes([n])),
                  prepare=True)
    rows = c.execute("SELECT n, t, b FROM psycopg_client ORDER BY n", prepare=True).fetchall()
    assert rows == [(n, f"ü{n}", bytes([n])) for n in range(20)]
    assert c.execute("SELECT b FROM psycopg_client WHERE n = 7", binary=True).fetchone()[0] == b"\7"
    assert value(c, "SHOW application_name") == "psycopg"
    try:
        c.execute("INSERT INTO psycopg_client VALUES (1)")
        raise SystemExit("a duplicate was taken")
    except errors.UniqueViolation as error:
        assert error.diag.constraint_name == "psycopg_client_pkey"
    assert value(c, "SELECT 1") == 1

    with c.transaction():
        c.execute("UPDATE psycopg_client SET t = 'x' WHERE n = 0")
        try:
            with c.transaction():
                c.execute("SELECT 1 / 0")
        except errors.DivisionByZero:
            pass
        assert value(c, "SELECT t FROM psycopg_client WHERE n = 0") == "x"
        with c.cursor(name="on_the_server") as cursor:
            cursor.itersize = 3
            cursor.execute("SELECT n FROM psycopg_client ORDER BY n")
            assert [row[0] for row in cursor] == list(range(20))
    assert value(c, "SELECT t FROM psycopg_client WHERE n = 0") == "x"

    with c.cursor().copy("COPY psycopg_client (n, t) FROM STDIN") as copy:
        for n in range(100, 1100):
            copy.write_row((n, "copied"))
    with c.cursor().copy("COPY (SELECT n FROM psycopg_client WHERE n >= 100) TO STDOUT") as copy:
        assert len(list(copy.rows())) == 1000

    with c.pipeline():
        found = [c.execute("SELECT %s::int", (n,)) for n in range(200)]
    assert [cursor.fetchone()[0] for cursor in found] == list(range(200))

    heard = []
    c.add_notice_handler(lambda said: heard.append(said.message_primary))
    c.execute("DO $$ BEGIN RAISE NOTICE 'hello'; END $$")
    assert heard == ["hello"], heard
    c.execute("DROP TABLE psycopg_client")
END
