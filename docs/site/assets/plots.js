// Plots of the results page. The data of each, and plotly, are loaded when a plot comes into view; a change of colours draws
// what is drawn again.
"use strict";
const hakmemFigures = {};
(() => {
  const SUBJECT = "hakmem";
  const LIGHT = ["#0a58ca", "#a24a00", "#00745a", "#9b2f7e", "#5d6a00", "#6b4fc4", "#006f8f", "#b3261e", "#57606a", "#7a5c00", "#345c7c"];
  const DARK = ["#7db3ff", "#f5a356", "#41cfa5", "#ec94d3", "#c3cc57", "#b7a3ff", "#5fc8e8", "#ff9b93", "#a9b2ba", "#e3c15b", "#9fc0dd"];
  const SYMBOLS = ["circle", "square", "diamond", "cross", "x", "triangle-up", "star", "hexagon", "triangle-down", "pentagon", "bowtie"];
  const drawn = new Map(); // place -> function that draws it
  const loading = new Map();

  const load = (name) => {
    if (!loading.has(name)) {
      loading.set(name, new Promise((done, failed) => {
        const script = document.createElement("script");
        script.src = `figures/${name}.js`;
        script.onload = done;
        script.onerror = () => failed(new Error(`${name}.js is not there`));
        document.head.append(script);
      }));
    }
    return loading.get(name);
  };

  const isDark = () => document.body.dataset.mdColorScheme === "slate";
  const colour = (at) => (isDark() ? DARK : LIGHT)[at % LIGHT.length];
  const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const short = (value) => String(Number(value.toPrecision(3)));
  const isNarrow = () => window.innerWidth < 600;

  const axis = (title, more = {}) => ({
    title: { text: title, font: { size: 13 } },
    gridcolor: isDark() ? "#3a3f4b" : "#dde1e6",
    zeroline: false,
    automargin: true,
    ...more,
  });

  // 1, 2 and 5 of each power of ten; of many powers the 1 alone.
  const logAxis = (title, values, more = {}) => {
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
    const steps = last - first > (isNarrow() ? 2 : 3) ? [1] : [1, 2, 5];
    const ticks = [];
    for (let power = first; power <= last; power++) {
      for (const step of steps) ticks.push(Number((step * 10 ** power).toPrecision(1)));
    }
    return axis(title, { type: "log", tickvals: ticks, ticktext: ticks.map(String), ...more });
  };

  const layout = (height, xaxis, yaxis, more = {}) => ({
    height,
    margin: { l: 10, r: 10, t: 10, b: 10 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, sans-serif", size: 13, color: isDark() ? "#e2e4e9" : "#1d2228" },
    hoverlabel: { bgcolor: isDark() ? "#21252e" : "#ffffff", font: { color: isDark() ? "#e2e4e9" : "#1d2228" } },
    legend: { orientation: "h", y: -0.25, yanchor: "top", x: 0 },
    dragmode: isNarrow() ? false : "zoom",
    xaxis,
    yaxis,
    ...more,
  });

  const show = (place, traces, shape) =>
    Plotly.react(place.querySelector(".hak-drawn"), traces, shape,
      { responsive: true, displaylogo: false, displayModeBar: isNarrow() ? false : "hover", modeBarButtonsToRemove: ["select2d", "lasso2d"] });

  const line = (at, along) => ({
    type: "line", layer: "below", line: { color: isDark() ? "#e2e4e9" : "#1d2228", width: 1, dash: "dot" },
    ...(along === "x" ? { xref: "paper", x0: 0, x1: 1, y0: at, y1: at } : { yref: "paper", y0: 0, y1: 1, x0: at, x1: at }),
  });

  const chooser = (place, label, options, chosen, changed) => {
    const field = document.createElement("label");
    field.append(`${label} `);
    const select = document.createElement("select");
    for (const [value, text] of options) select.append(new Option(text, value, false, value === chosen));
    select.addEventListener("change", () => changed(select.value));
    field.append(select);
    place.querySelector(".hak-choices").append(field);
    return select;
  };

  const subjectOf = (figures) =>
    figures.names.includes(SUBJECT) ? SUBJECT : figures.names.includes("standard") ? "standard" : figures.names[0];

  // --- kinds of plots ----------------------------------------------------------------------------------------------------

  const kinds = {
    scatter(place, figures) {
      const subject = subjectOf(figures);
      const others = figures.names.filter((name) => name !== subject);
      // The profiles are hakmem, too: they are there for whoever asks for them.
      const hidden = (name) => others.length > 5 && !["glibc", "mimalloc3", "jemalloc", "snmalloc"].includes(name);
      return () => {
        const xs = [], ys = [];
        const traces = others.map((name) => {
          const at = figures.names.indexOf(name);
          const both = figures.rows.filter((row) => row.on[name] && row.on[subject]);
          const ratio = (row, kind) => row.on[name][kind][0][0] / row.on[subject][kind][0][0];
          const x = both.map((row) => ratio(row, "cost")), y = both.map((row) => ratio(row, "memory"));
          xs.push(...x);
          ys.push(...y);
          return {
            type: "scatter", mode: "markers", name: plain(name), x, y,
            visible: hidden(name) ? "legendonly" : true,
            text: both.map((row, k) => `<b>${plain(row.name)}</b> on ${plain(name)} ${plain(figures.versions[name] || "")}<br>` +
              `${short(x[k])} of the time, ${short(y[k])} of the memory`),
            hoverinfo: "text",
            marker: { color: colour(at), symbol: SYMBOLS[at % SYMBOLS.length], size: 8, opacity: 0.8 },
          };
        });
        return show(place, traces, layout(isNarrow() ? 480 : 520,
          logAxis(`time / ${subject}`, xs), logAxis(`peak memory / ${subject}`, ys),
          { shapes: [line(1, "x"), line(1, "y")] }));
      };
    },

    row(place, figures) {
      const names = figures.rows.map((row) => row.name);
      let chosen = names[0], kind = "cost";
      const draw = () => {
        const row = figures.rows.find(({ name }) => name === chosen);
        const on = figures.names.filter((name) => row.on[name]);
        const runs = { x: [], y: [], text: [], colours: [] };
        const middle = { x: [], y: [], text: [], up: [], down: [] };
        on.forEach((name, at) => {
          const [estimate, values] = row.on[name][kind];
          values.forEach((value, round) => {
            runs.x.push(value);
            runs.y.push(at);
            runs.text.push(`${plain(name)}, round ${round + 1}: ${short(value)}`);
            runs.colours.push(colour(figures.names.indexOf(name)));
          });
          const [value, low, high, count] = estimate;
          middle.x.push(value);
          middle.y.push(at);
          middle.up.push(high === null ? 0 : high - value);
          middle.down.push(low === null ? 0 : value - low);
          middle.text.push(`${plain(name)}: median ${short(value)}` +
            (low === null ? "" : ` [${short(low)}, ${short(high)}]`) + `, ${count} rounds`);
        });
        const unit = kind === "memory" ? "peak memory, MiB" : row.unit;
        const wide = Math.max(...runs.x) > 20 * Math.min(...runs.x) && Math.min(...runs.x) > 0;
        place.querySelector(".hak-note").textContent = row.idea || "";
        return show(place, [
          { type: "scatter", mode: "markers", name: "runs", x: runs.x, y: runs.y, text: runs.text, hoverinfo: "text",
            marker: { color: runs.colours, size: 9, opacity: 0.65 } },
          { type: "scatter", mode: "markers", name: "medians", x: middle.x, y: middle.y, text: middle.text, hoverinfo: "text",
            marker: { symbol: "line-ns", size: 15, line: { width: 2.5, color: isDark() ? "#ffffff" : "#000000" } },
            error_x: { type: "data", symmetric: false, array: middle.up, arrayminus: middle.down, thickness: 1.5, width: 4,
              color: isDark() ? "#ffffff" : "#000000" } },
        ], layout(90 + 32 * on.length,
          wide ? logAxis(`${unit}, logarithmic`, runs.x) : axis(unit, { rangemode: "tozero" }),
          axis("", { tickvals: on.map((_, at) => at), ticktext: on.map(plain), range: [on.length - 0.4, -0.6], showgrid: false }),
          { showlegend: false }));
      };
      if (names.length > 1) {
        chooser(place, "Row", names.map((name) => [name, name]), chosen, (value) => { chosen = value; draw(); });
      }
      chooser(place, "Figure", [["cost", "time"], ["memory", "memory"]], kind, (value) => { kind = value; draw(); });
      return draw;
    },

    soak(place, figures) {
      return () => show(place, Object.entries(figures.runs).map(([name, run], at) => ({
        type: "scatter", mode: "lines", name: plain(name), x: run.minutes, y: run.mib,
        line: { color: colour(at), width: 1.8, dash: at % 2 ? "dash" : "solid" },
      })), layout(460, axis("minutes"), axis("resident MiB", { rangemode: "tozero" })));
    },

    idle(place, figures) {
      const rows = Object.keys(figures.rows);
      let chosen = rows[0];
      const draw = () => {
        const on = figures.rows[chosen], names = Object.keys(on);
        place.querySelector(".hak-note").textContent = figures.ideas[chosen];
        return show(place, figures.parts.map((part, at) => ({
          type: "bar", orientation: "h", name: part, y: names.map(plain), x: names.map((name) => on[name][at]),
          hovertemplate: "%{x:.1f} MiB", marker: { color: colour([8, 0, 2][at]) },
        })), layout(130 + 56 * names.length, axis("MiB"), axis("", { autorange: "reversed" })));
      };
      if (rows.length > 1) chooser(place, "Row", rows.map((row) => [row, row]), chosen, (row) => { chosen = row; draw(); });
      return draw;
    },

    instructions(place, figures) {
      const words = { malloc: "malloc", malloc_slow: "malloc, slow", free: "free", free_slow: "free, slow" };
      return () => {
        const names = Object.keys(figures.on);
        return show(place, figures.parts.map((part, at) => ({
          type: "bar", orientation: "h", name: words[part], y: names.map(plain), x: names.map((name) => figures.on[name][at]),
          marker: { color: colour(at) },
        })), layout(120 + 42 * names.length, axis("instructions"), axis("", { autorange: "reversed" }), { barmode: "stack" }));
      };
    },

    campaigns(place, figures) {
      return () => show(place, Object.entries(figures.results).map(([end, counts], at) => ({
        type: "bar", orientation: "h", name: plain(end), y: figures.campaigns.map(plain), x: counts, marker: { color: colour([2, 8, 7][at] ?? at) },
      })), layout(120 + 30 * figures.campaigns.length, axis("steps"), axis("", { autorange: "reversed" }), { barmode: "stack" }));
    },
  };

  // --- when -----------------------------------------------------------------------------------------------------------------

  async function begin(place) {
    const { figures: name, plot } = place.dataset;
    const note = place.querySelector(".hak-note");
    try {
      await Promise.all([load("plotly.min"), load(name)]);
      const draw = kinds[plot](place, hakmemFigures[name]);
      drawn.set(place, draw);
      await draw();
      place.dataset.drawn = "yes";
    } catch (error) {
      note.textContent = `The plot cannot be drawn: ${error.message}`;
    }
  }

  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      watcher.unobserve(entry.target);
      begin(entry.target);
    }
  }, { rootMargin: "300px" });

  for (const place of document.querySelectorAll(".hak-plot")) {
    const title = document.createElement("p");
    title.className = "hak-title";
    title.textContent = place.dataset.title;
    const part = (name) => {
      const inner = document.createElement("div");
      inner.className = name;
      return inner;
    };
    const canvas = part("hak-drawn");
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", place.dataset.title);
    place.replaceChildren(title, part("hak-choices"), canvas, part("hak-note"));
    watcher.observe(place);
  }
  new MutationObserver(() => drawn.forEach((draw) => draw()))
    .observe(document.body, { attributes: true, attributeFilter: ["data-md-color-scheme"] });
})();
