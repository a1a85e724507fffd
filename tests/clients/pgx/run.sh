#!/bin/bash
# pgx for Go: SCRAM over TLS, a pool, statements prepared by themselves, batches, COPY, errors.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../kept.sh"
kept_go pgx github.com/jackc/pgx/v5@v5.5.5 "$here/main.go"
"$PROGRAM"
