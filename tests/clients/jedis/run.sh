#!/bin/bash
# Jedis, in RESP2 and RESP3, each server that it is given in turn: a pool of threads, pipelines,
# transactions with WATCH, scripts, blocking commands, streams, subscriptions, errors.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../kept.sh"
install_jedis() {
    mvn --batch-mode --quiet --file "$here/pom.xml" dependency:copy-dependencies \
        -DoutputDirectory="$PWD"
}
kept jedis-7.2.0 install_jedis
lib=$KEPT
mkdir -p "$WEIR_DIR/jedis"
cd "$WEIR_DIR/jedis"
javac -cp "$lib/*" -d . "$here/Main.java"
for port in $WEIR_REDIS_PORTS; do
    for protocol in 2 3; do java -cp "$lib/*:." Main "$port" $protocol; done
done
