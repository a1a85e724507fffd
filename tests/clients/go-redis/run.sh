#!/bin/bash
# go-redis, in RESP2 and RESP3, each server that it is given in turn: a pool, pipelines, transactions
# with WATCH, scripts, blocking commands, streams, subscriptions, errors.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$WEIR_DIR/go-redis"
cp "$here/main.go" "$WEIR_DIR/go-redis"
cd "$WEIR_DIR/go-redis"
go mod init weir.test/go-redis 2>/dev/null
go mod edit -go=1.21 -require=github.com/redis/go-redis/v9@v9.7.3
go mod tidy 2>/dev/null
go build -o main .
for port in $WEIR_REDIS_PORTS; do
    for protocol in 2 3; do ./main "$port" $protocol; done
done
