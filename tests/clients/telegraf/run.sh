#!/bin/bash
# Telegraf's influxdb output (1.x API, gzip by default).
set -euo pipefail
cat >"$WEIR_DIR/telegraf.conf" <<END
[agent]
  omit_hostname = true
[[inputs.file]]
  files = ["$WEIR_DIR/points.txt"]
  data_format = "influx"
[[outputs.influxdb]]
  urls = ["http://$WEIR_HOST:$WEIR_PORT"]
  database = "clients"
END
for n in 0 1 2 3 4 5 6 7 8 9; do
    echo "clients,name=telegraf v=$n $((1600000000000000000 + n))"
done >"$WEIR_DIR/points.txt"
telegraf --config "$WEIR_DIR/telegraf.conf" --once
