#!/bin/bash
# node-redis, in RESP2 and RESP3, each server that it is given in turn: a pool, pipelines made by
# itself, transactions with WATCH, scripts, blocking commands, streams, subscriptions, errors.
set -euo pipefail
. "$(dirname "$0")/../kept.sh"
mkdir -p "$WEIR_DIR/node-redis"
cp "$(dirname "$0")/main.js" "$WEIR_DIR/node-redis"
cd "$WEIR_DIR/node-redis"
kept_node redis@5.12.1
for port in $WEIR_REDIS_PORTS; do
    for protocol in 2 3; do node main.js "$port" $protocol; done
done
