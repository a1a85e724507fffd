"""`weir load`: its live view, as tmux has it on its screen, and its report, as Chromium shows it."""

import contextlib
import http.client
import pathlib
import tempfile

from . import terminal
from .status import answers, started
from .terminal import wait
from .view import THEMES, Refused, photograph

COLUMNS, LINES = 88, 24
GATEWAY, ADMIN = 8086, 8088
# Long enough for lines that are worth a look.
SECONDS = 40
# A closed loop with think time, which is VALID also on a machine that wakes threads late.
LOAD = (
    f"weir load http://127.0.0.1:{GATEWAY} --workload influx-write --db load --prepare --closed "
    f"--connections 64 --think 5ms-50ms --duration {SECONDS}s --out run"
)
# What of the report's top a page shows.
REPORT_SIZE = (1000, 760)


def draw(weir, folder):
    """The drawings of the live view for each theme; the report's are put into `folder`."""
    if not weir.is_file():
        raise Refused(f"{weir} is missing: cargo build --release --package weir, or set WEIR_BIN")
    for port in (GATEWAY, ADMIN):
        if answers(port):
            raise Refused(f"port {port} is taken by another program; stop it first")
    with contextlib.ExitStack() as stack:
        home = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pictures-")))
        started(stack, [weir, "serve"], home, home / "weir.log")
        wait("Weir answers", lambda: answers(GATEWAY) and ready())
        session = terminal.Session(stack, home, weir, COLUMNS, LINES)
        session.keys(LOAD, "Enter")
        # Not that of 19, 29 and 39 s.
        left = "9 s left"
        wait(left, lambda: any(line.strip().startswith(left) for line in session.shown().split("\n")))
        screen = session.screen()
        report = home / "run/report.html"
        wait("the report", lambda: report.exists() and "report: " in session.shown())
        verdict = (home / "run/report.txt").read_text().lstrip().split(maxsplit=1)[0]
        if verdict != "VALID":
            raise Refused(f"the run was {verdict}; other programs need the CPUs, try again later")
        folder.mkdir(parents=True, exist_ok=True)
        for theme in THEMES:
            photograph(report.as_uri(), folder / f"report-{theme}.png", *REPORT_SIZE, theme)
    return terminal.draw(screen)


def ready():
    connection = http.client.HTTPConnection("127.0.0.1", ADMIN, timeout=terminal.DEADLINE_SECONDS)
    with contextlib.closing(connection):
        connection.request("GET", "/ready")
        return connection.getresponse().status == 200
