#!/bin/bash
# pyarrow: another program that reads Parquet opens the store's files, and finds what was written.
set -euo pipefail
. "$(dirname "$0")/../kept.sh"
kept_python pyarrow==26.0.1
"$PYTHON" - <<'END'
import datetime, glob, os
import pyarrow as pa
import pyarrow.parquet as pq

rows = []
for path in sorted(glob.glob(os.environ["WEIR_STORE"] + "/data/*/*.parquet")):
    file = pq.ParquetFile(path, page_checksum_verification=True)
    schema = file.schema_arrow
    assert schema.field("time").type == pa.timestamp("ns", tz="UTC"), schema
    assert not schema.field("time").nullable, schema
    types = {"field.f": pa.float64(), "field.i": pa.int64(), "field.b": pa.bool_(),
             "field.s": pa.string(), "tag.host": pa.string(), "tag.zone": pa.string()}
    for name, wanted in types.items():
        assert schema.field(name).type == wanted, (name, schema)
    table = file.read()
    order = [(r["tag.host"], r["tag.zone"] or "", r["time"]) for r in table.to_pylist()]
    assert order == sorted(order), "the file is not sorted by series and time"
    rows += table.to_pylist()

print(pa.__version__, len(rows), "rows")
assert len(rows) == 3000, len(rows)
start = 1600000000
for row in rows:
    n = int((row["time"].timestamp() if hasattr(row["time"], "timestamp") else row["time"]) - start)
    assert row["tag.host"] == f"h{n % 7}", row
    assert row["tag.zone"] == ("eu, west" if n % 7 % 2 == 0 else None), row
    assert row["field.f"] == n / 8, row
    assert row["field.i"] == (n * n if n % 3 == 0 else None), row
    assert row["field.b"] == (n % 2 == 0), row
    assert row["field.s"] == f'text "{n}" ü', row
END
