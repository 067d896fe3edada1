"""Opens built pages in headless Chromium from file://, refusing other requests, and reports what is wrong.

Used by the tests of the book's look (on a sample book) and of the whole book. Without Chromium they are
skipped; REQUIRE_BROWSER=1 turns that skip into a failure.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest

_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--disable-component-update",
    "--disable-sync",
]
_TIMEOUT = 30_000  # ms


@dataclass
class Report:
    """What one page did and showed. :meth:`problems` says what a reader would complain about."""

    path: Path
    console: list[str] = field(default_factory=list)  # errors and warnings, and exceptions nobody caught
    failed: list[str] = field(default_factory=list)  # requests for files that are not there
    remote: list[str] = field(default_factory=list)  # requests for anything but a file
    figures: int = 0  # those not folded away
    drawn: int = 0
    formulas: int = 0
    raw_math: list[str] = field(default_factory=list)  # visible text that still holds TeX delimiters
    math_errors: list[str] = field(default_factory=list)
    overflow: int = 0  # px the page is wider than its window
    shift: float = (
        0.0  # cumulative layout shift, as browsers define it (mathematics being typeset counts too)
    )
    growth: float = 0.0  # px by which the drawing changed the height of the figure it changed most
    faint: list[str] = field(default_factory=list)  # texts and marks of figures below the WCAG AA contrast
    loaded: dict[str, int] = field(default_factory=dict)  # bytes of each file the page asked for

    def problems(self) -> list[str]:
        """One sentence per fault; empty for a sound page."""
        found = [f"console: {line}" for line in self.console]
        found += [f"missing file: {url}" for url in self.failed]
        found += [f"request to another host: {url}" for url in self.remote]
        if self.drawn != self.figures:
            found.append(f"{self.figures - self.drawn} of {self.figures} figures are not drawn")
        found += [f"mathematics not typeset: {text}" for text in self.raw_math]
        found += [f"mathematics with an error: {text}" for text in self.math_errors]
        if self.overflow > 0:
            found.append(f"the page is {self.overflow} px wider than its window")
        if self.shift > 0.25:  # a line that breaks elsewhere once MathJax is done costs up to 0.14
            found.append(f"layout shift {self.shift:.3f} is above 0.25")
        if self.growth > 30:
            found.append(f"a figure changes its height by {self.growth:.0f} px when it is drawn")
        found += [f"contrast too low: {text}" for text in self.faint]
        own = sum(size for file, size in self.loaded.items() if "_static" not in Path(file).parts)
        if own > 2_000_000:
            found.append(f"{own / 1e6:.1f} MB to load beside what all pages share; 2 MB is the limit")
        return [f"{self.path.name}: {line}" for line in found]


def executable() -> str:
    """Path of Chromium; skips the calling test (or fails it under REQUIRE_BROWSER=1) where there is none."""
    names = ("chromium", "chromium-browser", "google-chrome")
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if found:
        return found
    sentence = (
        "No Chromium on this machine (looked for chromium, chromium-browser, google-chrome and $CHROMIUM)"
    )
    if os.environ.get("REQUIRE_BROWSER") == "1":
        pytest.fail(
            f"{sentence}, and REQUIRE_BROWSER=1 demands one: install it, for example Debian's chromium"
        )
    pytest.skip(f"{sentence}: the pages were not looked at")


@contextmanager
def chromium() -> Iterator:
    """A headless browser (playwright's Browser), closed at the end."""
    path = executable()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as settings:
        own = os.environ | {"XDG_CONFIG_HOME": settings}  # else it leaves a folder in the user's home
        browser = playwright.chromium.launch(executable_path=path, args=_ARGUMENTS, env=own)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(
    browser, path: Path, *, width: int = 1200, height: int = 900, dark: bool = False, **context_options
) -> Iterator:
    """Yield (page, report) of a page that has finished drawing; :func:`open_page` completes the report.

    Other options are those of playwright's new_context, for example ``java_script_enabled=False``.
    """
    report = Report(Path(path))
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if dark else "light",
        accept_downloads=True,
        **context_options,
    )
    context.set_default_timeout(_TIMEOUT)
    context.add_init_script(_WATCH_SHIFTS)

    def guard(route) -> None:
        url = route.request.url
        if url.startswith(("file:", "blob:", "data:")):
            file = Path(url2pathname(urlsplit(url).path))
            if url.startswith("file:") and file.is_file():
                report.loaded[str(file)] = file.stat().st_size
            route.continue_()
        else:
            report.remote.append(url)
            route.abort()

    try:
        page = context.new_page()
        page.route("**/*", guard)
        page.on(
            "console",
            lambda m: m.type in ("error", "warning") and report.console.append(f"{m.type}: {m.text}"),
        )
        page.on("pageerror", lambda error: report.console.append(f"exception: {error}"))
        page.on("requestfailed", lambda r: r.url.startswith("file:") and report.failed.append(r.url))
        page.goto(Path(path).resolve().as_uri(), wait_until="load")
        if context_options.get("java_script_enabled", True):
            page.evaluate(_SETTLED)
        yield page, report
    finally:
        context.close()


