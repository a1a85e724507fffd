"""`weir status` with a backend away: a real run, as tmux has it on its screen."""

import concurrent.futures
import contextlib
import http.client
import os
import pathlib
import re
import shlex
import socket
import subprocess
import tempfile
import threading
import time

from .view import THEMES, Refused, document, need, text

COLUMNS, LINES = 88, 12
# Long enough for a backlog that is worth a look.
TOGETHER_SECONDS, APART_SECONDS = 20, 40
WRITERS, BATCH_POINTS = 8, 100
# The pause of a writer between two batches: some 20,000 points a second in all.
PAUSE_SECONDS = WRITERS * BATCH_POINTS / 20_000
DEADLINE_SECONDS = 60
A, B, GATEWAY, ADMIN = 18086, 28086, 8086, 8088

# A column and a line of the terminal, in units of the drawing.
CELL, ROW, MARGIN, BAR = 9, 21, 12, 30
STYLE = (
    "text{font:15px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;"
    "white-space:pre}"
)
SGR_COLOURS = [None, "red", "green", "yellow", "blue", "magenta", "cyan", None]


def draw(weir):
    """The drawing for each theme."""
    if not weir.is_file():
        raise Refused(f"{weir} is missing: cargo build --release --package weir, or set WEIR_BIN")
    screen = [runs(line) for line in captured(weir)]
    while screen and not any(words.strip() for words, _, _ in screen[-1]):
        screen.pop()
    return {theme: terminal(screen, colours) for theme, colours in THEMES.items()}


def captured(weir):
    """The lines of a terminal in which `weir status` was called, with their colours."""
    influxd = need("influxd", "influxdb")
    tmux = need("tmux", "tmux")
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
            return screen_of(stack, tmux, weir, home)


def screen_of(stack, tmux, weir, home):
    """What a shell in tmux shows once it has called `weir status`."""
    call = [tmux, "-S", str(home / "tmux"), "-f", "/dev/null"]
    prompt = r"PS1=\[\e[1;32m\]$\[\e[0m\] "
    path = f"PATH={weir.parent}:{os.environ['PATH']}"
    shell = shlex.join(["env", "-u", "WEIR_CONFIG", prompt, path, "bash", "--norc", "--noprofile"])
    size = ["-x", str(COLUMNS), "-y", str(LINES)]
    subprocess.run([*call, "new-session", "-d", *size, "-c", home, shell], check=True)
    stack.callback(subprocess.run, [*call, "kill-server"], check=False)

    def shown(*options):
        captured = subprocess.run([*call, "capture-pane", "-p", *options], check=True,
                                  capture_output=True, text=True)
        return captured.stdout

    wait("a prompt", lambda: "$" in shown())
    subprocess.run([*call, "send-keys", "weir status", "Enter"], check=True)
    # The prompt comes again behind the answer.
    wait("the answer of weir status", lambda: shown().count("$") == 2)
    if "Connection refused" not in shown():
        raise Refused(f"no backend is away in:\n{shown()}")
    return shown("-e").splitlines()


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


def wait(what, condition):
    end = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        if time.monotonic() > end:
            raise Refused(f"not within {DEADLINE_SECONDS} s: {what}")
        time.sleep(0.1)


def runs(line):
    """The pieces of a captured line: words, colour, whether bold."""
    pieces, colour, bold = [], None, False
    for at, part in enumerate(re.split(r"\x1b\[([\d;]*)m", line)):
        if at % 2 == 0:
            if part:
                pieces.append((part, colour, bold))
            continue
        for code in (int(code or 0) for code in part.split(";")):
            if code == 0:
                colour, bold = None, False
            elif code == 1:
                bold = True
            elif code == 39:
                colour = None
            elif code // 10 in (3, 9) and code % 10 < 8:
                colour = SGR_COLOURS[code % 10]
    return pieces


def terminal(screen, colours):
    """A window with the lines in it."""
    columns = max(sum(len(words) for words, _, _ in line) for line in screen)
    width = 2 * MARGIN + columns * CELL
    height = BAR + MARGIN + len(screen) * ROW + MARGIN // 2
    parts = [
        f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8" '
        f'fill="{colours["panel"]}" stroke="{colours["edge"]}"/>',
    ]
    for at, colour in enumerate(["red", "yellow", "green"]):
        parts.append(f'<circle cx="{18 + at * 18}" cy="17" r="5" fill="{colours[colour]}"/>')
    for at, line in enumerate(screen):
        y, column = BAR + MARGIN + at * ROW + 12, 0
        for words, colour, bold in line:
            # Each word at its column, so that a font of another width moves nothing.
            for word in re.finditer(r"\S+(?: \S+)*", words):
                x = MARGIN + (column + word.start()) * CELL
                length = len(word[0]) * CELL
                parts.append(text(x, y, word[0], fill=colours[colour or "text"],
                                  textLength=length, lengthAdjust="spacingAndGlyphs",
                                  **({"font_weight": "bold"} if bold else {})))
            column += len(words)
    said = "\n".join("".join(words for words, _, _ in line).rstrip() for line in screen)
    return document(width, height, said, STYLE, parts)
