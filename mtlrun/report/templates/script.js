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
for (const heading of document.querySelectorAll("table.sortable th")) {
  const button = document.createElement("button");
  button.append(...heading.childNodes);
  button.addEventListener("click", () => sortBy(heading));
  heading.append(button);
}
// A link to a folded part opens it; paper has no folds.
function reveal() {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target instanceof HTMLDetailsElement) target.open = true;
}
window.addEventListener("hashchange", reveal);
window.addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((d) => { d.open = true; }));
reveal();
