"use strict";
// Draws the lines of the page from the numbers in it. Choosing a part of a line with the pointer
// looks closer, a double click goes back.
(() => {
  const runs = JSON.parse(document.getElementById("runs").textContent);
  const several = runs.length > 1;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const colour = (name) =>
    getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const drawn = [];

  const digits = (value) => value.toLocaleString("en", { maximumSignificantDigits: 3 });
  const time = (ms) => (ms == null ? "-" : ms >= 1000 ? digits(ms / 1000) + " s" : digits(ms) + " ms");
  const count = (value) => (value == null ? "-" : value.toLocaleString("en", { maximumFractionDigits: 1 }));
  const percent = (value) => (value == null ? "-" : digits(value) + " %");
  const seconds = (value) => (value == null ? "-" : digits(value) + " s");
  const share = (power) =>
    power == null ? "-" : power < 1 ? digits(100 * (1 - 10 ** -power)) + " %"
      : (100 * (1 - 10 ** -power)).toFixed(Math.max(0, Math.ceil(power - 2.001))) + " %";

  // A line's name has the run's where there are several, and the word of its verdict.
  const named = (run, label) =>
    [several ? run.name : "", label, run.word ? "(" + run.word + ")" : ""].filter(Boolean).join(" ");
  const dashes = [[], [6, 4], [2, 3], [10, 4, 2, 4]];

  // `marks` are the places at which the injector, and not the server, made the value.
  function line(run, at, label, values, own, dash, marks) {
    if (!values || !values.length) return null;
    return {
      values, label: named(run, label), stroke: several ? "key" + (at % 6) : own,
      marked: new Set((marks || []).map((place) => run.second[place])),
      dash: dashes[several ? (Math.floor(at / 6) + (dash || 0)) % 4 : 0],
    };
  }

  // Few places are points; of many those are that the injector made.
  function marks(places, marked) {
    if (places.length < 60 || !marked.size) return { show: places.length < 60, size: 4 };
    const are = (plot) => plot.data[0].flatMap((place, index) => (marked.has(place) ? [index] : []));
    return { show: true, size: 6, filter: are };
  }

  // Lines of several runs have different places on the axis; they are joined into one table.
  function draw(id, places, lines, options) {
    const box = document.getElementById(id);
    box.replaceChildren();
    const tables = [], series = [{ label: options.axis, value: (_, value) => options.place(value) }];
    lines.forEach((of, at) => {
      const kept = of.filter(Boolean);
      if (!kept.length) return;
      tables.push([places[at], ...kept.map((one) => one.values)]);
      kept.forEach((one) => series.push({
        label: one.label, stroke: colour(one.stroke), width: 1.75, dash: one.dash,
        spanGaps: several,
        value: (plot, value, _, index) =>
          options.show(value) + (one.marked.has(plot.data[0][index]) ? " (the injector's)" : ""),
        points: marks(places[at], one.marked),
      }));
    });
    if (!tables.length) {
      box.textContent = options.none;
      return;
    }
    const data = tables.length > 1 ? uPlot.join(tables) : tables[0];
    const edge = { stroke: colour("edge"), width: 1 };
    const axis = { stroke: colour("faint"), grid: edge, ticks: edge, font: "12px system-ui, sans-serif" };
    const size = () => ({ width: Math.max(240, box.clientWidth), height: innerWidth < 600 ? 220 : 280 });
    const plot = new uPlot({
      ...size(), series, cursor: { drag: { x: true, y: false } },
      scales: { x: { time: false, range: options.span }, y: options.scale },
      axes: [
        { ...axis, values: (_, all) => all.map(options.place), ...options.ticks },
        { ...axis, size: 66, values: (_, all) => all.map((value) => (value == null ? "" : options.show(value))) },
      ],
    }, data, box);
    drawn.push(() => plot.setSize(size()));
  }

  // A logarithm has no place for nothing, and shows as many labels as powers of ten.
  const log = (lines) => {
    const all = lines.flat().filter(Boolean).flatMap((one) => one.values).filter((value) => value > 0);
    const low = 10 ** Math.floor(Math.log10(Math.min(...all)));
    const high = 10 ** Math.ceil(Math.log10(Math.max(...all)) + 0.001);
    return all.length ? { distr: 3, range: () => [low, high] } : {};
  };
  const from0 = { range: (_, low, high) => [0, high > 0 ? high * 1.08 : 1] };

  function all() {
    drawn.length = 0;
    const places = runs.map((run) => run.second);
    const merged = Math.max(...runs.map((run) => run.merged));
    const over = {
      axis: merged > 1 ? "from second (" + merged + " each)" : "second", place: seconds,
      none: "No whole second.",
      // One second alone would have no width.
      span: (_, low, high) => (low === high ? [low - 0.5, high + 0.5] : [low, high]),
    };
    const latency = runs.map((run, at) => [
      line(run, at, "p50", run.p50, "key0", 1, run.own.p50),
      line(run, at, "p99", run.p99, "key1", 0, run.own.p99),
      ...(several ? [] : [
        line(run, at, "p99.9", run.p999, "key2", 0, run.own.p999),
        line(run, at, "max", run.max, "faint", 0, run.own.max)]),
    ].map((one) => one && one.values.some((value) => value !== null) ? one : null));
    draw("latency", places, latency, { ...over, show: time, scale: log(latency) });

    const powers = [], shares = [];
    runs.forEach((run, at) => {
      const measures = [["latency", run.latency, "key0"], ["service", run.service, "key1"]]
        .filter(([name, of]) => of && (several ? name === (run.closed ? "service" : "latency")
          : !(run.closed && name === "latency")));
      measures.forEach(([name, of, own]) => {
        powers.push(of.power);
        shares.push([line(run, at, name, of.ms, own)]);
      });
    });
    const most = Math.max(1, ...powers.map((all) => all[all.length - 1]));
    draw("distribution", powers, shares, {
      axis: "share", place: share, show: time, scale: log(shares), none: "No results.",
      span: () => [0, most],
      ticks: { splits: () => [0, 0.30103, 1, 2, 3, 4, 5, 6, 7, 8, 9].filter((power) => power <= most + 0.01)
        .filter((power) => innerWidth >= 600 || power !== 0.30103) },
    });

    draw("rate", places, runs.map((run, at) => several ? [line(run, at, "answered", run.answered)] : [
      line(run, at, "due", run.offered, "faint"), line(run, at, "sent", run.sent, "key1"),
      line(run, at, "answered", run.answered, "key0"),
    ]), { ...over, show: count, scale: from0 });

    draw("errors", places, runs.map((run, at) => [
      line(run, at, "server", run.errors.server, "key5"),
      line(run, at, "failed checks", run.errors.check, "key3", 3),
      line(run, at, "network", run.errors.network, "key1", 1),
      line(run, at, "injector", run.errors.injector, "key2", 2),
    ]), { ...over, show: count, scale: from0, none: "No errors in any whole second." });

    draw("injector", places, runs.map((run, at) => [
      line(run, at, "busy", run.busy, "key0"),
      ...(several ? [] : [
        line(run, at, "paused", run.paused, "key2"), line(run, at, "late", run.late, "key5")]),
    ]), { ...over, show: percent, scale: { range: () => [0, 100] } });
  }

  all();
  dark.addEventListener("change", all);
  let waiting = 0;
  addEventListener("resize", () => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => drawn.forEach((fit) => fit()));
  });
})();
