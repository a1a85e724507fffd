#!/bin/bash
# go-redis, in RESP2 and RESP3, each server that it is given in turn: a pool, pipelines, transactions
# with WATCH, scripts, blocking commands, streams, subscriptions, errors.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../kept.sh"
kept_go go-redis github.com/redis/go-redis/v9@v9.7.3 "$here/main.go"
for port in $WEIR_REDIS_PORTS; do
    for protocol in 2 3; do "$PROGRAM" "$port" $protocol; done
done
