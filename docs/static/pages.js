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
    if (longest <= 40) continue;
    if (names.length < 3) {
      table.classList.add("pairs");
      continue;
    }
    table.classList.add("sentences");
    for (const row of rows) {
      [...row.cells].forEach((cell, column) => (cell.dataset.column = names[column] ?? ""));
      row.cells[lengths.indexOf(longest)]?.classList.add("sentence");
    }
  }
}

/* A line of a command breaks before an option, not between its hyphens and its name. */
function keepOptionsWhole() {
  for (const block of document.querySelectorAll(".bd-article .highlight-sh pre")) {
    const walker = document.createTreeWalker(block, NodeFilter.SHOW_TEXT);
    const texts = [];
    while (walker.nextNode()) texts.push(walker.currentNode);
    for (const text of texts) {
      const parts = text.data.split(/(--[\w-]+)/);
      if (parts.length < 2) continue;
      const nodes = parts.map((part, index) => {
        if (index % 2 === 0) return document.createTextNode(part);
        const option = document.createElement("span");
        option.className = "option";
        option.textContent = part;
        return option;
      });
      text.replaceWith(...nodes);
    }
  }
}

document.addEventListener("DOMContentLoaded", () => {
  linkPictures();
  markSentences();
  keepOptionsWhole();
});
