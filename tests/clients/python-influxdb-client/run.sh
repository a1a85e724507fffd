#!/bin/bash
# The influxdb-client package for Python (2.x API) against the 1.8 compatibility endpoints:
# /api/v2/write with bucket "db/rp" and token "user:password", /health, synchronous and batching.
set -euo pipefail
. "$(dirname "$0")/../kept.sh"
kept_python influxdb-client==1.50.0
"$PYTHON" - <<'END'
import os
from influxdb_client import InfluxDBClient, Point, WritePrecision, WriteOptions
from influxdb_client.client.write_api import SYNCHRONOUS
from influxdb_client.rest import ApiException

url = f"http://{os.environ['WEIR_HOST']}:{os.environ['WEIR_PORT']}"
name, start = "python-influxdb-client", 1600000000000000000

def point(n):
    return Point("clients").tag("name", name).field("v", float(n)).time(start + n,
                                                                         WritePrecision.NS)

with InfluxDBClient(url=url, token="any:thing", org="-") as client:
    assert client.ping()
    assert client.health().status == "pass", client.health()
    write = client.write_api(write_options=SYNCHRONOUS)
    write.write(bucket="clients/autogen", record=[point(n) for n in range(5)])
    write.write(bucket="clients", record=[point(5), point(6)])
    try:
        write.write(bucket="clients", record="no line protocol")
        raise SystemExit("a bad line was accepted")
    except ApiException as error:
        assert error.status == 400, error
with InfluxDBClient(url=url, token="any:thing", org="-", enable_gzip=True) as client:
    with client.write_api(write_options=WriteOptions(batch_size=2)) as write:
        write.write(bucket="clients", record=[point(7), point(8), point(9)])
END
