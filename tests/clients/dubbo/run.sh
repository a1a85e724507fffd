#!/bin/bash
# Real providers of Dubbo, and a real ZooKeeper for them; 77 says that the registry does not serve
# them. In the place of the script runs:
#   run.sh install VERSION...              nothing: all of it is only brought here
#   run.sh provide VERSION PORT REGISTRY   a provider, registered at REGISTRY, or N/A; further
#                                          words are KEY=VALUE for it, as threads=1
#   run.sh call VERSION URL CALLS THREADS  a consumer, which says how many calls it makes a second
#   run.sh zookeeper PORT DIR              ZooKeeper 3.9.5
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../kept.sh"
fetch() {
    mvn --batch-mode --quiet --file "$here/$1" dependency:copy-dependencies \
        -DoutputDirectory="$PWD" "${@:2}"
}
dubbo() {
    local curator=4.2.0
    case $1 in 3.*) curator=5.7.1 ;; esac
    kept "dubbo-$1" fetch pom.xml -Ddubbo.version="$1" -Dcurator.version=$curator || exit 77
    CLASSES=$KEPT/*
    # Other sources are other classes.
    local sum
    sum=$(cat "$here"/*.java | sha256sum | cut -c1-12)
    kept "dubbo-test-$1-$sum" javac -nowarn -parameters -cp "$CLASSES" -d . "$here"/*.java || exit 1
    CLASSES=$KEPT:$CLASSES
}
run() {
    local opens=()
    for package in lang math util time net text; do
        opens+=(--add-opens "java.base/java.$package=ALL-UNNAMED")
    done
    exec java "${opens[@]}" -Xms64m -Xmx384m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 \
        -Djava.net.preferIPv4Stack=true -Ddubbo.application.logger=slf4j "$@"
}
command -v mvn >/dev/null || { echo "there is no mvn"; exit 77; }
mkdir -p "$WEIR_CLIENTS"
case $1 in
install)
    for version in "${@:2}"; do dubbo "$version"; done
    kept zookeeper-3.9.5 fetch zookeeper.xml || exit 77
    ;;
provide)
    dubbo "$2"
    run -cp "$CLASSES" weir.test.Provider "${@:3}"
    ;;
call)
    dubbo "$2"
    run -cp "$CLASSES" weir.test.Consumer "${@:3}"
    ;;
zookeeper)
    kept zookeeper-3.9.5 fetch zookeeper.xml || exit 77
    printf 'clientPort=%s\ndataDir=%s\ntickTime=500\nmaxClientCnxns=0\nadmin.enableServer=false\n' \
        "$2" "$3" >"$3/zoo.cfg"
    exec java -Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 \
        -Dzookeeper.admin.enableServer=false -cp "$KEPT/*" \
        org.apache.zookeeper.server.quorum.QuorumPeerMain "$3/zoo.cfg"
    ;;
esac
