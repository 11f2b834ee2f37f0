// Scores of search results on the site. A higher score is shown earlier. A word in the text
// counts 5, in a title 15, an entry of docs/searches.yaml up to 100: the bonus of a folder
// decides between pages that match equally well, and must not outweigh a title.
"use strict";

// Added to the score by the folder of a page; the first match counts.
const FOLDER_BONUS = [
  ["start/", 4],
  ["guide/", 4],
  ["tutorials/", 4],
  ["gallery/", 2],
  ["api/generated/", -16],
  ["results/", -20],
  ["figures", -20],
  ["CHANGELOG", -20],
  ["", 0], // pages at the top, such as compare and methods
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
