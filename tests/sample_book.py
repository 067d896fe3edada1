"""A sample book for the tests of figures and of the look: two pages, one of them an executed notebook."""

from __future__ import annotations

import itertools
import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pandas as pd
from attention_limits import charts

ROOT = Path(__file__).resolve().parents[1]
CAPTION = r"The distance grows like \( \sqrt{L} \) in 3 < 4 of the heads."

INDEX = r"""# Sample book

```{prf:theorem} Pythagoras in the plane (re-derived)
:label: thm-sample
For a right angle, $a^2 + b^2 = c^2$.
```

`````{dropdown} A folded proof
````{prf:proof}
Draw the height and compare the triangles.
````
`````

[](#fig-sample-heads) belongs to {prf:ref}`thm-sample`; see {cite}`sample` and {cite}`many`. The code is `d(a, b)`.

$$
\sum_{i=1}^{n} \alpha_i = 1, \qquad d^2 = \Bigl\lVert \sum_{i \notin I} \alpha_i x_i \Bigr\rVert^2
  + \text{a long remark that does not fit the width of a telephone at all, whatever one does}
$$ (eq-sample)

| a | wide | table | with | many | columns | and | no | room | for | them |
|---|---|---|---|---|---|---|---|---|---|---|
| 0.123456 | 0.123456 | 0.123456 | 0.123456 | 0.123456 | 0.123456 | 0.123456 | 0.123456 | 0.123 | 0.1 | 0.1 |
"""
BIB = """@article{sample, author={A. Author}, title={A title}, journal={A journal}, year={2025}}
@article{many, author={Anna Wolf and Bert Wagner and Carl Wood and Dora Wolf and Emil Wu and Fritz Weiss}, year={2024},
  title={A second title that is long enough to need two lines of the page, or three on a telephone}, journal={Papers}}
"""
SOURCE = """rows = measure(model, text)  # a comment

for name in names:
    wide = {key: [measure(model, text, key, length) for length in lengths] for key in ("one", "two", "three", "4")}
figure(rows, 'name', 1.5)"""


def heads(layers=6, heads=5, spaces=("hidden", "value")) -> pd.DataFrame:
    """Rows that tell where they come from: d = 100 layer + 10 head + log2 L, plus 1000 in the value space."""
    rows = []
    for layer, head, space, length in itertools.product(range(layers), range(heads), spaces, (32, 64, 128)):
        d = 100 * layer + 10 * head + math.log2(length) + 1000 * (space == "value")
        rows.append({"layer": layer, "head": head, "space": space, "length": length, "d": d, "low": d - 1,
                     "high": d + 1, "bound": d + 50})  # fmt: skip
    return pd.DataFrame(rows)


def explorer(rows=None, **changes):
    given = {
        "x": "length",
        "x_title": "context length L (tokens)",
        "series": {"d": "measured distance d", "bound": "upper bound"},
        "y_title": "distance (units of the space)",
        "bands": {"d": ("low", "high")},
        "map_value": "d",
        "map_title": "d at L = 128",
        "log_x": True,
    }
    return charts.head_explorer(heads() if rows is None else rows, **{**given, **changes})


def sample_notebook() -> nbformat.NotebookNode:
    """A notebook as papermill leaves it: one figure with a head explorer, one with plain curves."""
    rows = pd.DataFrame(
        {"n": [1, 2, 4] * 2, "value": [1.0, 2, 3, 2, 3, 4], "kind": ["one"] * 3 + ["two"] * 3}
    )
    lines = charts.curves(rows, "n", "value", "kind", x_title="n (tokens)", y_title="value (1)")
    drawn = [
        charts.figure(explorer(), name="fig-sample-heads", caption=CAPTION, alt="A map of heads and curves."),
        charts.figure(lines, name="fig-sample-lines", caption="Both lines rise.", alt="Two rising lines."),
    ]
    opening = "# Sample chapter: a title that is as long as those of real ones\n\nText, with a [](#fig-sample-lines)."
    cells = [nbformat.v4.new_markdown_cell(opening)]
    for count, figure in enumerate(drawn, 1):
        data = figure._repr_mimebundle_()
        output = nbformat.v4.new_output("execute_result", data=data, execution_count=count)
        cells.append(nbformat.v4.new_code_cell(SOURCE, outputs=[output], execution_count=count))
    cells[-1].metadata["tags"] = ["hide-input"]
    cells.append(nbformat.v4.new_markdown_cell("The last paragraph."))
    metadata = {"kernelspec": {"name": "python3", "display_name": "python3", "language": "python"}}
    return nbformat.v4.new_notebook(cells=cells, metadata=metadata)


def write_sample(folder: Path, index: str = INDEX, sources: dict | None = None) -> Path:
    """The staged source of the sample book."""
    source = folder / "source"
    (source / "notebooks").mkdir(parents=True)
    if (ROOT / "book" / "_static").is_dir():
        shutil.copytree(ROOT / "book" / "_static", source / "_static")
    (source / "_toc.yml").write_text(
        "format: jb-book\nroot: index\nparts:\n- caption: Part\n  chapters:\n"
        "  - file: notebooks/sample\n  - file: bibliography\n"
    )
    (source / "index.md").write_text(index, encoding="utf-8")
    (source / "bibliography.md").write_text("# Bibliography\n\n```{bibliography}\n```\n")
    (source / "references.bib").write_text(BIB)
    nbformat.write(sample_notebook(), source / "notebooks" / "sample.ipynb")
    if sources is not None:
        (source / "sources.json").write_text(json.dumps(sources), encoding="utf-8")
    return source


def build(source: Path, site: str = "") -> subprocess.CompletedProcess:
    """Build with the project's configuration, warnings being errors as in the engine; ``site`` is its address."""
    command = [
        sys.executable,
        "-c",
        "from jupyter_book.cli.main import main; main()",
        "build",
        str(source),
        "--config",
        str(ROOT / "_config.yml"),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "lib"), "ATTENTION_LIMITS_SITE": site}
    return subprocess.run(
        [*command, "--path-output", str(source.parent), "-W", "--keep-going"],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
    )
