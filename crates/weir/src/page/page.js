"use strict";
(() => {
  const SECONDS = 600, MINUTES = 1440, DRAWN_MAX = 8, EVENTS_MAX = 500;
  // A frame comes each second; without one for so long the page is not of now.
  const SILENCE_MS = 2500, STUCK_MS = 10000, CONNECT_MS = 5000, BACKOFF_MS = [500, 1000, 2000, 4000, 8000, 15000];
  const at = (id) => document.getElementById(id);
  const dark = matchMedia("(prefers-color-scheme: dark)");

  // Everything that is shown goes through here: names of other people's things stay text.
  function make(tag, text, kind) {
    const element = document.createElement(tag);
    if (text != null) element.textContent = text;
    if (kind) element.className = kind;
    return element;
  }
  // What a screen reader says by itself: only what has changed, and not each second's numbers.
  const speak = (text) => { at("spoken").textContent = text; };
  const say = (element, text) => { if (element.textContent !== text) element.textContent = text; };

  // ---- words, as the terminal has them ----
  const count = (value) => Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, ",");
  function bytes(value) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = 0;
    while (value >= 999.5 && unit + 1 < units.length) { value /= 1024; unit += 1; }
    return value.toFixed(unit > 0 && value < 9.95 ? 1 : 0) + " " + units[unit];
  }
  function seconds(value) {
    if (value < 1) return Math.round(value * 1000) + "ms";
    const units = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]];
    let rest = Math.floor(value);
    const from = units.findIndex(([scale]) => rest >= scale);
    const parts = units.slice(from, from + 2).map(([scale, unit]) => {
      const part = [Math.floor(rest / scale), unit];
      rest %= scale;
      return part;
    });
    return parts.filter(([number], index) => index === 0 || number > 0).map((of) => of.join("")).join(" ");
  }
  const millis = (value) => (value == null ? "-" : value >= 1000 ? seconds(value / 1000) : +value.toPrecision(3) + " ms");
  const rate = (value) => (value == null ? "-" : value >= 100 || value === 0 ? count(value) : (+value.toPrecision(3)).toString());
  const short = (value) => {
    const of = Math.abs(value);
    if (of >= 1e9) return +(value / 1e9).toPrecision(3) + "G";
    if (of >= 1e6) return +(value / 1e6).toPrecision(3) + "M";
    if (of >= 1e4) return +(value / 1e3).toPrecision(3) + "k";
    return (+value.toPrecision(3)).toString();
  };
  const two = (value) => String(value).padStart(2, "0");
  function clock(at, withDay) {
    const of = new Date(at * 1000);
    const time = [of.getHours(), of.getMinutes(), of.getSeconds()].map(two).join(":");
    return withDay ? [of.getFullYear(), two(of.getMonth() + 1), two(of.getDate())].join("-") + " " + time : time;
  }

  // ---- what is known ----
  const spans = { second: store(SECONDS, 1), minute: store(MINUTES, 60) };
  let span = "second", frame = null, events = [], named = null, fetchedAt = 0, fetching = false, drawDue = false;

  function store(length, step) {
    return { length, step, to: 0, lines: new Map() };
  }
  const serverOf = (name) => { const bar = name.indexOf("|"); return bar < 0 ? null : name.slice(bar + 1); };
  const kindOf = (name) => { const bar = name.indexOf("|"); return bar < 0 ? name : name.slice(0, bar); };

  function replace(of, answer) {
    of.lines.clear();
    of.to = answer.to;
    for (const [name, values] of Object.entries(answer.lines)) {
      const kept = values.slice(-of.length);
      of.lines.set(name, Array(of.length - kept.length).fill(null).concat(kept));
    }
  }
  function advance(of, to) {
    const by = Math.min(of.length, Math.max(0, (to - of.to) / of.step));
    for (const line of of.lines.values()) {
      for (let n = 0; n < by; n += 1) { line.shift(); line.push(null); }
    }
    of.to = to;
  }
  function append(next) {
    const of = spans.second, to = Math.floor(next.at);
    if (to <= of.to) return;
    advance(of, to);
    const drawn = new Map();
    for (const name of of.lines.keys()) {
      const kind = kindOf(name);
      drawn.set(kind, (drawn.get(kind) || 0) + 1);
    }
    for (const [name, value] of Object.entries(next.series)) {
      let line = of.lines.get(name);
      if (!line) {
        const kind = kindOf(name);
        if (serverOf(name) != null && (drawn.get(kind) || 0) >= DRAWN_MAX) continue;
        drawn.set(kind, (drawn.get(kind) || 0) + 1);
        line = Array(of.length).fill(null);
        of.lines.set(name, line);
      }
      line[of.length - 1] = value;
    }
  }
  function take(next) {
    const first = !frame || next.number < frame.number;
    frame = next;
    append(next);
    const newest = events.length ? events[0].number : 0;
    merge(next.events);
    const has = events.length ? events[0].number : 0;
    const misses = next.last_event !== has || next.events.some((event) => event.number > newest + 1 && !events.some((of) => of.number === event.number - 1));
    const age = Date.now() - fetchedAt;
    if (first || misses || age > 60000 || (age > 10000 && missesTheWorst(next))) history();
    redraw();
  }
  function merge(more) {
    for (const event of more) {
      if (!events.some((of) => of.number === event.number)) events.push(event);
    }
    events.sort((a, b) => b.number - a.number);
    events.length = Math.min(events.length, EVENTS_MAX);
  }
  function missesTheWorst(next) {
    const waits = Object.entries(next.series).filter(([name, value]) => name.startsWith("backend.waiting|") && value > 0);
    waits.sort((a, b) => b[1] - a[1]);
    return waits.slice(0, 3).some(([name]) => !spans.second.lines.has(name));
  }
  async function history() {
    if (fetching) return;
    fetching = true;
    fetchedAt = Date.now();
    try {
      const answer = await fetch("history" + (named == null ? "" : "?of=" + encodeURIComponent(named)), { signal: AbortSignal.timeout(STUCK_MS) });
      if (!answer.ok) return;
      const all = await answer.json();
      replace(spans.second, all.second);
      replace(spans.minute, all.minute);
      if (all.events.length && events.length && all.events.at(-1).number < events[0].number) events = [];
      merge(all.events);
      redraw();
    } catch {
      // The stream says that Weir is not there.
    } finally {
      fetching = false;
    }
  }

  // ---- the stream ----
  let heardAt = 0, tries = 0, isDead = false, aborting = null;

  function live() {
    if (!isDead) return;
    isDead = false;
    document.body.classList.remove("dead");
    at("dead").hidden = true;
    speak("The page is live again.");
  }
  function dead(why) {
    const since = frame ? " What is below is of " + clock(frame.at, true) + "." : "";
    say(at("stream"), "not live");
    say(at("dead"), why + since);
    if (isDead) return;
    isDead = true;
    document.body.classList.add("dead");
    at("dead").hidden = false;
    document.title = "? " + (frame ? frame.status.process.host : "") + " Weir";
  }
  async function listen() {
    aborting = new AbortController();
    const timer = setTimeout(() => aborting.abort(), CONNECT_MS);
    const answer = await fetch("live", { signal: aborting.signal, cache: "no-store" });
    clearTimeout(timer);
    if (!answer.ok) {
      const words = (await answer.text()).trim();
      throw new Error(answer.status + ": " + words.slice(0, 200));
    }
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    heardAt = Date.now();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) throw new Error("Weir has closed the stream");
      rest += value;
      const parts = rest.split("\n\n");
      rest = parts.pop();
      for (const part of parts) {
        if (!part.startsWith("data: ")) continue;
        const next = JSON.parse(part.slice(6));
        heardAt = Date.now();
        tries = 0;
        live();
        take(next);
      }
    }
  }
  async function follow() {
    for (;;) {
      let why = "";
      try {
        await listen();
      } catch (error) {
        why = error.name === "AbortError" ? "it is silent" : error.message;
      }
      const wait = BACKOFF_MS[Math.min(tries, BACKOFF_MS.length - 1)];
      tries += 1;
      dead("No news from Weir (" + why + "). The page tries again by itself.");
      await new Promise((go) => {
        const timer = setTimeout(go, wait);
        addEventListener("online", () => { clearTimeout(timer); go(); }, { once: true });
      });
    }
  }
  setInterval(() => {
    const silent = Date.now() - heardAt;
    if (heardAt && silent > SILENCE_MS && !isDead) dead("No news from Weir for " + Math.round(silent / 1000) + " s.");
    if (heardAt && silent > STUCK_MS) aborting.abort();
  }, 250);

  // ---- what is seen ----
  function redraw() {
    if (drawDue) return;
    drawDue = true;
    requestAnimationFrame(() => {
      drawDue = false;
      draw();
    });
  }
  function draw() {
    if (frame) {
      header();
      worst();
      tiles();
      parts();
    }
    eventList();
    charts();
  }
  function header() {
    const { process, ready, journal, influx } = frame.status;
    say(at("host"), process.host);
    const reload = process.reload;
    const reloaded = !reload ? "" : reload.refused
      ? ", last reload " + clock(reload.at, true) + " REFUSED"
      : ", last reload " + clock(reload.at, true) + (reload.needs_restart.length ? " (needs a restart: " + reload.needs_restart.join(", ") + ")" : "");
    say(at("who"), "version " + process.version + ", pid " + process.pid + ", since " + clock(process.started_at, true) + ", " + (process.config || "no configuration file") + reloaded);
    if (!isDead) say(at("stream"), "live, " + clock(frame.at));
    at("state").className = "state " + (ready.yes ? "yes" : "no");
    const what = influx ? "Takes writes" : "Ready";
    say(at("taking"), ready.yes ? what : (influx ? "Takes no writes: " : "Not ready: ") + ready.reason);
    say(at("lasts"), journal ? lasts(journal) : "");
    const wrong = frame.findings.length;
    if (!isDead) document.title = (ready.yes ? (wrong ? wrong + " wrong" : "well") : "NOT READY") + " · " + process.host + " · Weir";
  }
  function lasts(journal) {
    const used = "journal " + bytes(journal.bytes_used) + " of " + bytes(journal.bytes_max);
    if (journal.poisoned) return used + ", POISONED";
    if (journal.disk_full) return used + ", ITS DISK IS FULL";
    if (journal.full) return used + ", FULL";
    const left = journal.until_full_seconds;
    return used + (left != null && left < 30 * 86400 ? ", full in " + seconds(left) : ", not growing");
  }
  // Rows are made once and changed where they differ, so that a selection and a reader stay.
  function keep(list, length, fresh) {
    while (list.children.length > length) list.lastChild.remove();
    while (list.children.length < length) list.append(fresh());
  }
  function finding() {
    const row = make("li");
    const text = make("span", "", "text"), remedy = make("span", "", "remedy");
    text.append(make("span", "", "word"), " ", make("span", "", "words"));
    remedy.append("type: ", make("code"));
    row.append(text, remedy);
    return row;
  }
  // What a finding is about: its words without the numbers and times in them, which change each second.
  const subject = (of) => of.level + of.text.replace(/\b\d[\d.,]*\s?(ms|[smhd]|[KMGT]?i?B|[kM])?\b/g, "").replace(/\s+/g, " ");
  let spoken = null;
  function announce(found) {
    const subjects = new Set(found.map(subject)), known = spoken || new Set();
    const news = found.filter((of) => !known.has(subject(of)));
    const over = [...known].filter((of) => !subjects.has(of)).length;
    const isFirst = spoken == null;
    spoken = subjects;
    if (news.length) speak((isFirst ? "Wrong: " : "New: ") + news.slice(0, 3).map((of) => of.text).join(". "));
    else if (!found.length && (isFirst || over)) speak("Nothing is wrong.");
    else if (over) speak(found.length + " things are still wrong.");
  }
  function worst() {
    const list = at("worst"), found = frame.findings;
    announce(found);
    keep(list, Math.max(1, found.length), finding);
    [...list.children].forEach((row, index) => {
      const of = found[index] || { level: "well", text: "Nothing is wrong.", remedy: "" };
      if (row.className !== of.level) row.className = of.level;
      say(row.querySelector(".word"), { bad: "BAD", warn: "LOOK", well: "WELL" }[of.level] || "");
      say(row.querySelector(".words"), of.text);
      row.querySelector(".remedy").hidden = !of.remedy;
      say(row.querySelector("code"), of.remedy);
    });
  }
  function eventRow() {
    const row = make("li"), remedy = make("span", "", "remedy");
    remedy.append(make("code"));
    row.append(make("time"), make("span", "", "word"), make("span", "", "text"), remedy);
    return row;
  }
  const LEVELS = { bad: "BAD", warn: "LOOK", info: "did", good: "well" };
  let shownEvents = "";
  function eventList() {
    const list = at("events");
    const key = events.length + ":" + (events.length ? events[0].number : 0);
    if (key === shownEvents) return;
    shownEvents = key;
    keep(list, events.length, eventRow);
    events.forEach((event, index) => {
      const row = list.children[index];
      row.className = event.level;
      say(row.children[0], clock(event.at, true));
      row.children[0].dateTime = new Date(event.at * 1000).toISOString();
      say(row.children[1], LEVELS[event.level] || "");
      say(row.children[2], event.text);
      row.children[3].hidden = !event.remedy;
      say(row.children[3].firstChild, event.remedy || "");
    });
  }
  const TILES = [
    ["influx.points", "points in a second", rate], ["out", "points delivered a second", rate],
    ["influx.requests", "requests a second", rate], ["influx.errors", "errors a second", rate],
    ["influx.bytes", "bytes in a second", bytes], ["influx.sent", "bytes out a second", bytes], ["influx.p50", "write p50", millis], ["influx.p99", "write p99", millis],
    ["query.p50", "query p50", millis], ["query.p99", "query p99", millis],
    ["journal.groups", "journal groups a second", rate], ["sync.p50", "journal sync p50", millis], ["sync.p99", "journal sync p99", millis],
    ["postgres.statements", "PostgreSQL statements a second", rate], ["postgres.errors", "PostgreSQL errors a second", rate], ["postgres.bytes", "PostgreSQL bytes in a second", bytes], ["postgres.sent", "PostgreSQL bytes out a second", bytes], ["postgres.p50", "PostgreSQL p50", millis], ["postgres.p99", "PostgreSQL p99", millis],
    ["postgres.clients", "PostgreSQL clients", count], ["postgres.waiting", "PostgreSQL clients that wait", count],
    ["redis.commands", "Redis commands a second", rate], ["redis.errors", "Redis errors a second", rate], ["redis.bytes", "Redis bytes in a second", bytes], ["redis.sent", "Redis bytes out a second", bytes], ["redis.p50", "Redis p50", millis], ["redis.p99", "Redis p99", millis],
    ["redis.clients", "Redis clients", count],
    ["process.connections", "connections", count], ["process.cpu", "CPU cores", rate], ["process.memory", "memory", bytes],
  ];
  function tiles() {
    const values = { ...frame.series };
    const out = Object.keys(values).filter((name) => name.startsWith("backend.rate|"));
    if (out.length) values.out = out.reduce((sum, name) => sum + values[name], 0);
    const has = TILES.filter(([name]) => values[name] != null);
    const box = at("tiles");
    keep(box, has.length, () => {
      const tile = make("div", null, "tile");
      tile.append(make("b"), make("span"));
      return tile;
    });
    has.forEach(([name, words, show], index) => {
      const tile = box.children[index];
      if (tile.dataset.name !== name) tile.dataset.name = name;
      say(tile.firstChild, show(values[name]));
      say(tile.lastChild, words);
    });
  }

  // ---- tables ----
  const made = new Map();
  function part(id, title) {
    let section = made.get(id);
    if (!section) {
      section = make("section", null, "part");
      section.id = id;
      section.setAttribute("aria-labelledby", id + "-title");
      const head = make("h2", title);
      head.id = id + "-title";
      section.append(head);
      made.set(id, section);
      at("parts").append(section);
    }
    return section;
  }
  function facts(id, title, text) {
    const section = part(id, title);
    let line = section.querySelector(".facts");
    if (!line) { line = make("p", "", "facts"); section.append(line); }
    say(line, text);
  }
  // Columns are [heading, kind, value of a row]; a row has a key and a level.
  // A column that draws has a button in each row: the charts have its server's lines then, too.
  function table(id, title, caption, columns, rows) {
    const section = part(id, title);
    const key = "table-" + caption.replace(/\W/g, "");
    const heads = columns.map(([name, , , draws]) => name + (draws ? "*" : "")).join();
    let box = section.querySelector("." + key);
    if (box && box.dataset.heads !== heads) {
      box.remove();
      box = null;
    }
    if (!box) {
      box = make("div", null, key);
      box.dataset.heads = heads;
      const search = make("input");
      search.type = "search";
      search.placeholder = "search " + caption;
      search.setAttribute("aria-label", "search " + caption);
      search.addEventListener("input", redraw);
      const scroll = make("div", null, "scroll");
      scroll.tabIndex = 0;
      scroll.setAttribute("role", "region");
      scroll.setAttribute("aria-label", caption);
      const of = make("table"), head = make("thead"), row = make("tr");
      columns.forEach(([name, kind]) => { const cell = make("th", name, kind); cell.scope = "col"; row.append(cell); });
      head.append(row);
      of.append(make("caption", caption), head, make("tbody"));
      scroll.append(of);
      box.append(search, scroll);
      section.append(box);
    }
    const search = box.querySelector("input"), body = box.querySelector("tbody");
    search.hidden = rows.length <= DRAWN_MAX;
    box.querySelector(".scroll").classList.toggle("long", rows.length > 12);
    const wanted = search.value.toLowerCase();
    const shown = wanted ? rows.filter((row) => columns.some(([, kind, value]) => (kind || "").includes("left") && String(value(row)).toLowerCase().includes(wanted))) : rows;
    say(box.querySelector("caption"), caption + (shown.length === rows.length ? "" : ": " + shown.length + " of " + rows.length));
    keep(body, shown.length, () => {
      const row = make("tr");
      columns.forEach(([, kind, , draws]) => {
        const cell = make("td", "", kind);
        if (draws) cell.append(chooser());
        row.append(cell);
      });
      return row;
    });
    shown.forEach((of, index) => {
      const row = body.children[index];
      if (row.className !== (of.level || "")) row.className = of.level || "";
      columns.forEach(([, , value, draws], column) => {
        const cell = row.children[column], text = String(value(of));
        say(draws ? cell.firstChild : cell, text);
        if (draws) cell.firstChild.setAttribute("aria-pressed", String(text === named));
      });
    });
  }
  // Of many servers the worst are drawn; whoever wants to see another chooses it.
  function chooser() {
    const button = make("button");
    button.type = "button";
    button.title = "draw it in the charts";
    button.addEventListener("click", () => {
      named = button.textContent === named ? null : button.textContent;
      fetchedAt = 0;
      history();
      redraw();
    });
    return button;
  }
  const sum = (of) => Object.values(of || {}).reduce((all, more) => all + more, 0);
  function parts() {
    const status = frame.status;
    if (status.influx) influx(status.influx);
    const store = status.influx && status.influx.store;
    if (store) facts("store", "Embedded store", count(store.files) + " files of " + bytes(store.files_bytes) + ", " + bytes(store.memory_bytes) + " in memory, " + count(store.series) + " series, " + count(store.queries) + " queries running");
    if (status.postgres) postgres(status.postgres);
    if (status.redis) redis(status.redis);
    aof(status["redis.aof"] || []);
    guard(status["redis.guard"]);
    clients(status);
  }
  function influx(status) {
    const order = { stopped: 0, retrying: 1, "catching-up": 2 };
    const rows = status.backends.map((of) => {
      const cursor = of.cursor || { waiting: { items: 0, bytes: 0 }, delivered: 0, dead_lettered: 0, dropped_total: 0 };
      const out = frame.series["backend.rate|" + of.name], left = frame.caught_up[of.name];
      const level = of.state === "stopped" || of.state === "retrying" ? "bad" : cursor.waiting.oldest_age_seconds > 30 ? "warn" : "";
      return { ...of, cursor, out, level, until: left == null ? "-" : seconds(left) };
    });
    rows.sort((a, b) => (order[a.state] ?? 9) - (order[b.state] ?? 9) || b.cursor.waiting.items - a.cursor.waiting.items || (a.name < b.name ? -1 : 1));
    const refusals = rows.some((of) => of.last_refusal) ? [["refused points", "left why", (of) => of.last_refusal || "-"]] : [];
    const ofOthers = rows.some((of) => of.cursor.elsewhere) ? [["of other sets", "", (of) => count(of.cursor.elsewhere || 0)]] : [];
    facts("influx", "InfluxDB", count(status.connections) + " clients, " + count(status.points_accepted) + " points acknowledged since the start");
    table("influx", "InfluxDB", "backends", [
      ["backend", "left", (of) => of.name, rows.length > DRAWN_MAX], ["state", "left state-cell", (of) => of.state], ["points waiting", "", (of) => count(of.cursor.waiting.items)],
      ["bytes", "", (of) => bytes(of.cursor.waiting.bytes)], ["oldest", "", (of) => (of.cursor.waiting.oldest_age_seconds == null ? "-" : seconds(of.cursor.waiting.oldest_age_seconds))],
      ["out a second", "", (of) => rate(of.out)], ["caught up in", "", (of) => of.until], ["delivered", "", (of) => count(of.cursor.delivered)],
      ["dead letters", "", (of) => count(of.cursor.dead_lettered)], ["dropped", "", (of) => count(of.cursor.dropped_total || 0)], ...ofOthers,
      ["last error", "left why", (of) => (of.last_error ? (of.last_error_at ? clock(of.last_error_at, true) + " " : "") + of.last_error : "-")], ...refusals,
    ], rows);
    const measurements = (status.collisions || { measurements: [] }).measurements;
    if (measurements.length || made.has("collisions")) {
      const all = measurements.map((of) => ({ ...of, level: of.overwritten.hosts + of.overwritten.connections > 0 ? "warn" : "" }));
      all.sort((a, b) => sum(b.overwritten) - sum(a.overwritten));
      table("collisions", "Points that overwrote others", "measurements", [
        ["database", "left", (of) => of.database], ["measurement", "left", (of) => of.measurement], ["overwritten", "", (of) => count(sum(of.overwritten))],
        ["by other hosts", "", (of) => count(of.overwritten.hosts || 0)], ["by other connections", "", (of) => count(of.overwritten.connections || 0)], ["repeated", "", (of) => count(sum(of.equal))],
      ], all);
    }
  }
  const took = (latencies, way) => { const of = latencies.find((one) => one.way === way); return of ? of.total.map((value) => millis(value * 1000)).join(" / ") : "-"; };
  function postgres(status) {
    facts("postgres", "PostgreSQL", count(status.connections) + " clients, " + count(status.waiting) + " waiting, " + count(status.queries) + " statements since the start, " + count(status.lane_queries) + " by lanes, " + count(status.replica_queries) + " to replicas" + (status.paused ? "; PAUSED" : ""));
    const servers = status.backends.map((of) => ({ ...of, level: of.role === "down" || of.role === "rival" ? "bad" : of.trouble ? "warn" : "" }));
    table("postgres", "PostgreSQL", "servers", [
      ["server", "left", (of) => of.name, servers.length > DRAWN_MAX], ["role", "left state-cell", (of) => of.role], ["address", "left", (of) => of.address], ["lag", "", (of) => (of.lag_seconds == null ? "-" : seconds(of.lag_seconds))],
      ["behind", "", (of) => (of.lag_bytes == null ? "-" : bytes(of.lag_bytes))], ["connections", "", (of) => count(of.connections)], ["under way", "", (of) => count(of.in_flight)],
      ["lane p50 / p99", "", (of) => took(of.latencies, "lane")], ["lease p50 / p99", "", (of) => took(of.latencies, "lease")], ["trouble", "left why", (of) => of.trouble || "-"],
    ], servers);
    const pools = status.pools.map((of) => ({ ...of, level: of.waiting > 0 ? "warn" : "" }));
    pools.sort((a, b) => b.waiting - a.waiting || b.clients - a.clients);
    if (pools.length || made.get("postgres").querySelector(".table-pools")) {
      table("postgres", "PostgreSQL", "pools", [
        ["database", "left", (of) => of.database], ["user", "left", (of) => of.user], ["mode", "left", (of) => of.mode], ["clients", "", (of) => count(of.clients)], ["waiting", "", (of) => count(of.waiting)],
        ["longest", "", (of) => (of.waiting ? seconds(of.wait_max_seconds) : "-")], ["pinned", "", (of) => count(of.pinned)], ["leased", "", (of) => count(of.leased)], ["idle", "", (of) => count(of.idle)],
        ["lanes", "", (of) => count(of.lanes)], ["on lanes", "", (of) => count(of.lane_statements)],
        ["idle in transaction", "", (of) => (of.idle_in_transaction ? count(of.idle_in_transaction) + " for " + seconds(of.idle_in_transaction_max_seconds) : "-")],
      ], pools);
    }
    if (status.slow.length || made.get("postgres").querySelector(".table-slowstatements")) {
      table("postgres", "PostgreSQL", "slow statements", [
        ["database", "left", (of) => of.database], ["statement", "left why", (of) => of.statement], ["times", "", (of) => count(of.count)],
        ["together", "", (of) => seconds(of.total_seconds)], ["longest", "", (of) => seconds(of.max_seconds)],
      ], status.slow);
    }
  }
  function memoryOf(memory) {
    if (!memory || memory.used_bytes == null) return "-";
    return bytes(memory.used_bytes) + (memory.max_bytes ? " of " + bytes(memory.max_bytes) : "");
  }
  function redis(status) {
    facts("redis", "Redis", count(status.connections) + " clients, " + count(status.commands) + " commands since the start, " + count(status.lane_commands) + " by lanes, " + count(status.refused) + " refused");
    const servers = status.backends.map((of) => ({ ...of, level: of.ejected_seconds != null || of.wrong ? "bad" : "" }));
    table("redis", "Redis", "servers", [
      ["pool", "left", (of) => of.pool], ["server", "left", (of) => of.name], ["address", "left", (of) => of.url],
      ["state", "left state-cell", (of) => (of.ejected_seconds != null ? "ejected for " + seconds(of.ejected_seconds) : of.wrong ? "failing" : "ok")], ["ejections", "", (of) => count(of.ejections)], ["answers", "", (of) => count(of.answers)],
      ["memory", "", (of) => memoryOf(of.memory)], ["evicted keys", "", (of) => (of.memory ? count(of.memory.evicted) : "-")],
      ["lane p50 / p99", "", (of) => took(of.latencies, "lane")], ["lease p50 / p99", "", (of) => took(of.latencies, "lease")], ["wrong", "left why", (of) => of.wrong || "-"],
    ], servers);
  }
  function aof(masters) {
    if (!masters.length && !made.has("aof")) return;
    table("aof", "Append-only files kept for Redis", "masters", [
      ["master", "left", (of) => of.name, masters.length > DRAWN_MAX], ["link", "left state-cell", (of) => of.link], ["durable to", "", (of) => count(of.durable)], ["not durable", "", (of) => bytes(of.not_durable_bytes)],
      ["for", "", (of) => seconds(of.not_durable_seconds)], ["base", "", (of) => bytes(of.base_bytes)], ["increments", "", (of) => bytes(of.increment_bytes)], ["generations", "", (of) => count(of.generations)],
      ["sync p50 / p99", "", (of) => of.sync_seconds.map((value) => millis(value * 1000)).join(" / ")], ["trouble", "left why", (of) => [of.trouble, of.rewrite, ...of.advice].filter(Boolean).join("; ") || "-"],
    ], masters.map((of) => ({ ...of, level: of.trouble ? "bad" : "" })));
  }
  function guard(status) {
    const servers = ((status || { hosts: [] }).hosts).flatMap((host) => host.servers.map((server) => ({ host: host.host, ...server })));
    if (servers.length || made.has("guard")) {
      table("guard", "How Redis servers persist", "servers", [
        ["host", "left", (of) => of.host], ["server", "left", (of) => of.name], ["evicted keys", "", (of) => (of.memory ? count(of.memory.evicted) : "-")],
        ["findings", "", (of) => count(of.findings.length)], ["told last", "left why", (of) => of.told || "-"],
      ], servers);
    }
    const rows = ((status || { hosts: [] }).hosts).flatMap((host) => host.servers.flatMap((server) => server.findings.map((of) => ({ host: host.host, server: server.name, ...of, level: "warn" }))));
    if (!rows.length && !(made.has("guard") && made.get("guard").querySelector(".table-findings"))) return;
    table("guard", "How Redis servers persist", "findings", [
      ["host", "left", (of) => of.host], ["server", "left", (of) => of.server], ["finding", "left", (of) => of.about], ["in words", "left why", (of) => of.words],
    ], rows);
  }
  function clients(status) {
    const rows = status.clients.map((of) => ({ ...of, level: of.waiting_seconds > 5 ? "warn" : "" }));
    if (!rows.length && !made.has("clients")) return;
    table("clients", "Who", "clients", [
      ["gateway", "left", (of) => of.gateway], ["address", "left", (of) => of.address], ["user", "left", (of) => of.user || "-"],
      ["bytes a second", "", (of) => bytes(of.bytes_per_second)], ["waits for", "", (of) => (of.waiting_seconds > 0 ? seconds(of.waiting_seconds) : "-")],
    ], rows);
  }

  // ---- charts ----
  const CHARTS = [
    ["points", "Points a second", short, [["influx.points", "in"]], "backend.rate"],
    ["waiting", "Points that wait, by backend", short, [], "backend.waiting"],
    ["writes", "Time of a write, ms", short, [["influx.p50", "p50"], ["influx.p99", "p99"], ["sync.p99", "journal sync p99"]]],
    ["journal", "Journal, bytes", bytes, [["journal.used", "used"]]],
    ["statements", "PostgreSQL: statements a second", short, [["postgres.statements", "statements"], ["postgres.errors", "errors"]]],
    ["answers", "PostgreSQL: time of a statement, ms", short, [["postgres.p50", "p50"], ["postgres.p99", "p99"]]],
    ["queue", "PostgreSQL: clients that wait", short, [["postgres.waiting", "waiting"]]],
    ["lag", "PostgreSQL: replicas behind, s", short, [], "server.lag"],
    ["commands", "Redis: commands a second", short, [["redis.commands", "commands"], ["redis.errors", "errors"]]],
    ["replies", "Redis: time of a command, ms", short, [["redis.p50", "p50"], ["redis.p99", "p99"]]],
    ["late", "Redis: seconds not durable", short, [], "aof.late"],
    ["cpu", "CPU cores", short, [["process.cpu", "cores"]]],
  ];
  const plots = new Map();
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

  function linesOf(of, fixed, kind) {
    const lines = fixed.filter(([name]) => of.lines.has(name)).map(([name, label], hue) => [name, label, hue]);
    if (kind) {
      const servers = [...of.lines.keys()].filter((name) => kindOf(name) === kind).sort();
      // By the order of names, and not with the first colour, which is the gateway's own: a server has one in all charts.
      servers.slice(0, DRAWN_MAX + 1).forEach((name, n) => lines.push([name, serverOf(name), n + 1]));
    }
    return lines;
  }
  function charts() {
    const of = spans[span];
    if (!of.to || typeof uPlot === "undefined") return;
    const places = Array.from({ length: of.length }, (_, index) => of.to - (of.length - 1 - index) * of.step);
    for (const [id, title, show, fixed, kind] of CHARTS) {
      const lines = linesOf(of, fixed, kind);
      if (!lines.length) continue;
      const key = span + JSON.stringify(lines) + dark.matches;
      let plot = plots.get(id);
      if (plot && plot.key !== key) {
        plot.chart.destroy();
        plot.box.remove();
        plots.delete(id);
        plot = null;
      }
      const data = [places, ...lines.map(([name]) => of.lines.get(name))];
      if (plot) plot.chart.setData(data);
      else plots.set(id, (plot = build(id, title, show, lines, data, key)));
      const newest = lines.map(([name, label]) => {
        const value = of.lines.get(name).findLast((one) => one != null);
        return label + " " + (value == null ? "-" : show(value));
      });
      plot.box.setAttribute("aria-label", title + ": " + newest.join(", "));
    }
  }
  // Below the pointer the value there, and without one the newest.
  const legend = (show) => (chart, value, line, place) => {
    const shown = place == null ? chart.data[line].findLast((one) => one != null) : value;
    return shown == null ? "-" : show(shown);
  };
  // As wide as the longest word at the axis, of 12 px.
  const wide = (_, words) => Math.max(58, 22 + 7 * Math.max(...(words || [""]).map((word) => String(word).length)));
  function build(id, title, show, lines, data, key) {
    const box = make("div", null, "chart"), room = make("div");
    box.id = "chart-" + id;
    box.setAttribute("role", "img");
    box.append(make("h3", title), room);
    const order = CHARTS.map(([name]) => "chart-" + name);
    const next = [...at("charts").children].find((other) => order.indexOf(other.id) > order.indexOf(box.id));
    at("charts").insertBefore(box, next || null);
    const edge = { stroke: colour("grid"), width: 1 };
    const axis = { stroke: colour("muted"), grid: edge, ticks: edge, font: "12px system-ui, sans-serif" };
    const size = () => ({ width: Math.max(200, box.clientWidth - 18), height: innerWidth < 600 ? 170 : 200 });
    const series = lines.map(([, label, hue]) => ({
      label, stroke: colour("c" + (1 + (hue % 8))), width: 1.75, dash: hue >= 8 ? [4, 3] : undefined, spanGaps: false,
      points: { show: false }, value: legend(show),
    }));
    const chart = new uPlot({
      ...size(), series: [{ label: "at", value: legend((value) => clock(value, span === "minute")) }, ...series],
      cursor: { drag: { x: false, y: false } }, scales: { y: { range: (_, low, high) => [Math.min(0, low || 0), high > 0 ? high * 1.08 : 1] } },
      axes: [{ ...axis, values: (_, all) => all.map((value) => clock(value).slice(0, span === "minute" ? 5 : 8)), space: 80 }, { ...axis, size: wide, values: (_, all) => all.map((value) => show(value)) }],
    }, data, room);
    performance.mark("first-chart");
    return { chart, box, key, resize: () => chart.setSize(size()) };
  }
  addEventListener("resize", () => plots.forEach((plot) => plot.resize()));
  dark.addEventListener("change", redraw);
  for (const name of Object.keys(spans)) {
    at("span-" + name).addEventListener("click", () => {
      span = name;
      Object.keys(spans).forEach((other) => at("span-" + other).setAttribute("aria-pressed", String(other === name)));
      redraw();
    });
  }
  history();
  follow();
})();
