// Draws every <figure class="al-figure"> with Vega-Embed: fitted to its column, in the theme of the page, with
// drop-down lists above it, and downloads and a table of the data below. The look is in themes.json, which
// attention_limits.book puts into window.attentionLimitsThemes; the figures are made by attention_limits.charts.
(function () {
  "use strict";
  const STACK_BELOW = 560; // px; the same number is the container query of figures.css
  const figures = [];
  let onPaper = null; // what was coloured for paper, with the colours it had; null while nothing is printed

  function currentTheme() {
    const set = document.documentElement.dataset.theme;
    if (set === "light" || set === "dark") return set;
    return window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  }

  function expand(table) {
    return table.rows.map((row) => Object.fromEntries(row.map((cell, i) => [table.columns[i], cell])));
  }

  // Gives every panel its width. Side-by-side panels are stacked where the column is narrow. `frames` holds what
  // axes and legends took in the last drawing, so that panels and frames together fill the column.
  function fit(spec, width, frame) {
    const stacked = spec.vconcat || (width < STACK_BELOW && spec.hconcat);
    if (stacked) {
      delete spec.hconcat;
      spec.vconcat = stacked;
      stacked.forEach((part) => fit(part, width, frame));
    } else if (spec.hconcat) {
      const total = spec.hconcat.reduce((sum, part) => sum + (part.width || 300), 0);
      const free = width - (spec.spacing ?? 20) * (spec.hconcat.length - 1);
      spec.hconcat.forEach((part) => fit(part, (free * (part.width || 300)) / total, frame));
    } else if (!spec.facet && !spec.repeat) {
      spec.width = Math.max(60, Math.floor(width - frame));
    }
    return spec;
  }

  // A legend laid out for a wide column becomes one list in a narrow one.
  function narrowLegends(part, width) {
    for (const [key, value] of Object.entries(part)) {
      if (key === "legend" && value) {
        value.columns = 1;
        value.labelLimit = value.titleLimit = width - 60;
      } else if (value && typeof value === "object" && key !== "datasets") narrowLegends(value, width);
    }
  }

  function panelsAcross(spec, width) {
    return spec.hconcat && width >= STACK_BELOW ? spec.hconcat.length : 1;
  }

  // Signals with a list or slider, in the order in which the chart declares them; those of the picked mark are last.
  function orderOf(params) {
    const bound = params.filter((param) => param.bind && typeof param.bind === "object");
    const own = bound.filter((param) => param.bind.input).map((param) => param.name);
    const picks = bound.filter((param) => !param.bind.input);
    return [...own, ...picks.flatMap((param) => Object.keys(param.bind).map((field) => `${param.name}_${field}`))];
  }

  async function embed(figure, width, frame) {
    const spec = fit(structuredClone(figure.spec), width, frame);
    if (width < STACK_BELOW) narrowLegends(spec, width);
    spec.datasets = Object.fromEntries(Object.entries(figure.tables).map(([name, t]) => [name, expand(t)]));
    const config = structuredClone(window.attentionLimitsThemes[currentTheme()]);
    spec.description = figure.alt;
    config.legend.columns = width < STACK_BELOW ? 1 : Math.floor(width / 230);
    const result = await vegaEmbed(figure.view, spec, { actions: false, renderer: "svg", config, bind: figure.controls });
    figure.view.setAttribute("role", "img"); // hundreds of marks are no way to hear the data: there is the table
    orderOf(figure.spec.params ?? []).forEach((name) => {
      const list = figure.controls.querySelector(`[name="${name}"]`)?.closest(".vega-bind");
      list?.parentElement.append(list);
      const [wide, narrow] = figure.spans[name] ?? [1, 1];
      list?.style.setProperty("--span", wide);
      list?.style.setProperty("--narrow-span", narrow);
    });
    return result;
  }

  // What the reader has picked so far, kept over a new drawing.
  function picked(result) {
    const bound = (result.vgSpec.signals || []).filter((signal) => signal.bind);
    return bound.map((signal) => [signal.name, result.view.signal(signal.name)]);
  }

  async function draw(figure) {
    const width = Math.floor(figure.view.getBoundingClientRect().width);
    figure.width = width;
    if (width === 0) return; // folded away; the observer of its width calls again when it is opened
    const state = figure.result ? picked(figure.result) : [];
    if (figure.result) figure.result.finalize();
    figure.frame ??= 70;
    for (let round = 0; round < 3; round++) {
      figure.result = await embed(figure, width, figure.frame);
      const drawn = figure.view.querySelector("svg").getBoundingClientRect().width;
      const excess = (drawn - width) / panelsAcross(figure.spec, width);
      if (excess <= 0 && excess > -4) break;
      figure.result.finalize();
      figure.frame += Math.ceil(excess);
      figure.result = null;
    }
    figure.result ??= await embed(figure, width, figure.frame);
    state.forEach(([name, value]) => figure.result.view.signal(name, value));
    await figure.result.view.runAsync();
    figure.theme = currentTheme();
    figure.element.dataset.drawn = figure.theme;
  }

  // One drawing at a time; a change during a drawing leads to one more.
  async function refresh(figure) {
    if (onPaper) return; // the page has its own width back afterwards
    if (figure.busy) { figure.again = true; return; }
    figure.busy = true;
    try {
      await draw(figure);
    } catch (error) {
      figure.view.textContent = "This figure could not be drawn: " + error.message;
      console.error(figure.element.id, error);
    }
    figure.busy = false;
    if (figure.again) { figure.again = false; await refresh(figure); }
  }

  function csv(table) {
    const cell = (value) => {
      const text = value === null ? "" : String(value);
      return /[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
    };
    return [table.columns, ...table.rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
  }

  function save(name, url) {
    const link = document.createElement("a");
    link.href = url;
    link.download = name;
    link.click();
  }

  function saveText(name, type, text) {
    const url = URL.createObjectURL(new Blob([text], { type }));
    save(name, url);
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  }

  function addDownloads(figure) {
    const bar = figure.element.querySelector(".al-downloads");
    bar.append("Download: ");
    const name = figure.element.id;
    const button = (label, action) => {
      const made = document.createElement("button");
      made.type = "button";
      made.textContent = label;
      made.addEventListener("click", action);
      bar.append(made);
    };
    const tables = Object.values(figure.tables);
    tables.forEach((table, i) => {
      const part = tables.length > 1 ? "-" + (i + 1) : "";
      button("data (CSV)" + (part && " " + (i + 1)), () => saveText(name + part + ".csv", "text/csv", csv(table)));
    });
    button("SVG", async () => saveText(name + ".svg", "image/svg+xml", await figure.result.view.toSVG()));
    button("PNG", async () => save(name + ".png", await figure.result.view.toImageURL("png", 2)));
  }

  // The data as tables, made when they are asked for: thousands of rows cost time.
  function addTable(figure) {
    const folding = figure.element.querySelector(".al-data");
    const cell = (kind, text, row) => {
      const made = row.appendChild(document.createElement(kind));
      made.textContent = text ?? "";
      if (kind === "th") made.scope = "col";
    };
    const fill = () => Object.values(figure.tables).forEach((table, i, all) => {
      const box = folding.appendChild(document.createElement("div"));
      const title = "Data " + (all.length > 1 ? i + 1 + " " : "") + "of " + figure.label;
      Object.assign(box, { className: "al-table", tabIndex: 0, role: "region", ariaLabel: title });
      const made = box.appendChild(document.createElement("table"));
      made.createCaption().textContent = `${title}, ${table.rows.length} rows`;
      table.columns.forEach((name) => cell("th", name, made.tHead?.rows[0] ?? made.createTHead().insertRow()));
      const body = made.createTBody();
      for (const values of table.rows) {
        const row = body.insertRow();
        values.forEach((value) => cell("td", value, row));
      }
    });
    folding.addEventListener("toggle", fill, { once: true });
  }

  // Paper is white: a figure in the dark look gets, colour by colour, those of the light one.
  function takePaper() {
    const { light, dark } = window.attentionLimitsThemes;
    const colours = new Map();
    const pair = (from, to) => {
      if (typeof from === "string") colours.set(from, to);
      else if (from) Object.keys(from).forEach((key) => pair(from[key], to[key]));
    };
    pair(dark, light);
    onPaper = [];
    for (const figure of figures.filter((figure) => figure.theme === "dark")) {
      for (const mark of figure.view.querySelectorAll("svg [fill], svg [stroke]")) {
        for (const part of ["fill", "stroke"]) {
          const colour = mark.getAttribute(part);
          if (!colours.has(colour)) continue;
          onPaper.push([mark, part, colour]);
          mark.setAttribute(part, colours.get(colour));
        }
      }
    }
  }

  function leavePaper() {
    onPaper.forEach(([mark, part, colour]) => mark.setAttribute(part, colour));
    onPaper = null;
    figures.forEach(refit); // the window may have changed meanwhile
  }

  function refit(figure) {
    const width = figure.view.getBoundingClientRect().width;
    if (figure.width !== undefined && Math.abs(width - figure.width) > 2) refresh(figure);
  }

  function start() {
    for (const element of document.querySelectorAll("figure.al-figure")) {
      const { spec, tables, spans = {} } = JSON.parse(element.querySelector(".al-spec").textContent);
      const [view, controls] = [".al-view", ".al-controls"].map((part) => element.querySelector(part));
      const label = element.querySelector(".al-number").textContent.replace(/\.\s*$/, "") || "this figure";
      const figure = { element, view, controls, spec, tables, spans, label, alt: view.getAttribute("aria-label") };
      figures.push(figure);
      addDownloads(figure);
      addTable(figure);
      refresh(figure);
      new ResizeObserver(() => refit(figure)).observe(view);
    }
    document.documentElement.addEventListener("paper:begin", takePaper);
    document.documentElement.addEventListener("paper:end", leavePaper);
    const recolour = () => figures.forEach((figure) => figure.theme !== currentTheme() && refresh(figure));
    new MutationObserver(recolour).observe(document.documentElement, { attributeFilter: ["data-theme"] });
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
