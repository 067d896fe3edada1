"""What ``auto`` means here and now."""

from __future__ import annotations

from urllib.parse import urlsplit

from attention_limits.sources import hub, texts
from attention_limits.sources.base import SourceError
from attention_limits.sources.reach import Answer, probe
from attention_limits.sources.registry import EMBEDDED, MODELS, PAPER_CHOICE, TEXTS, GutenbergText, HubModel


def decide(kind: str, requested: str) -> tuple[str, str]:
    """Return the explicit name for a requested model or text, and a notice for the reader ("" for none).

    ``kind`` is "model" or "text". Any name but ``auto`` is returned as it is, unasked. ``auto`` takes the
    paper's choice if it is in the cache or if its host answers at once, else the embedded default,
    and the notice says so. Raises SourceError for an empty name, ValueError for another kind.
    """
    if kind not in PAPER_CHOICE:
        raise ValueError(f"kind must be 'model' or 'text', not {kind!r}")
    if not requested.strip():
        raise SourceError(f"The {kind}'s name is empty. Give a name, a path, or 'auto'.")
    if requested != "auto":
        return requested, ""
    paper, embedded = PAPER_CHOICE[kind], EMBEDDED[kind]
    host, answer = _paper_model() if kind == "model" else _paper_text()
    if answer.ok:
        return paper, ""
    return embedded, (
        f"{paper} (the paper's {kind}) is not in the cache, and {host} could not be reached "
        f"({answer.reason}): this run uses the embedded {kind} {embedded} instead, so its figures are not "
        "the paper's."
    )


def _paper_model() -> tuple[str, Answer]:
    model = MODELS[PAPER_CHOICE["model"]]
    assert isinstance(model, HubModel)
    if hub.is_cached(model):
        return "", Answer(True, 0, "")
    return hub.host(), hub.ask(model)


def _paper_text() -> tuple[str, Answer]:
    name = PAPER_CHOICE["text"]
    if texts.is_cached(name):
        return "", Answer(True, 0, "")
    text = TEXTS[name]
    assert isinstance(text, GutenbergText)
    return urlsplit(text.url).hostname or text.url, probe(text.url)
