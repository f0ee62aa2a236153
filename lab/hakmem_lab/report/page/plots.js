"use strict";
// Plots, each drawn from the page's JSON when it comes into view, again when the colours change.
const plots = (() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const drawn = new Set();
  const PRINT_WIDTH = 660; // pixels between a page's margins
  let printing = false;
  let loading = null;

  // plotly takes texts for a kind of HTML.
  const plain = (text) =>
    String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  const probe = document.createElement("span");
  probe.hidden = true;
  document.body.append(probe);
  function colour(name) {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  }
  const faded = (rgb, share) => rgb.replace(/^rgb\(/, "rgba(").replace(/\)$/, `, ${share})`);

  const SYMBOLS = ["circle", "square", "diamond", "cross", "x", "triangle-up", "star", "hexagon"];
  const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "solid", "dash"];

  function axis(title, more = {}) {
    return {
      title: { text: plain(title), font: { size: 12 } },
      gridcolor: colour("line"),
      linecolor: colour("line"),
      zeroline: false,
      automargin: true,
      fixedrange: true,
      ...more,
    };
  }

  function layout(height, xaxis, yaxis, more = {}) {
    return {
      height,
      ...(printing ? { width: PRINT_WIDTH, autosize: false } : { autosize: true }),
      margin: { l: 8, r: 12, t: 12, b: 8 },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, sans-serif", size: 12, color: colour("text") },
      hoverlabel: { bgcolor: colour("raised"), font: { color: colour("text") } },
      dragmode: false,
      showlegend: false,
      xaxis,
      yaxis,
      ...more,
    };
  }

  // The ticks of a logarithmic axis, all written alike: 1, 2 and 5 of each power of ten, of many
  // powers the 1 alone. plotly's own write the 2 and the 5 without their power.
  function logTicks(low, high) {
    const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
    const steps = last - first > 3 ? [1] : [1, 2, 5];
    const values = [];
    for (let power = first; power <= last; power++) {
      for (const step of steps) values.push(Number((step * 10 ** power).toPrecision(1)));
    }
    return { type: "log", tickvals: values, ticktext: values.map(String) };
  }

  // A line for each name: its points, and above them the estimate [value, low, high, count].
  function strips(lines, title, options) {
    const ys = [], xs = [], texts = [], symbols = [], colours = [];
    const middle = { x: [], y: [], text: [], up: [], down: [] };
    lines.forEach((line, at) => {
      const step = Math.min(0.09, 0.5 / Math.max(1, line.values.length));
      line.values.forEach((value, k) => {
        xs.push(value);
        ys.push(at + 0.12 + (options.spread ? ((k * 7) % 5) * 0.06 : k * step));
        texts.push(plain(line.texts[k]));
        symbols.push(line.subject ? "circle" : "circle-open");
        colours.push(faded(colour(line.subject ? "s0" : "s7"), line.subject ? 0.75 : 0.9));
      });
      if (line.middle) {
        const [value, low, high, count] = line.middle;
        middle.x.push(value);
        middle.y.push(at - 0.18);
        middle.up.push(high === null ? 0 : high - value);
        middle.down.push(low === null ? 0 : value - low);
        const interval = low === null ? "no interval" : `${short(low)} – ${short(high)}`;
        middle.text.push(plain(`${line.name}: ${short(value)} (${interval}), ${count} ${options.counted}`));
      }
    });
    const all = [...xs, ...middle.x].filter((x) => x > 0);
    const low = Math.min(...all), high = Math.max(...all);
    const wide = all.length > 0 && (options.log || high > 8 * low);
    return [
      [
        { type: "scatter", mode: "markers", name: "points", x: xs, y: ys, text: texts,
          hoverinfo: "text", marker: { symbol: symbols, color: colours, size: 7 } },
        { type: "scatter", mode: "markers", name: "middle", x: middle.x, y: middle.y,
          text: middle.text, hoverinfo: "text",
          marker: { symbol: "line-ns", size: 13, line: { width: 2.5, color: colour("text") } },
          error_x: { type: "data", symmetric: false, array: middle.up, arrayminus: middle.down,
            thickness: 1.5, width: 4, color: colour("text") } },
      ],
      layout(
        46 + 34 * lines.length,
        axis(wide ? `${title}, logarithmic` : title, wide ? logTicks(low, high) : {}),
        axis("", {
          range: [lines.length - 0.4, -0.6],
          tickvals: lines.map((_, at) => at),
          ticktext: lines.map((line) => plain(line.name)),
          showgrid: false,
        }),
        options.one === undefined ? {} : {
          shapes: [{ type: "line", x0: 1, x1: 1, yref: "paper", y0: 0, y1: 1, layer: "below",
            line: { color: colour("text"), width: 1.2, dash: "dot" } }],
        },
      ),
    ];
  }

  const short = (value) => Number(value.toPrecision(4)).toString();

  function runs(element) {
    const { figures } = data.results[element.dataset.result];
    const row = figures.rows[element.dataset.row];
    const figure = element.dataset.figure;
    const lines = figures.names.filter((name) => row.on[name]).map((name) => {
      const { values, rounds, median } = row.on[name][figure];
      return {
        name, values, middle: median, subject: figures.subjects.includes(name),
        texts: values.map((value, k) => `${name}, round ${rounds[k]}: ${short(value)}`),
      };
    });
    return strips(lines, figure === "cost" ? row.unit : "peak MiB", { counted: "runs" });
  }

  function means(element) {
    const { figures } = data.results[element.dataset.result];
    const figure = element.dataset.figure;
    const lines = figures.names.filter((name) => name !== figures.base).map((name) => {
      const rows = figures.rows.filter((row) => row.on[name] && row.on[name][figure].ratio);
      const values = rows.map((row) => row.on[name][figure].ratio[0]);
      return {
        name, values, subject: figures.subjects.includes(name),
        middle: (figures.means[name] || {})[figure],
        texts: rows.map((row, k) => `${row.name} on ${name}: ${short(values[k])}`),
      };
    });
    const what = figure === "cost" ? "time" : "peak memory";
    return strips(lines, `${what} / ${figures.base}`, { log: true, one: 1, spread: true, counted: "rows" });
  }

  function lines(traces, xtitle, ytitle) {
    return [
      traces,
      layout(340, axis(xtitle, { fixedrange: false }), axis(ytitle, { rangemode: "tozero" }), {
        showlegend: true,
        legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
        dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
      }),
    ];
  }

  function over(field, factor, title) {
    const list = data.soaks.filter((run) => run[field]);
    const longest = Math.max(...list.map((run) => run.elapsed_s[run.elapsed_s.length - 1]));
    const [unit, name] = longest >= 300 ? [60, "minutes"] : [1, "seconds"];
    return lines(list.map((run, at) => ({
      type: "scatter", mode: "lines", name: plain(run.label),
      x: run.elapsed_s.map((s) => s / unit),
      y: run[field].map((value) => value / factor),
      line: { width: 1.5, color: colour(`s${at % 8}`), dash: DASHES[at % 8] },
    })), name, title);
  }

  // By cycle, not by time: all do the same work, each as fast as it can, so what is live is the same.
  function cycles() {
    const of = (run, name, kb, line) => ({
      type: "scatter", mode: "lines", name: plain(name),
      x: run.phase.map((_, k) => run.cycle[k] - 1 + (k % run.phases + 1) / run.phases),
      y: kb.map((value) => value / 1024),
      text: run.phase.map((phase, k) => plain(`${name}, ${phase} ${run.cycle[k]}: ${short(kb[k] / 1024)}`)),
      hoverinfo: "text",
      line: { width: 1.5, ...line },
    });
    const traces = data.cycles.map((run, at) =>
      of(run, run.label, run.rss_kb, { color: colour(`s${at % 8}`), dash: DASHES[at % 8] }));
    const [first] = data.cycles;
    traces.push(of(first, "live", first.live_kb, { color: colour("text"), dash: "dot" }));
    return lines(traces, "cycles", "resident MiB");
  }

  function spread() {
    const list = data.soaks.filter((run) => run.throughput_ops_s);
    const traces = list.map((run, at) => ({
      type: "box", orientation: "h", name: plain(run.label), boxpoints: "outliers",
      x: run.throughput_ops_s.map((ops) => ops / 1e6), y0: plain(run.label),
      line: { color: colour(`s${at % 8}`), width: 1.5 },
      marker: { symbol: SYMBOLS[at % 8], size: 4 },
    }));
    return [traces, layout(60 + 44 * list.length, axis("operations, millions a second"),
      axis("", { autorange: "reversed", showgrid: false }))];
  }

  const KINDS = {
    runs,
    means,
    spread,
    rss: () => over("rss_kb", 1024, "resident MiB"),
    throughput: () => over("throughput_ops_s", 1e6, "operations, millions a second"),
    cycles,
  };

  function draw(element) {
    const [traces, shape] = KINDS[element.dataset.plot](element);
    Plotly.react(element, traces, shape, { responsive: true, displayModeBar: false });
    drawn.add(element);
  }

  function redraw() {
    if (window.Plotly) for (const element of drawn) draw(element);
  }

  function load() {
    loading ??= (async () => {
      const packed = document.getElementById("library");
      const bytes = Uint8Array.from(atob(packed.textContent), (c) => c.charCodeAt(0));
      const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
      const script = document.createElement("script");
      script.textContent = await new Response(stream).text();
      document.head.append(script);
      packed.remove();
    })();
    return loading;
  }

  const isVisible = (element) => element.getClientRects().length > 0;

  async function show(elements) {
    try {
      await load();
      elements.filter((element) => !drawn.has(element) && isVisible(element)).forEach(draw);
    } catch (problem) {
      const place = document.getElementById("trouble");
      place.textContent = `The plots cannot be drawn (${problem}); the tables are complete.`;
      place.hidden = false;
    }
  }

  function print(now) {
    if (printing === now) return;
    printing = now;
    if (!window.Plotly) return;
    if (now) {
      for (const element of document.querySelectorAll(".plot")) {
        if (!drawn.has(element) && isVisible(element)) draw(element);
      }
    }
    redraw();
  }

  function start() {
    const watcher = new IntersectionObserver(
      (entries) => {
        show(entries.filter((entry) => entry.isIntersecting).map((entry) => entry.target));
      },
      { rootMargin: "300px" },
    );
    document.querySelectorAll(".plot").forEach((element) => watcher.observe(element));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
    matchMedia("print").addEventListener("change", (event) => print(event.matches));
    addEventListener("beforeprint", () => print(true));
    addEventListener("afterprint", () => print(false));
  }

  return { data, redraw, start };
})();
