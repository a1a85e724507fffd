#!/bin/bash
# The influxdb package for Python (1.x API): JSON points, line protocol, gzip, batches, queries.
set -euo pipefail
. "$(dirname "$0")/../kept.sh"
kept_python influxdb==5.3.2 setuptools==84.2.1
"$PYTHON" - <<'END'
import os, time
from influxdb import InfluxDBClient
from influxdb.exceptions import InfluxDBClientError

where = dict(host=os.environ["WEIR_HOST"], port=int(os.environ["WEIR_PORT"]), database="clients")
name, start = "python-influxdb", 1600000000000000000
client = InfluxDBClient(**where)
print("version", client.ping())

def point(n):
    return {"measurement": "clients", "tags": {"name": name}, "fields": {"v": float(n)},
            "time": start + n}

assert client.write_points([point(n) for n in range(5)], time_precision="n")
assert client.write_points([f"clients,name={name} v={n} {start + n}" for n in (5, 6)],
                           protocol="line")
assert InfluxDBClient(gzip=True, **where).write_points([point(7), point(8)], batch_size=1)
assert client.write_points([{**point(9), "fields": {"v": 9.0, "text": 'quote " and \\ and ü'}}])
client.create_database("made")
assert {"name": "made"} in client.get_list_database()
try:
    client.write(["no line protocol"], {"db": "clients"}, protocol="line")
    raise SystemExit("a bad line was accepted")
except InfluxDBClientError as error:
    assert error.code == 400 and "unable to parse" in error.content, error

query = f"SELECT count(v) FROM clients WHERE \"name\" = '{name}'"
deadline = time.time() + 20
while sum(p["count"] for p in client.query(query).get_points()) != 10:
    assert time.time() < deadline, client.query(query)
    time.sleep(0.1)
client.drop_database("made")
END
