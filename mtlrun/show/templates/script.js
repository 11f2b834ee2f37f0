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
// Tables as the paper prints them: one at a time, chosen by title, with its interpretations side by side below it; a
// table can be copied into a spreadsheet.
const matrices = [...document.querySelectorAll(".matrix")], board = document.querySelector(".switch");
function showTable(title) {
  for (const table of matrices) table.hidden = table.dataset.title !== title;
  for (const button of board.querySelectorAll("button")) {
    button.setAttribute("aria-pressed", String(button.textContent === title));
  }
}
const titles = [...new Set(matrices.map((table) => table.dataset.title))];
if (board && titles.length > 1) {
  for (const title of titles) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(title);
    button.addEventListener("click", () => { showTable(title); cut(); });
    board.append(button);
  }
  board.hidden = false;
  showTable(titles[0]);
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
// A figure that is not much too wide shrinks to fit; a table or figure that is cut says so.
const MOST_SHRINKING = 1.6;
const cut = () => {
  for (const image of document.querySelectorAll("figure img")) {
    image.classList.toggle("fits", image.naturalWidth <= MOST_SHRINKING * image.parentNode.clientWidth);
  }
  document.querySelectorAll(".wide, figure").forEach((w) => w.classList.toggle("cut", w.scrollWidth > w.clientWidth + 1));
};
window.addEventListener("load", cut);
window.addEventListener("resize", cut);
document.addEventListener("toggle", cut, true);
cut();
// A link to a folded part opens it; what is folded is not printed.
function reveal() {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let part = target; part; part = part.parentElement) if (part instanceof HTMLDetailsElement) part.open = true;
  if (target) target.scrollIntoView();
}
window.addEventListener("hashchange", reveal);
reveal();
