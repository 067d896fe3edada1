"""Where models and texts come from: "give me this model", "give me this text", each answered with its proof.

``decide`` settles ``auto``; ``fetch_model`` brings a model's files and verifies them; ``load_model`` and
``load_text`` hand over what a notebook works with. Every failure a reader can cause or meet is a
:class:`SourceError` whose message says what was tried, with what value, and what to do. Importing this
package loads neither torch nor transformers, so that a decision costs no more than the question it asks.
"""

from attention_limits.sources.base import Provenance, SourceError
from attention_limits.sources.choice import decide
from attention_limits.sources.models import (
    DEVICES,
    Model,
    check_local_model,
    context_length,
    fetch_model,
    load_model,
    pick_device,
)
from attention_limits.sources.paths import STANDARD_INPUT, text_files, text_state
from attention_limits.sources.standard_input import keep_standard_input
from attention_limits.sources.texts import Text, check_size, load_text

__all__ = [
    "DEVICES",
    "STANDARD_INPUT",
    "Model",
    "Provenance",
    "SourceError",
    "Text",
    "check_local_model",
    "check_size",
    "context_length",
    "decide",
    "fetch_model",
    "keep_standard_input",
    "load_model",
    "load_text",
    "pick_device",
    "text_files",
    "text_state",
]
