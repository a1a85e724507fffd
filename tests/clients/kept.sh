# Sourced by scripts that install a driver from a registry. Each driver is installed once for a
# tree, below WEIR_CLIENTS, under a name with its exact version.

# A network that fails for a moment is no fault of Weir's.
again() {
    for _ in 1 2 3; do
        "$@" && return
        sleep 5
    done
    "$@"
}

# kept NAME COMMAND...: sets KEPT to a directory that the command, run within it, has filled; fails
# where the command does.
kept() {
    KEPT=$WEIR_CLIENTS/$1
    if [ -d "$KEPT" ]; then return; fi
    local new=$KEPT.$$
    mkdir -p "$new"
    (cd "$new" && again "${@:2}") || { rm -r "$new"; return 1; }
    # Another process may have been first; then its directory serves as well.
    mv --no-target-directory "$new" "$KEPT" 2>/dev/null || rm -r "$new"
}

# kept_python PACKAGE==VERSION...: sets PYTHON to one that has these packages.
kept_python() {
    kept "python-$1" install_python "$@"
    PYTHON=$KEPT/bin/python
}

install_python() {
    python3 -m venv .
    bin/python -m pip install --quiet --disable-pip-version-check --only-binary :all: "$@"
}

# kept_go NAME MODULE@VERSION SOURCE: sets PROGRAM to what this source makes of the module. Another
# source, or another version of Go, is another program.
kept_go() {
    local sum
    sum=$(cat "$3" <(go version) | sha256sum | cut -c1-12)
    kept "go-$1-${2##*@}-$sum" build_go "$1" "$2" "$3"
    PROGRAM=$KEPT/main
}

build_go() {
    cp "$3" main.go
    go mod init "weir.test/$1" 2>/dev/null
    go mod edit -go=1.21 -require="$2"
    go mod tidy 2>/dev/null
    go build -o main .
}

# kept_node PACKAGE@VERSION: lets node in the current directory find this package.
kept_node() {
    kept "node-${1##*/}" npm install --silent --no-audit --no-fund --prefix . "$1" >&2
    ln -sfn "$KEPT/node_modules" node_modules
}
