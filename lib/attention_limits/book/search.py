"""The search: it knows theorems and their like by number and name, and what has the query in its name comes first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.domains import ObjType
from sphinx_proof.domain import ProofDomain

from .assets import OWN


class Statements(ProofDomain):
    """Theorems and their like as :mod:`sphinx_proof` has them, and known to the search by number and name."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.object_types = {kind: ObjType(kind, "ref") for kind in self.directives}

    def get_type_name(self, type: ObjType, primary: bool = False) -> str:
        """The kind alone, as the search shows it."""
        return type.lname

    def get_objects(self) -> Iterator[tuple[str, str, str, str, str, int]]:
        """What Sphinx asks of a domain: (name, name to show, kind, page, anchor, 0 for what is to come first)."""
        for label, found in getattr(self.env, "proof_list", {}).items():
            numbers = self.env.toc_fignumbers.get(found["docname"], {}).get(found["countertype"], {})
            number = ".".join(map(str, numbers.get(label, ())))
            name = f"{found['realtype'].title()} {number}{found.get('title', '')}"
            yield name, name, found["realtype"], found["docname"], label, 0


def name_statements(app: Sphinx, doctree: nodes.document) -> None:
    """Note the title of each statement of one page, which sphinx_proof does not."""
    known = getattr(app.env, "proof_list", {})
    for node in doctree.findall(nodes.Element):
        if node.get("label") in known and "realtype" in node:
            known[node["label"]]["title"] = node[0].astext()


def set_scorer(app: Sphinx, config: Any) -> None:
    """Give the search its order of results."""
    config.html_search_scorer = str(OWN.joinpath("search.js"))
