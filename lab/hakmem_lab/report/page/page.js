"use strict";
// Tables that sort, rows that open, the colours' switch.
(() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];

  // --- sorting: a row is a tbody, so that what opens below it goes along ---------------------------

  function compare(a, b) {
    const x = Number(a), y = Number(b);
    if (!Number.isNaN(x) && !Number.isNaN(y)) return x - y;
    return a.localeCompare(b, undefined, { numeric: true });
  }

  function sort(table, column, descending) {
    const bodies = [...table.tBodies];
    const key = (body) =>
      column ? body.rows[0].cells[column].dataset.sort : body.dataset.name;
    bodies.sort((a, b) => {
      const x = key(a), y = key(b);
      if (x === undefined || y === undefined) return (x === undefined) - (y === undefined);
      return descending ? compare(y, x) : compare(x, y);
    });
    table.append(...bodies);
  }

  function makeSortable(table) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      head.querySelector("button").addEventListener("click", () => {
        const descending = head.ariaSort === "ascending";
        heads.forEach((other) => { other.ariaSort = "none"; });
        head.ariaSort = descending ? "descending" : "ascending";
        sort(table, column, descending);
      });
    });
  }

  // --- single runs: written from the JSON when a row is opened ------------------------------------

  function cell(tag, text, kind) {
    const made = document.createElement(tag);
    made.textContent = text;
    made.className = kind;
    return made;
  }

  const asText = (value) =>
    value === null || value === undefined ? "-" : typeof value === "object" ? JSON.stringify(value)
      : typeof value === "number" && !Number.isInteger(value) ? Number(value.toPrecision(6)).toString()
      : String(value);

  function writeRuns(place) {
    const kept = plots.data.results[place.dataset.runs].result.rows[place.dataset.row].runs;
    const runs = kept.map(({ figures, ...rest }) => ({ ...rest, ...figures }));
    const names = [...new Set(runs.flatMap(Object.keys))].filter((name) =>
      runs.some((run) => run[name] !== null && run[name] !== undefined));
    const table = document.createElement("table");
    const head = table.createTHead().insertRow();
    for (const name of names) {
      const made = cell("th", name.replaceAll("_", " "), "");
      made.scope = "col";
      head.append(made);
    }
    const body = table.createTBody();
    for (const run of runs) {
      const row = body.insertRow();
      names.forEach((name, at) => {
        const made = cell(at ? "td" : "th", asText(run[name]), typeof run[name] === "number" ? "" : "word");
        if (!at) made.scope = "row";
        row.append(made);
      });
    }
    head.querySelectorAll("th").forEach((made, at) => {
      if (runs.some((run) => typeof run[names[at]] === "number")) made.className = "num";
    });
    place.replaceChildren(table);
  }

  // --- opening -----------------------------------------------------------------------------------

  function open(button, wanted) {
    const detail = document.getElementById(button.getAttribute("aria-controls"));
    button.setAttribute("aria-expanded", String(wanted));
    detail.classList.toggle("shown", wanted);
    if (wanted) {
      all("[data-runs]", detail).filter((place) => !place.firstChild).forEach(writeRuns);
    }
  }

  const isOpen = (button) => button.getAttribute("aria-expanded") === "true";

  // What a page is about alone stands open.
  const rowsThatOpen = all("button.open");
  rowsThatOpen.forEach((button) => {
    open(button, rowsThatOpen.length === 1);
    button.closest("tr").addEventListener("click", (event) => {
      if (event.target.closest("button") === button || !String(getSelection())) {
        open(button, !isOpen(button));
      }
    });
  });
  all("[data-open]").forEach((control) => {
    control.addEventListener("click", () => {
      all("button.open").forEach((button) => open(button, control.dataset.open === "true"));
    });
  });

  // --- the rest ----------------------------------------------------------------------------------

  all("table.sortable").forEach(makeSortable);

  all("[data-filter]").forEach((input) => {
    const table = document.getElementById(input.dataset.filter).querySelector("table");
    input.addEventListener("input", () => {
      const wanted = input.value.trim().toLowerCase();
      for (const body of table.tBodies) {
        body.hidden = !body.dataset.name.toLowerCase().includes(wanted);
      }
    });
  });

  all("input[name=theme]").forEach((choice) => {
    choice.addEventListener("change", () => {
      if (choice.value === "auto") delete document.documentElement.dataset.theme;
      else document.documentElement.dataset.theme = choice.value;
      plots.redraw();
    });
  });

  plots.start();
})();
