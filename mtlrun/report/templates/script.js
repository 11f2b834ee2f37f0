"use strict";
// Tables: a click on a heading sorts by that column, a second one turns the order round; entries without a number stay
// last.
function compare(a, b, sign) {
  const x = a === "" ? NaN : Number(a), y = b === "" ? NaN : Number(b);
  if (!Number.isNaN(x) && !Number.isNaN(y)) return sign * (x - y);
  if (!Number.isNaN(x)) return -1;
  if (!Number.isNaN(y)) return 1;
  return sign * a.localeCompare(b);
}
function sortBy(heading) {
  const table = heading.closest("table"), body = table.tBodies[0];
  const column = [...heading.parentNode.children].indexOf(heading);
  const sign = heading.getAttribute("aria-sort") === "ascending" ? -1 : 1;
  const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
  const rows = [...body.rows].sort((a, b) => compare(key(a), key(b), sign));
  for (const other of heading.parentNode.children) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
  body.append(...rows);
}
for (const heading of document.querySelectorAll("table.sortable thead th")) {
  const button = document.createElement("button");
  button.append(...heading.childNodes);
  button.addEventListener("click", () => sortBy(heading));
  heading.append(button);
}
// Tables as the paper prints them: one at a time, chosen by title and reading; a table can be copied into a spreadsheet.
const matrices = [...document.querySelectorAll(".matrix")], board = document.querySelector(".switch");
const chosen = {};
function showChosen() {
  for (const table of matrices) table.hidden = Object.entries(chosen).some(([name, value]) => table.dataset[name] !== value);
  for (const button of board.querySelectorAll("button")) {
    button.setAttribute("aria-pressed", String(chosen[button.dataset.name] === button.textContent));
  }
}
if (board && matrices.length > 1) {
  for (const name of ["title", "reading"]) {
    const values = [...new Set(matrices.map((table) => table.dataset[name]))];
    if (values.length < 2) continue;
    chosen[name] = values[0];
    const line = document.createElement("div");
    if (name === "reading") line.append("reading");
    for (const value of values) {
      const button = document.createElement("button");
      button.type = "button";
      button.dataset.name = name;
      button.append(value);
      button.addEventListener("click", () => { chosen[name] = value; showChosen(); });
      line.append(button);
    }
    board.append(line);
  }
  board.hidden = false;
  showChosen();
}
for (const button of document.querySelectorAll("button.copy")) {
  if (!navigator.clipboard) continue;
  button.hidden = false;
  button.addEventListener("click", async () => {
    const rows = [...button.closest("table").rows].map((row) => [...row.cells].map((c) => c.dataset.value ?? c.textContent.trim()));
    await navigator.clipboard.writeText(rows.map((row) => row.join("\t")).join("\n"));
    button.textContent = "copied";
  });
}
// Filters: rows and columns of those tables by their heads, rows of long lists by any text.
function pick(name, values, apply) {
  if (values.length < 3) return null;
  const part = document.createElement("details"), hidden = new Set();
  part.className = "pick";
  const head = document.createElement("summary");
  head.textContent = name;
  part.append(head);
  for (const value of values) {
    const label = document.createElement("label"), box = document.createElement("input");
    box.type = "checkbox";
    box.checked = true;
    box.addEventListener("change", () => { hidden[box.checked ? "delete" : "add"](value); apply(hidden); });
    label.append(box, value);
    part.append(label);
  }
  return part;
}
const heads = (table, row) => [...table.querySelectorAll(row ? "tbody th" : "thead th + th")];
for (const row of board ? [true, false] : []) {
  const names = [...new Set(matrices.flatMap((m) => heads(m, row).map((th) => th.dataset.name)))].filter((name) => name !== "average rank");
  const axis = matrices[0] && (row ? matrices[0].querySelector("thead th").dataset.name : matrices[0].dataset.across);
  const part = pick(`filter by ${axis}`, names, (hidden) => {
    for (const table of matrices) {
      for (const th of heads(table, row)) {
        const off = hidden.has(th.dataset.name);
        if (row) th.parentNode.hidden = off;
        else for (const line of table.querySelectorAll("tr")) line.cells[th.cellIndex].hidden = off;
      }
    }
  });
  if (part) { board.append(part); board.hidden = false; }
}
for (const table of document.querySelectorAll(".wide:not(.matrix) > table.sortable")) {
  if (table.tBodies[0].rows.length < 13) continue;
  const box = document.createElement("input");
  box.type = "search";
  box.placeholder = "filter the rows";
  box.setAttribute("aria-label", box.placeholder);
  box.addEventListener("input", () => {
    const asked = box.value.toLowerCase();
    for (const row of table.tBodies[0].rows) row.hidden = !row.textContent.toLowerCase().includes(asked);
  });
  table.parentNode.before(box);
}
// Figures: values under the pointer, curves switched off in the legend, linear or logarithmic axes.
const tip = document.createElement("div");
tip.className = "tip";
tip.hidden = true;
document.body.append(tip);
function nearest(panel, plot, event) {
  const svg = panel.querySelector("svg"), at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
  let best = null, reach = 15;
  for (const point of plot.points) {
    const far = Math.hypot(point[1] - at.x, point[2] - at.y);
    if (far < reach && !panel.off?.has(plot.labels[point[0]])) [best, reach] = [point, far];
  }
  return best;
}
for (const panel of document.querySelectorAll(".panel")) {
  const plot = JSON.parse(panel.dataset.plot);
  panel.addEventListener("pointerleave", () => { tip.hidden = true; });
  panel.addEventListener("pointermove", (event) => {
    const point = nearest(panel, plot, event);
    tip.hidden = !point;
    if (!point) return;
    tip.textContent = point[3];
    tip.style.left = `${Math.min(event.pageX + 12, document.body.clientWidth - tip.offsetWidth)}px`;
    tip.style.top = `${event.pageY + 12}px`;
  });
}
for (const figure of document.querySelectorAll("figure")) {
  const panels = [...figure.querySelectorAll(".panel")], off = new Set();
  for (const button of figure.querySelectorAll(".legend button")) {
    button.addEventListener("click", () => {
      const label = button.querySelector("span").textContent;
      if (!off.delete(label)) off.add(label);
      button.setAttribute("aria-pressed", String(!off.has(label)));
      for (const panel of panels) {
        panel.off = off;
        JSON.parse(panel.dataset.plot).labels.forEach((name, number) => {
          for (const part of panel.querySelectorAll(`[id*="-curve-${number}-"]`)) part.style.display = off.has(name) ? "none" : "";
        });
      }
    });
  }
  const scaled = panels.filter((panel) => panel.dataset.scale);
  if (!scaled.length) continue;
  const line = document.createElement("div");
  line.className = "scales";
  for (const scale of ["linear", "logarithmic"]) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = scale;
    const press = () => button.setAttribute("aria-pressed", String(scaled.every((p) => p.hidden || p.dataset.scale === scale)));
    button.addEventListener("click", () => {
      for (const panel of scaled) panel.hidden = panel.dataset.scale !== scale;
      line.dispatchEvent(new Event("scale"));
    });
    line.addEventListener("scale", press);
    press();
    line.append(button);
  }
  figure.prepend(line);
}
// A link to a folded part opens it; paper has no folds.
function reveal() {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let part = target; part; part = part.parentElement) if (part instanceof HTMLDetailsElement) part.open = true;
  if (target) target.scrollIntoView();
}
window.addEventListener("hashchange", reveal);
window.addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((d) => { d.open = true; }));
reveal();
