#!/bin/bash
# HdrHistogram's own tool, as Debian has it, on the interval log of a run: the percentiles of all
# its windows, in nanoseconds, on standard output.
set -euo pipefail
java -cp "${HDRHISTOGRAM:-/usr/share/java/hdrhistogram.jar}" \
    org.HdrHistogram.HistogramLogProcessor -i "$1" -outputValueUnitRatio 1
