#!/bin/bash
# What JMeter's InfluxdbBackendListenerClient sends (HttpMetricsSender): lines of the "jmeter" and
# "events" measurements with a time in nanoseconds made of milliseconds, posted to /write?db=...
# every five seconds, without a precision. JMeter itself is not run.
set -euo pipefail
url=http://$WEIR_HOST:$WEIR_PORT
post() {
    code=$(curl -sS -o "$WEIR_DIR/answer" -w '%{http_code}' "$url/write?db=clients" \
        -H 'Content-Type: text/plain; charset=UTF-8' -H 'User-Agent: Apache-HttpAsyncClient/4.1.5' \
        --data-binary @"$1")
    [ "$code" = 204 ] || { echo "answered $code: $(cat "$WEIR_DIR/answer")" >&2; exit 1; }
}

now=1600000000000
body=$WEIR_DIR/jmeter.txt
echo "events,application=shop,title=ApacheJMeter text=\"Test\\ Plan started\" ${now}000000" >"$body"
post "$body"
for n in 0 1 2 3 4 5 6 7 8 9; do
    at=$((now + 5000 * n))000000
    cat >"$body" <<END
jmeter,application=shop,transaction=internal minAT=1,maxAT=5,meanAT=3,startedT=5,endedT=0 $at
jmeter,application=shop,transaction=add\\ to\\ basket,statut=ok count=10,avg=3.5,min=1.0,max=9.0,hit=10,sb=1000,rb=20000,pct90.0=8.0,pct95.0=8.5,pct99.0=9.0 $at
jmeter,application=shop,transaction=add\\ to\\ basket,statut=ko count=0 $at
jmeter,application=shop,transaction=add\\ to\\ basket,statut=all count=10,avg=3.5,min=1.0,max=9.0,hit=10,sb=1000,rb=20000,pct90.0=8.0,pct95.0=8.5,pct99.0=9.0 $at
jmeter,application=shop,transaction=all,statut=all count=10,countError=0,avg=3.5,min=1.0,max=9.0,hit=10,sb=1000,rb=20000,pct90.0=8.0,pct95.0=8.5,pct99.0=9.0 $at
jmeter,application=shop,transaction=add\\ to\\ basket,responseCode=500,responseMessage=Internal\\ Server\\ Error count=2 $at
clients,name=jmeter v=$n $at
END
    post "$body"
done
for _ in $(seq 200); do
    got=$(curl -sS "$url/query" -d db=clients --data-urlencode \
        "q=SELECT sum(\"count\") FROM jmeter WHERE \"transaction\"='all' AND statut='all'")
    case $got in *100*) exit 0 ;; esac
    sleep 0.1
done
echo "read back: $got" >&2
exit 1
