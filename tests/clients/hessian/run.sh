#!/bin/bash
# hessian-lite, in the version that it is given as GROUP VERSION: it reads what Weir has written
# and writes it again, and it writes values of its own with what they are. Ends with 77 where the
# jar cannot be had.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../kept.sh"
install_hessian() {
    mvn --batch-mode --quiet dependency:copy -Dartifact="$1:hessian-lite:$2" \
        -DoutputDirectory="$PWD" || echo "mvn cannot fetch hessian-lite $2"
}
command -v mvn >/dev/null || { echo "there is no mvn"; exit 77; }
mkdir -p "$WEIR_CLIENTS"
kept "hessian-lite-$2" install_hessian "$1" "$2"
ls "$KEPT"/*.jar >/dev/null 2>&1 || { rm -rf "$KEPT"; exit 77; }
cd "$WEIR_DIR"
javac -nowarn -cp "$KEPT/*" -d . "$here/Main.java"
opens=()
for package in lang math util; do opens+=(--add-opens "java.base/java.$package=ALL-UNNAMED"); done
java "${opens[@]}" -Xss16m -cp "$KEPT/*:." Main
