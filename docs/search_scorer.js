// Scores of search results on the site: pages that explain come first, then the API,
// then reports of results. A higher score is shown earlier.
"use strict";

// Added to the score by the folder of a page; the first match counts.
const FOLDER_BONUS = [
  ["start/", 60],
  ["guide/", 60],
  ["tutorials/", 50],
  ["gallery/", 30],
  ["api/generated/", 0],
  ["api/", 10],
  ["reference/", 10],
  ["results/", -60],
  ["", 20], // pages at the top, such as compare and methods
];

// `var`, because Sphinx's own script declares the same name with `var`.
var Scorer = {
  score: ([docname, title, anchor, descr, score, filename, kind]) => {
    const [, bonus] = FOLDER_BONUS.find(([folder]) => docname.startsWith(folder));
    return score + bonus;
  },

  // What follows are Sphinx's own values: by where a page has the word searched for.
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
