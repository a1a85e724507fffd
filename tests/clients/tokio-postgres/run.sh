#!/bin/bash
# tokio-postgres: SCRAM over a Unix socket, many statements in flight on one connection, prepared
# statements over many transactions, portals, COPY given up half-way, cancels, notifications. Built
# with the tests.
set -euo pipefail
exec "$WEIR_TOKIO_POSTGRES"
