"""The operator's page with a backend away, as Chromium shows it: a real run."""

import contextlib
import pathlib
import tempfile
import time

from .status import A, ADMIN, B, GATEWAY, answers, ask, server, started, writers
from .terminal import wait
from .view import THEMES, Refused, need, photograph

# Long enough for charts that are worth a look.
TOGETHER_SECONDS, APART_SECONDS = 90, 150
# What of the page's top is shown.
SIZE = (1100, 950)


def draw(weir, folder):
    """Puts a picture for each theme into `folder`."""
    if not weir.is_file():
        raise Refused(f"{weir} is missing: cargo build --release --package weir, or set WEIR_BIN")
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
            folder.mkdir(parents=True, exist_ok=True)
            for theme in THEMES:
                picture = folder / f"page-{theme}.png"
                photograph(f"http://127.0.0.1:{ADMIN}/", picture, *SIZE, theme)
                print(f"pictures: {picture}")
