"""A terminal: what a program shows on it, and a window with that in it."""

import os
import re
import shlex
import subprocess
import time

from .view import THEMES, Refused, document, need, text

DEADLINE_SECONDS = 60
# A column and a line of the terminal, in units of the drawing.
CELL, ROW, MARGIN, BAR = 9, 21, 12, 30
STYLE = (
    "text{font:15px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;"
    "white-space:pre}"
)
SGR_COLOURS = [None, "red", "green", "yellow", "blue", "magenta", "cyan", None]


class Session:
    """A shell in tmux, which ends with the stack."""

    def __init__(self, stack, home, weir, columns, lines):
        self.call = [need("tmux", "tmux"), "-S", str(home / "tmux"), "-f", "/dev/null"]
        prompt = r"PS1=\[\e[1;32m\]$\[\e[0m\] "
        path = f"PATH={weir.parent}:{os.environ['PATH']}"
        clean = ["env", "-u", "WEIR_CONFIG", prompt, path, "bash", "--norc", "--noprofile"]
        size = ["-x", str(columns), "-y", str(lines)]
        self.run("new-session", "-d", *size, "-c", str(home), shlex.join(clean))
        stack.callback(subprocess.run, [*self.call, "kill-server"], check=False)
        wait("a prompt", lambda: "$" in self.shown())

    def run(self, *words):
        subprocess.run([*self.call, *words], check=True)

    def keys(self, *keys):
        self.run("send-keys", *keys)

    def shown(self, *options):
        captured = subprocess.run([*self.call, "capture-pane", "-p", *options], check=True,
                                  capture_output=True, text=True)
        return captured.stdout

    def screen(self):
        """The lines with their colours, without empty ones at the end."""
        screen = [runs(line) for line in self.shown("-e").splitlines()]
        while screen and not any(words.strip() for words, _, _ in screen[-1]):
            screen.pop()
        return screen


def wait(what, condition):
    end = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        if time.monotonic() > end:
            raise Refused(f"not within {DEADLINE_SECONDS} s: {what}")
        time.sleep(0.1)


def draw(screen):
    """The drawing for each theme."""
    return {theme: terminal(screen, colours) for theme, colours in THEMES.items()}


def runs(line):
    """The pieces of a captured line: words, colour, whether bold."""
    pieces, colour, bold = [], None, False
    for at, part in enumerate(re.split(r"\x1b\[([\d;]*)m", line)):
        if at % 2 == 0:
            if part:
                pieces.append((part, colour, bold))
            continue
        # A colour of 256 is one of the first 16 here: 38;5;8 is 90.
        part = re.sub(r"\b([34])8;5;(\d+)", lambda of: indexed(int(of[1]), int(of[2])), part)
        for code in (int(code or 0) for code in part.split(";")):
            if code == 0:
                colour, bold = None, False
            elif code == 1:
                bold = True
            elif code == 39:
                colour = None
            elif code == 90:
                colour = "faint"
            elif code // 10 in (3, 9) and code % 10 < 8:
                colour = SGR_COLOURS[code % 10]
    return pieces


def indexed(ground, number):
    return str((ground if number < 8 else ground + 6) * 10 + number % 8)


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
