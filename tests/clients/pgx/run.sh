#!/bin/bash
# pgx for Go: SCRAM over TLS, a pool, statements prepared by themselves, batches, COPY, errors.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$WEIR_DIR/pgx"
cp "$here/main.go" "$WEIR_DIR/pgx"
cd "$WEIR_DIR/pgx"
go mod init weir.test/pgx 2>/dev/null
go mod edit -go=1.21 -require=github.com/jackc/pgx/v5@v5.5.5
go mod tidy 2>/dev/null
go run .
