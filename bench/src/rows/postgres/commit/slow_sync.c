/* Preloaded into a PostgreSQL server with wal_sync_method = fdatasync: each of its syncs of the WAL
 * takes WEIR_BENCH_SYNC_MORE_US microseconds longer. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>

static int (*sync_file)(int);
static struct timespec more;

__attribute__((constructor)) static void set_up(void)
{
    const char *value = getenv("WEIR_BENCH_SYNC_MORE_US");
    long us = value ? atol(value) : 0;

    more.tv_sec = us / 1000000;
    more.tv_nsec = us % 1000000 * 1000;
    sync_file = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
}

int fdatasync(int file)
{
    struct timespec left = more;

    /* A signal that wakes the process does not make the disk faster. */
    if (more.tv_sec || more.tv_nsec)
        while (nanosleep(&left, &left) && errno == EINTR)
            ;
    return sync_file(file);
}
