// The scorer of Sphinx's search: what has all of the query in its own name comes before what only mentions it.
var Scorer = {
  // Sphinx's own numbers.
  objNameMatch: 11, objPartialMatch: 6, objPrio: { 0: 15, 1: 5, 2: -5 }, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,

  // A number such as 4.1 is one word, so that Theorem 4.1 is not found by "theorem 4" nor Theorem 4.10 by "theorem 4.1".
  words: (text) => text.toLowerCase().match(/\p{L}+|\p{N}+(\.\p{N}+)*/gu) ?? [],

  // The title of a chapter comes with its number in tags, a heading as "chapter > heading", a function with its module.
  ownName: (title, query) => {
    const name = title.replace(/<span class="section-number">[^<]*<\/span>|<[^>]*>/g, "").split(" > ").pop().trim();
    return name.includes(" ") || query.includes(".") ? name : name.split(".").pop();
  },

  // A result is [page, title, anchor, description, score, file].
  score: ([, title, , , score], query = new URLSearchParams(window.location.search).get("q") ?? "") => {
    const asked = Scorer.words(query);
    const name = Scorer.words(Scorer.ownName(title, query));
    const found = name.some((_, start) => asked.every((word, i) => name[start + i] === word));
    return asked.length && found ? score + 1000 : score;
  },
};
