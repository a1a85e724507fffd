"""A headless Chromium that shows one page, over its DevTools protocol, which it speaks over pipes."""

import base64
import fcntl
import json
import os
import select
import subprocess
import tempfile
import time

# How long Chromium may take for one answer.
ANSWER_MAX = 60
# How long a page is shown before its picture is taken: a live one has drawn what it hears by then.
SHOWN_FOR = 3
# What a page says so of that something is wrong with it.
COMPLAINTS = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")


def above_ten(descriptor):
    """Moves a descriptor out of the way of 3 and 4."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD, 10)
    os.close(descriptor)
    return moved


class Browser:
    """Chromium, until the end of a `with`."""

    def __init__(self, program):
        self.own = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        (heard, self.to), (self.out, said) = os.pipe(), os.pipe()
        heard, said = above_ten(heard), above_ten(said)
        command = [program, "--headless=new", "--disable-gpu", "--hide-scrollbars"]
        command += ["--no-first-run", "--disable-background-networking"]
        # Chromium's sandbox refuses the superuser; the pages are our own.
        command += ["--no-sandbox"] if os.geteuid() == 0 else []
        command += [f"--user-data-dir={self.own.name}", "--remote-debugging-pipe", "about:blank"]
        # It hears commands on descriptor 3 and answers on 4.
        wrapped = ["bash", "-c", f'exec "$@" 3<&{heard} 4>&{said}', "bash", *command]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(wrapped, pass_fds=(heard, said), **quiet)
        os.close(heard)
        os.close(said)
        self.rest, self.last, self.session, self.complaints = b"", 0, None, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.to)
        os.close(self.out)
        self.own.cleanup()

    def ask(self, method, **parameters):
        """Has it do something; gives its answer."""
        self.last += 1
        asked = {"id": self.last, "method": method, "params": parameters}
        if self.session:
            asked["sessionId"] = self.session
        os.write(self.to, json.dumps(asked).encode() + b"\0")
        until = time.monotonic() + ANSWER_MAX
        while time.monotonic() < until:
            said = self.hear(until - time.monotonic())
            if said and said.get("id") == self.last:
                if "error" in said:
                    raise RuntimeError(f"{method}: {said['error']['message']}")
                return said["result"]
        raise RuntimeError(f"{method}: Chromium does not answer")

    def hear(self, seconds):
        """The next message that comes in that time."""
        while b"\0" not in self.rest:
            if not select.select([self.out], [], [], max(seconds, 0))[0]:
                return None
            came = os.read(self.out, 1 << 20)
            if not came:
                raise RuntimeError("Chromium has ended")
            self.rest += came
        message, self.rest = self.rest.split(b"\0", 1)
        said = json.loads(message)
        if said.get("method") in COMPLAINTS:
            self.complaints.append(json.dumps(said["params"])[:400])
        return said

    def show(self, address, width, height, theme):
        """Shows a page in a window of that size; gives its picture, and what it complained of."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self.ask("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.ask(f"{domain}.enable")
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.ask("Emulation.setDeviceMetricsOverride", **size)
        prefers = {"name": "prefers-color-scheme", "value": theme}
        self.ask("Emulation.setEmulatedMedia", features=[prefers])
        self.ask("Page.navigate", url=address)
        until = time.monotonic() + SHOWN_FOR
        while time.monotonic() < until:
            self.hear(until - time.monotonic())
        picture = self.ask("Page.captureScreenshot", format="png")["data"]
        return base64.b64decode(picture), self.complaints
