# Sourced by scripts that install a client from a registry: a network that fails for a moment is no
# fault of Weir's.
again() {
    for _ in 1 2 3; do
        "$@" && return
        sleep 5
    done
    "$@"
}
