"""Models by name, one after the other: what is cached comes at once, and a silent hub is asked once only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attention_limits import controls, sources
from attention_limits.sources import Model, SourceError, hub
from attention_limits.sources.base import is_folder, say
from attention_limits.sources.registry import MODELS, PackagedFile

RANDOM, SHUFFLED = "random:", "shuffled"


def is_control(name: str) -> bool:
    """Whether a name stands for weights that were not trained."""
    return name == SHUFFLED or name.startswith(RANDOM)


def check_names(names: Sequence[str]) -> None:
    """Raise ValueError unless ``names`` is a list of names, those of random weights among `controls.SHAPES`."""
    if isinstance(names, str) or not all(isinstance(name, str) and name.strip() for name in names):
        raise ValueError(f"models is {names!r}; it must be a list of names")
    shapes = [RANDOM + shape for shape in controls.SHAPES]
    if wrong := [name for name in names if name.startswith(RANDOM) and name not in shapes]:
        raise ValueError(f"models has {wrong}; with random weights there are {', '.join(shapes)}")


class Shelf:
    """Hands out models. ``main`` is the name of the first, from which the controls take tokenizer and weights."""

    def __init__(self, main: str, seed: int, device: str) -> None:
        self.seed, self.device = seed, device
        self.main = self.explicit(main)
        self._tokenizer: Any = None
        self._silent = ""  # why the hub could not be reached
        self._weights: dict[str, str] = {}  # SHA-256 of weights that were handed out -> name

    def explicit(self, name: str) -> str:
        """The name that ``auto`` stands for, with its notice on the terminal; any other name as it is."""
        decided, notice = sources.decide("model", name)
        if notice:
            say(notice)
        return decided

    def get(self, name: str) -> Model:
        """The model of an explicit name; ``main`` must be asked for before any control.

        Raises SourceError: it cannot be had, or has the same weights as one handed out before.
        """
        if name == SHUFFLED:
            return controls.shuffled(sources.load_model(self.main, device=self.device), self.seed)
        if name.startswith(RANDOM):
            return self._untrained(name.removeprefix(RANDOM))
        if name != self.main:
            self._demand_hub(name)
        model = sources.load_model(name, device=self.device)
        digest = model.provenance.sha256 or name
        if digest in self._weights:
            raise SourceError(f"its weights are those of {self._weights[digest]}, which is measured")
        self._weights[digest] = model.provenance.name
        if name == self.main:
            self._tokenizer = model.tokenizer
        return model

    def _untrained(self, shape: str) -> Model:
        """Reads the tokens of the first model; its embedding grows where that has more of them than GPT-2."""
        size = len(self._tokenizer)
        larger = {"vocab_size": size} if size > 50257 else {}
        return controls.untrained(shape, self.seed, tokenizer=self._tokenizer, device=self.device, **larger)

    def _demand_hub(self, name: str) -> None:
        """Refuse what only the hub has, once it did not answer: every further question would cost seconds."""
        model = hub.parse(name)
        here = isinstance(MODELS.get(name), PackagedFile) or is_folder(name)
        if here or model is None or hub.cached_snapshot(model):
            return
        if not self._silent:
            answer = hub.ask(model)
            if answer.ok or answer.status:  # it answers: loading says what it has
                return
            self._silent = f"not in the cache, and {hub.host()} could not be reached ({answer.reason})"
        raise SourceError(self._silent)
