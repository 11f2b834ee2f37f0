/* What style sheets alone cannot do for the pages of this site. */

/* A picture of the text is a link to its file, where a phone can enlarge it. */
function linkPictures() {
  for (const picture of document.querySelectorAll(".bd-article p > img")) {
    const link = document.createElement("a");
    link.className = "enlarge";
    link.href = picture.src;
    link.title = "Open this picture in its full size";
    picture.replaceWith(link);
    link.append(picture);
  }
}

/* The column with the longest sentences stays wide enough to read. On a phone the cells of such
   a table stand below each other, each with the name of its column (site.css). */
function markSentences() {
  for (const table of document.querySelectorAll(".bd-article table")) {
    const names = [...table.querySelectorAll("thead th")].map((cell) => cell.innerText);
    const rows = [...table.querySelectorAll("tbody tr")];
    const lengths = names.map((_, column) =>
      Math.max(0, ...rows.map((row) => row.cells[column]?.innerText.length ?? 0))
    );
    const longest = Math.max(0, ...lengths);
    if (names.length < 3 || longest <= 40) continue;
    table.classList.add("sentences");
    for (const row of rows) {
      [...row.cells].forEach((cell, column) => (cell.dataset.column = names[column] ?? ""));
      row.cells[lengths.indexOf(longest)]?.classList.add("sentence");
    }
  }
}

document.addEventListener("DOMContentLoaded", () => {
  linkPictures();
  markSentences();
});
