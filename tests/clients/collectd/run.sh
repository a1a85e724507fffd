#!/bin/bash
# collectd 5.12 speaks line protocol over UDP only (plugin write_influxdb_udp, times in
# milliseconds): write_http knows JSON, KairosDB and plain PUTVAL, and InfluxDB takes collectd's own
# protocol by a listener of its own.
set -euo pipefail
PATH=$PATH:/usr/sbin
conf=$WEIR_DIR/collectd.conf
cat >"$conf" <<END
BaseDir "$WEIR_DIR"
PIDFile "$WEIR_DIR/collectd.pid"
TypesDB "/usr/share/collectd/types.db"
Hostname "collectd"
FQDNLookup false
Interval 0.1
LoadPlugin load
LoadPlugin write_influxdb_udp
<Plugin write_influxdb_udp>
  Server "$WEIR_HOST" "$WEIR_UDP_PORT"
  StoreRates true
</Plugin>
END
collectd -f -C "$conf" >"$WEIR_DIR/collectd.log" 2>&1 &
pid=$!
trap 'kill $pid 2>/dev/null || true' EXIT

query() { curl -sS "http://$WEIR_HOST:$WEIR_PORT/query" -d db=clients --data-urlencode "q=$1"; }
for _ in $(seq 300); do
    kill -0 $pid || { cat "$WEIR_DIR/collectd.log" >&2; exit 1; }
    count=$(query 'SELECT count(shortterm) FROM "load" WHERE time > now() - 1h' | grep -o '[0-9]*\]\]' | tr -d ']' || true)
    [ "${count:-0}" -ge 10 ] && exit 0
    sleep 0.1
done
echo "no points of collectd arrived; its log:" >&2
cat "$WEIR_DIR/collectd.log" >&2
query 'SHOW MEASUREMENTS' >&2
exit 1
