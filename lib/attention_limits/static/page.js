// Before a page is printed its foldings are opened and the look is the light one; afterwards all is as it was.
// figures.js listens to the two events that are sent here, and draws for paper in between.
(function () {
  "use strict";
  const root = document.documentElement;
  let closed = null; // the foldings to close again; null while nothing is printed
  let theme;

  function begin() {
    if (closed) return;
    closed = [...document.querySelectorAll(".bd-article details:not([open], .al-data)")];
    closed.forEach((folding) => (folding.open = true));
    theme = root.dataset.theme;
    root.dispatchEvent(new Event("paper:begin"));
    root.dataset.theme = "light";
  }

  function end() {
    if (!closed) return;
    closed.forEach((folding) => (folding.open = false));
    closed = null;
    root.dataset.theme = theme;
    root.dispatchEvent(new Event("paper:end"));
  }

  window.addEventListener("beforeprint", begin);
  window.addEventListener("afterprint", end);
  window.matchMedia("print").addEventListener("change", (paper) => (paper.matches ? begin() : end()));
})();
