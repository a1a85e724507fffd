#!/bin/bash
# pgjdbc, as Debian has it, in each of its query modes: SCRAM over TLS, server-prepared statements
# over many transactions, batches and errors within them, fetch size, savepoints of its own, COPY,
# cancels, timeouts, notifications, a changed result type, the catalogue.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
for mode in simple extended extendedForPrepared extendedCacheEverything; do
    java -cp "${PGJDBC:-/usr/share/java/postgresql.jar}" "$here/Main.java" $mode
done
