"""Queries a second by number of clients, from the bench's record of its runs."""

import json
import math
import statistics

from .view import THEMES, Refused, document, text

ROW = "postgres-clients"
# The figures of a row differ in this, too; pgbench's own default is drawn.
MODE = "-M simple"
# The way, its colour and the width of its line: what this is about stands out.
WAYS = [
    ("direct", "faint", 3),
    ("PgBouncer", "orange", 3),
    ("HAProxy", "magenta", 3),
    ("Weir", "blue", 6),
]
WIDTH, HEIGHT = 800, 460
LEFT, RIGHT, TOP, BOTTOM = 78, 662, 92, 390
# Lines of text below each other.
LABEL_GAP = 27
STYLE = "text{font:21px system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif}"


def draw(figures):
    """The drawing for each theme, of the machine that was measured last."""
    records = read(figures)
    newest = max(records, key=lambda record: record["date"])["machine"]
    records = [record for record in records if known(record["machine"]) == known(newest)]
    lines = {way: medians(records, way) for way, _, _ in WAYS}
    lines = {way: points for way, points in lines.items() if points}
    runs = len({record["date"] for record in records})
    # The model without its trademarks and cores, which say nothing here.
    cpu = newest["cpu"].split("-Core")[0].replace("(R)", "").replace("(TM)", "")
    times = "one run" if runs == 1 else f"median of {runs} runs"
    told = f"pgbench -S, {times}, all on one machine with {newest['cores']} CPUs"
    described = f"{told} ({cpu})"
    return {theme: chart(lines, told, described, THEMES[theme]) for theme in THEMES}


def known(machine):
    """What a machine is known by; its kernel and its disk may change."""
    return machine["cpu"], machine["cores"], machine.get("name")


def read(figures):
    """The records that are drawn."""
    try:
        text_lines = figures.read_text().splitlines()
    except FileNotFoundError:
        text_lines = []
    records = [json.loads(line) for line in text_lines if line.strip()]
    drawn = [
        record
        for record in records
        if record["row"] == ROW and MODE in record["figure"] and record.get("clients")
    ]
    if not drawn:
        raise Refused(
            f'{figures} has no figures of the row {ROW}: make bench ARGS="--only {ROW} --write"'
        )
    return drawn


def medians(records, way):
    """Clients and the median over the runs of each run's median, in the order of the clients."""
    seen = {}
    for record in records:
        for series in record.get("series", []):
            if series["way"] != way or series["unit"] != record["unit"]:
                continue
            told = series.get("told") or {}
            value = statistics.median(series["rounds"]) if series["rounds"] else told.get("median")
            if value is not None:
                seen.setdefault(record["clients"], []).append(value)
    return [(clients, statistics.median(values)) for clients, values in sorted(seen.items())]


def step(most):
    """The distance of the lines across: 1, 2 or 5 times a power of ten, four to eight of them."""
    power = 10 ** math.floor(math.log10(most))
    return next(power * part for part in (0.2, 0.5, 1, 2) if most / (power * part) <= 6)


def spread(wanted):
    """Moves labels apart that would lie over each other; in and out from the top down."""
    order = sorted(range(len(wanted)), key=lambda at: wanted[at])
    placed = [wanted[at] for at in order]
    for at in range(1, len(placed)):
        placed[at] = max(placed[at], placed[at - 1] + LABEL_GAP)
    # Past the axis they go up again.
    for at in range(len(placed) - 1, -1, -1):
        floor = BOTTOM if at == len(placed) - 1 else placed[at + 1] - LABEL_GAP
        placed[at] = min(placed[at], floor)
    return [y for _, y in sorted(zip(order, placed))]


def chart(lines, told, described, colours):
    """The whole drawing."""
    counts = sorted({clients for points in lines.values() for clients, _ in points})
    most = max(rate for points in lines.values() for _, rate in points)
    each = step(most)
    top_rate = each * math.ceil(most / each)
    span = math.log2(counts[-1] / counts[0]) or 1

    def x_of(clients):
        return LEFT + 14 + (RIGHT - LEFT - 28) * math.log2(clients / counts[0]) / span

    def y_of(rate):
        return BOTTOM - (BOTTOM - TOP) * rate / top_rate

    parts = [
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="{colours["page"]}"/>',
        text(18, 36, "Queries a second by number of clients", fill=colours["text"],
             style="font-size:25px;font-weight:600"),
        text(18, 66, told, fill=colours["faint"]),
    ]
    for at in range(round(top_rate / each) + 1):
        y = y_of(at * each)
        parts.append(
            f'<path d="M{LEFT} {y:.1f}H{RIGHT}" stroke="{colours["edge"]}" fill="none"/>'
        )
        rate = at * each
        shown = "0" if at == 0 else f"{rate / 1000:g} k" if most >= 5000 else f"{rate:g}"
        parts.append(text(LEFT - 10, round(y + 7, 1), shown, fill=colours["faint"],
                          text_anchor="end"))
    for clients in counts:
        parts.append(text(round(x_of(clients), 1), BOTTOM + 29, str(clients),
                          fill=colours["faint"], text_anchor="middle"))
    parts.append(text((LEFT + RIGHT) / 2, BOTTOM + 57, "clients", fill=colours["faint"],
                      text_anchor="middle"))
    drawn = [way for way in WAYS if way[0] in lines]
    labels = spread([y_of(lines[way][-1][1]) + 7 for way, _, _ in drawn])
    for (way, colour, thick), label in zip(drawn, labels):
        points = [(x_of(clients), y_of(rate)) for clients, rate in lines[way]]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        parts.append(f'<path d="M{path}" stroke="{colours[colour]}" stroke-width="{thick}" '
                     f'fill="none" stroke-linejoin="round"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{thick / 2 + 2.5:g}" '
                  f'fill="{colours[colour]}"/>' for x, y in points]
        weight = "font-weight:700" if way == "Weir" else ""
        parts.append(text(RIGHT + 10, round(label, 1), way, fill=colours[colour], style=weight))
    said = "; ".join(
        f"{way} " + ", ".join(f"{rate:,.0f} at {clients}" for clients, rate in points)
        for way, points in lines.items()
    )
    return document(WIDTH, HEIGHT, f"Queries a second by number of clients: {said}. {described}",
                    STYLE, parts)
