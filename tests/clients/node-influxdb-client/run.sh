#!/bin/bash
# @influxdata/influxdb-client for Node (2.x API): writes with gzip above a threshold, retries, flush.
set -euo pipefail
. "$(dirname "$0")/../kept.sh"
cd "$WEIR_DIR"
kept_node @influxdata/influxdb-client@1.35.0
cat >client.mjs <<'END'
import { InfluxDB, Point } from '@influxdata/influxdb-client'

const url = `http://${process.env.WEIR_HOST}:${process.env.WEIR_PORT}`
const client = new InfluxDB({ url, token: 'any:thing' })
const point = (n) => new Point('clients').tag('name', 'node-influxdb-client')
  .floatField('v', n).timestamp(String(1600000000000000000n + BigInt(n)))

const write = client.getWriteApi('', 'clients/autogen', 'ns', { gzipThreshold: 100 })
for (let n = 0; n < 10; n++) write.writePoint(point(n))
await write.close()

const bad = client.getWriteApi('', 'clients', 'ns', { maxRetries: 0 })
bad.writeRecord('no line protocol')
const refused = await bad.close().then(() => undefined, (error) => error)
if (refused?.statusCode !== 400) throw new Error(`a bad line was accepted: ${refused}`)
END
node client.mjs
