#!/bin/bash
# Jedis, in RESP2 and RESP3, each server that it is given in turn: a pool of threads, pipelines,
# transactions with WATCH, scripts, blocking commands, streams, subscriptions, errors.
set -euo pipefail
. "$(dirname "$0")/../again.sh"
mkdir -p "$WEIR_DIR/jedis"
cp "$(dirname "$0")/Main.java" "$(dirname "$0")/pom.xml" "$WEIR_DIR/jedis"
cd "$WEIR_DIR/jedis"
again mvn --batch-mode --quiet dependency:copy-dependencies -DoutputDirectory=lib
javac -cp 'lib/*' Main.java
for port in $WEIR_REDIS_PORTS; do
    for protocol in 2 3; do java -cp 'lib/*:.' Main "$port" $protocol; done
done
