#!/bin/bash
# JMeter without a window. Without a word: plan.jmx, with its stock listener sending to $WEIR_URL
# every second. With "dubbo": dubbo.jmx, which calls the provider at $WEIR_URL by DubboSampler.java,
# whose reference is kept where $WEIR_CACHED is true; the jars of Dubbo are in $WEIR_DUBBO. With
# "install" it is only brought here; 77 says that the registry does not serve it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../kept.sh"
fetch_jars() {
    mvn --batch-mode --quiet --file "$here/pom.xml" dependency:copy-dependencies \
        -DoutputDirectory="$PWD"
}
# JMeter finds its home and its modules by where its jars are.
lay_out() {
    mkdir -p lib/ext lib/junit &&
        jar --extract --file "$1"/ApacheJMeter_config-*.jar bin &&
        cp --link "$1"/*.jar lib &&
        mv lib/ApacheJMeter-*.jar bin/ApacheJMeter.jar &&
        mv lib/ApacheJMeter_*.jar lib/ext
}
kept jmeter-jars-5.6.3 fetch_jars || exit 77
kept jmeter-5.6.3 lay_out "$KEPT"
if [ "${1:-}" = install ]; then exit; fi
cd "$WEIR_DIR"
jmeter() {
    exec java -Djava.awt.headless=true -Djava.util.prefs.userRoot="$PWD" \
        -Djava.net.preferIPv4Stack=true "$@" --nongui --logfile result.jtl \
        --jmeterlogfile jmeter.log -Jjmeterengine.nongui.port=0 -Jurl="$WEIR_URL" \
        -Jseconds="${WEIR_SECONDS:-5}"
}
if [ "${1:-}" = dubbo ]; then
    home=$KEPT
    compile() { javac -nowarn -cp "$home/lib/ext/*:$home/lib/*:$WEIR_DUBBO/*" -d . "$here"/*.java; }
    sum=$(sha256sum <"$here/DubboSampler.java" | cut -c1-12)
    kept "jmeter-dubbo-$(basename "$WEIR_DUBBO")-$sum" compile
    opens=()
    for package in lang math util time net text; do
        opens+=(--add-opens "java.base/java.$package=ALL-UNNAMED")
    done
    jmeter "${opens[@]}" -Xms1g -Xmx1g -jar "$home/bin/ApacheJMeter.jar" \
        --testfile "$here/dubbo.jmx" -Jthreads="${WEIR_THREADS:-64}" -Jcached="$WEIR_CACHED" \
        -Juser.classpath="$KEPT" -Jsearch_paths="$KEPT" -Jplugin_dependency_paths="$WEIR_DUBBO"
fi
# The listener gives up a flush whose connection is not there after 0.1 s.
(jmeter -Xms64m -Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 \
    -jar "$KEPT/bin/ApacheJMeter.jar" --testfile "$here/plan.jmx" \
    -Jbackend_influxdb.send_interval=1 \
    -Jbackend_influxdb.connection_request_timeout=30000 \
    -Jbackend_influxdb.connection_timeout=30000 -Jbackend_influxdb.socket_timeout=30000)
if grep -E -A20 ' ERROR ' jmeter.log; then exit 1; fi