def open_page(browser, path: Path, *, screenshot: Path | None = None, **window) -> Report:
    """Open ``path`` in a window (width, height, dark), look at it and close it again."""
    with opened(browser, path, **window) as (page, report):
        if screenshot:
            page.screenshot(path=screenshot, full_page=True)
        for name, value in page.evaluate(LOOK).items():
            setattr(report, name, value)
    return report


_WATCH_SHIFTS = """
window.layoutShift = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.layoutShift += entry.value;
}).observe({ type: "layout-shift", buffered: true });
window.figureHeights = () => [...document.querySelectorAll("figure.al-figure")].map((f) => f.offsetHeight);
document.addEventListener("readystatechange", () => { // "interactive" comes before scripts that are deferred
  if (document.readyState === "interactive") window.heightsBefore = window.figureHeights();
});
"""

# Resolves when figures are drawn (or have failed or waited 15 s) and MathJax has finished.
_SETTLED = """
async () => {
  const figures = [...document.querySelectorAll("figure.al-figure")];
  const waiting = () => figures.some((f) => f.offsetWidth && !f.dataset.drawn);
  for (let i = 0; i < 150 && waiting(); i++) await new Promise((done) => setTimeout(done, 100));
  if (window.MathJax?.startup?.promise) await MathJax.startup.promise;
  await new Promise((done) => setTimeout(done, 300));
}
"""

LOOK = r"""
() => {
  const shown = (e) => e && e.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true });
  const parse = (colour) => (colour.match(/[\d.]+/g) || []).map(Number);
  const light = (c) => {
    const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = c.slice(0, 3).map((v) => linear(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
  const over = (colour, behind) => {
    const alpha = colour[3] ?? 1;
    return colour.slice(0, 3).map((v, i) => alpha * v + (1 - alpha) * behind[i]);
  };
  const background = (e) => {
    if (!e) return [255, 255, 255];
    const own = parse(getComputedStyle(e).backgroundColor);
    return own.length === 3 ? own : over(own, background(e.parentElement)); // a tint lies on what is behind it
  };
  const before = window.heightsBefore ?? []; // without scripts nothing was noted
  const growth = Math.max(0, ...before.map((h, i) => Math.abs(window.figureHeights()[i] - h)));
  const shift = window.layoutShift ?? 0;
  const raw = [], faint = [];
  for (const folding of document.querySelectorAll("details:not(.al-data)")) folding.open = true; // read what is in it
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walk.nextNode()); ) {
    const text = node.textContent.trim(), e = node.parentElement;
    if (!text || !shown(e) || e.closest("script, style, noscript, mjx-container")) continue;
    const tex = /\\[()\[\]]|\$\$|\$[^$]*\\[a-z]+[^$]*\$/.test(text);
    if (tex && !e.closest("pre, code")) raw.push(text.slice(0, 80));
    const style = getComputedStyle(e), svg = e.closest("svg");
    const behind = background(svg ? svg.parentElement : e);
    const colour = over(parse(svg ? style.fill : style.color), behind);
    const size = parseFloat(style.fontSize), bold = parseInt(style.fontWeight) >= 700;
    const needed = size >= 24 || (bold && size >= 18.66) ? 3 : 4.5;
    const got = contrast(colour, behind);
    if (got < needed) faint.push(`${got.toFixed(2)} ${e.tagName}.${e.className} "${text.slice(0, 40)}"`);
  }
  // Lines, points, rules and axes; cells of a map are told from their neighbours, and bands repeat their line.
  const marks = "g.mark-line path, g.mark-symbol path, g.mark-rule.role-mark line";
  const axes = "g.role-axis-domain line, g.role-axis-tick line";
  for (const e of document.querySelectorAll(`.al-view svg :is(${marks}, ${axes})`)) {
    const style = getComputedStyle(e), behind = background(e.closest(".al-view"));
    const seen = ["fill", "stroke"].map((part) => {
      const [r, g, b, alpha] = parse(style[part]);
      if (b === undefined) return 0; // "none"
      return contrast(over([r, g, b, (alpha ?? 1) * style.opacity * style[part + "Opacity"]], behind), behind);
    });
    const got = Math.max(...seen), name = e.parentElement.getAttribute("class");
    if (got > 0 && got < 3) faint.push(`${got.toFixed(2)} mark ${name}`);
  }
  const figures = [...document.querySelectorAll("figure.al-figure")].filter((f) => f.offsetWidth); // the open ones
  const canvas = (f) => f.querySelector(".al-view svg, .al-view canvas");
  const paths = (f) => f.querySelectorAll(".al-view path").length;
  const filled = (f) => canvas(f)?.getBoundingClientRect().width > 100 && paths(f) > 3;
  return {
    figures: figures.length,
    drawn: figures.filter(filled).length,
    formulas: document.querySelectorAll("mjx-container").length,
    raw_math: raw,
    math_errors: [...document.querySelectorAll("mjx-merror")].map((e) => e.textContent),
    overflow: Math.max(0, document.documentElement.scrollWidth - window.innerWidth),
    shift,
    growth,
    faint: [...new Set(faint)],
  };
}
"""
