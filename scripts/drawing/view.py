"""Colours of a page, light and dark, and how a picture looks on it."""

import html
import os
import pathlib
import re
import shutil
import tempfile

from . import browser

THEMES = {
    "light": {
        "page": "#ffffff",
        "panel": "#f6f8fa",
        "edge": "#d1d9e0",
        "text": "#1f2328",
        "faint": "#59636e",
        "red": "#cf222e",
        "green": "#1a7f37",
        "yellow": "#9a6700",
        "blue": "#0969da",
        "magenta": "#8250df",
        "cyan": "#1b7c83",
        "orange": "#bc4c00",
    },
    "dark": {
        "page": "#0d1117",
        "panel": "#151b23",
        "edge": "#3d444d",
        "text": "#f0f6fc",
        "faint": "#9198a1",
        "red": "#f85149",
        "green": "#3fb950",
        "yellow": "#d29922",
        "blue": "#4493f8",
        "magenta": "#ab7df8",
        "cyan": "#39c5cf",
        "orange": "#f0883e",
    },
}
# What a page gives a picture on a desk and in a hand.
WIDTHS = (800, 400)
LOWEST_WINDOW = 300


class Refused(Exception):
    """What stands in the way of a picture, with its remedy."""


def need(program, package):
    found = shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if not found:
        raise Refused(f"{program} is missing: apt-get install --no-install-recommends {package}")
    return found


def text(x, y, words, **attributes):
    """A line of SVG text; underscores in names stand for hyphens."""
    named = "".join(
        f' {name.replace("_", "-")}="{value}"' for name, value in attributes.items()
    )
    return f'<text x="{x:g}" y="{y:g}"{named}>{html.escape(words, quote=False)}</text>'


def document(width, height, title, style, parts):
    """A whole SVG; `title` is what readers hear who do not see it."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
            f'width="{width:g}" height="{height:g}" role="img">',
            f"<title>{html.escape(title, quote=False)}</title>",
            f"<style>{style}</style>",
            *parts,
            "</svg>",
            "",
        ]
    )


def shots(picture, theme, folder):
    """Has Chromium show an SVG at each width; gives the PNG files."""
    folder.mkdir(parents=True, exist_ok=True)
    box = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', picture.read_text())
    width, height = float(box[1]), float(box[2])
    made = []
    for shown in WIDTHS:
        png = folder / f"{picture.stem}-{shown}.png"
        with tempfile.TemporaryDirectory() as own:
            page = pathlib.Path(own) / "page.html"
            page.write_text(
                f'<body style="margin:0;background:{THEMES[theme]["page"]}">'
                f'<img src="{picture.resolve().as_uri()}" width="{shown}">'
            )
            # Chromium leaves out the lower part of what is shown in a low window.
            lowest = max(round(height * shown / width), LOWEST_WINDOW)
            photograph(page.as_uri(), png, shown, lowest, theme)
        made.append(png)
    return made


def photograph(address, png, width, height, theme):
    """Has Chromium show a page in a window of that size; refuses one that complains."""
    try:
        with browser.Browser(need("chromium", "chromium")) as chromium:
            picture, said = chromium.show(address, width, height, theme)
    except RuntimeError as error:
        raise Refused(f"Chromium did not show {address}: {error}") from error
    if said:
        raise Refused(f"{address} complains: {said}")
    png.write_bytes(picture)
