#!/bin/bash
# The influx command of InfluxDB 1.x: it parses the version of /ping, writes by INSERT and /write,
# reads by /query, and imports a file with gzip.
set -euo pipefail
cli() { influx -host "$WEIR_HOST" -port "$WEIR_PORT" -database clients "$@"; }

for n in 0 1 2 3 4; do
    cli -execute "INSERT clients,name=influx-cli v=$n $((1600000000000000000 + n))"
done

file=$WEIR_DIR/import.txt
{
    echo "# DDL"
    echo "CREATE DATABASE imported"
    echo "# DML"
    echo "# CONTEXT-DATABASE: clients"
    for n in 5 6 7 8 9; do
        echo "clients,name=influx-cli v=$n $((1600000000000000000 + n))"
    done
} >"$file"
influx -host "$WEIR_HOST" -port "$WEIR_PORT" -import -path "$file" -precision ns

cli -execute "SHOW DATABASES" | grep -q imported
for _ in $(seq 200); do
    count=$(cli -format csv -execute "SELECT count(v) FROM clients WHERE \"name\"='influx-cli'" | tail -1)
    [ "${count##*,}" = 10 ] && exit 0
    sleep 0.1
done
echo "read back: $count" >&2
exit 1
