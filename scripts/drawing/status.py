"""`weir status` with a backend away: a real run, as tmux has it on its screen."""

import concurrent.futures
import contextlib
import http.client
import os
import pathlib
import socket
import subprocess
import tempfile
import threading
import time

from . import terminal
from .terminal import DEADLINE_SECONDS, wait
from .view import Refused, need

COLUMNS, LINES = 88, 12
# Long enough for a backlog that is worth a look.
TOGETHER_SECONDS, APART_SECONDS = 20, 40
WRITERS, BATCH_POINTS = 8, 100
# The pause of a writer between two batches: some 20,000 points a second in all.
PAUSE_SECONDS = WRITERS * BATCH_POINTS / 20_000
A, B, GATEWAY, ADMIN = 18086, 28086, 8086, 8088


def draw(weir):
    """The drawing for each theme."""
    if not weir.is_file():
        raise Refused(f"{weir} is missing: cargo build --release --package weir, or set WEIR_BIN")
    return terminal.draw(captured(weir))


def captured(weir):
    """The screen of a terminal in which `weir status` was called."""
    influxd = need("influxd", "influxdb")
    for port in (A, B, GATEWAY, ADMIN):
        if answers(port):
            raise Refused(f"port {port} is taken by another program; stop it first")
    with contextlib.ExitStack() as stack:
        home = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pictures-")))
        servers = {port: server(stack, influxd, home, port) for port in (A, B)}
        wait("InfluxDB answers", lambda: answers(A) and answers(B))
        for port in servers:
            ask(port, "POST", "/query?q=CREATE%20DATABASE%20sensors")
        (home / "weir.toml").write_text(
            f'[[influx.backend]]\nname = "a"\nurl = "http://127.0.0.1:{A}"\n'
            f'[[influx.backend]]\nname = "b"\nurl = "http://127.0.0.1:{B}"\n'
        )
        started(stack, [weir, "serve"], home, home / "weir.log")
        wait("Weir is ready", lambda: answers(ADMIN) and ask(ADMIN, "GET", "/ready") == 200)
        with writers():
            time.sleep(TOGETHER_SECONDS)
            servers[B].kill()
            time.sleep(APART_SECONDS)
            return screen_of(stack, weir, home)


def screen_of(stack, weir, home):
    """What a shell shows once it has called `weir status`."""
    session = terminal.Session(stack, home, weir, COLUMNS, LINES)
    session.keys("weir status", "Enter")
    # The prompt comes again behind the answer.
    wait("the answer of weir status", lambda: session.shown().count("$") == 2)
    if "Connection refused" not in session.shown():
        raise Refused(f"no backend is away in:\n{session.shown()}")
    return session.screen()


def server(stack, influxd, home, port):
    """An InfluxDB of our own, which reads no file of the system."""
    own = home / str(port)
    settings = {
        "INFLUXDB_REPORTING_DISABLED": "true",
        "INFLUXDB_BIND_ADDRESS": "127.0.0.1:0",
        "INFLUXDB_HTTP_BIND_ADDRESS": f"127.0.0.1:{port}",
        "INFLUXDB_META_DIR": str(own / "meta"),
        "INFLUXDB_DATA_DIR": str(own / "data"),
        "INFLUXDB_DATA_WAL_DIR": str(own / "wal"),
    }
    command = [influxd, "run", "-config", "/dev/null"]
    return started(stack, command, home, home / f"{port}.log", {**os.environ, **settings})


def started(stack, command, home, log, environment=None):
    """A process that is ended with the stack."""
    with open(log, "wb") as out:
        process = subprocess.Popen(command, cwd=home, env=environment, stdin=subprocess.DEVNULL,
                                   stdout=out, stderr=out)
    stack.callback(process.wait)
    stack.callback(process.kill)
    return process


@contextlib.contextmanager
def writers():
    """Clients that write points to Weir while something else is done."""
    done = threading.Event()
    with concurrent.futures.ThreadPoolExecutor(WRITERS) as pool:
        begun = [pool.submit(write, done, number) for number in range(WRITERS)]
        try:
            yield
        finally:
            done.set()
    for each in begun:
        each.result()


def write(done, number):
    """Writes batches until `done`, each of which must be acknowledged."""
    connection = http.client.HTTPConnection("127.0.0.1", GATEWAY, timeout=DEADLINE_SECONDS)
    while not done.wait(PAUSE_SECONDS):
        now = time.time_ns()
        lines = [f"air,room=r{number} t={20 + n % 7}.5 {now + n}" for n in range(BATCH_POINTS)]
        connection.request("POST", "/write?db=sensors", "\n".join(lines))
        answer = connection.getresponse()
        said = answer.read()
        if answer.status != 204:
            raise Refused(f"a write was answered with {answer.status}: {said}")
    connection.close()


def answers(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def ask(port, method, target):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_SECONDS)
    connection.request(method, target)
    status = connection.getresponse().status
    connection.close()
    return status
