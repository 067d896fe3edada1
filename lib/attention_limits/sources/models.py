"""Causal language models by name or by folder, in float32, ready to be read, with their provenance."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from attention_limits.sources import hub
from attention_limits.sources.base import Provenance, SourceError, cache_folder, expanded, is_folder, say
from attention_limits.sources.embedded import embedded_folder, entry_name, quiet_transformers
from attention_limits.sources.folders import card_licence, check_folder, configured_context, weights_digest
from attention_limits.sources.registry import MODELS, PackagedFile

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

DEVICES = ("auto", "cpu", "cuda", "mps")


@dataclass
class Model:
    """A causal language model (float32, evaluation mode, on ``device``), its tokenizer and its origin."""

    module: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    device: torch.device
    provenance: Provenance


def load_model(requested: str, device: str = "auto") -> Model:
    """Return the model for a name (``gpt2``, ``smollm2-135m``, any hub name), a folder, or ``auto``.

    The model is fetched into the cache if it is not there yet, verified, and loaded in float32 with SDPA
    attention. ``device`` is auto, cpu, cuda or mps. Raises SourceError; never falls back unless asked for
    ``auto``.
    """
    from attention_limits.sources.choice import decide

    where = pick_device(device)
    name, notice = decide("model", requested)
    if notice:
        say(notice)
    folder, provenance = fetch_model(name)
    module, tokenizer = _read(provenance.name, folder)
    module = module.to(where)  # type: ignore[arg-type]  # transformers' wrapper hides that `to` is a method
    return Model(module, tokenizer, where, provenance.asked(requested, notice))


def fetch_model(name: str) -> tuple[Path, Provenance]:
    """Return a verified folder with the model's files, and its provenance, for any name but ``auto``.

    Raises SourceError. Loads no weights.
    """
    known = MODELS.get(name)
    if isinstance(known, PackagedFile):
        folder = embedded_folder(name, known)
        revision, origin = (
            f"{known.package}=={known.version}",
            f"{known.origin}; from {known.member} in that package",
        )
        digest, licence = (known.sha256, known.size), known.licence
    elif _is_local(name):
        folder = _local_folder(name)
        check_folder(name, folder)
        revision, origin = "", "a local folder"
        digest, licence = weights_digest(folder), card_licence(folder)
        name = folder.name
    else:
        model = hub.parse(name)
        assert model is not None  # what is no name of the hub was taken for a folder
        folder = hub.snapshot(name, model)
        check_folder(name, folder)
        revision, origin = folder.name, f"{hub.host()}/{model.repository}"
        digest, licence = weights_digest(folder), model.licence or card_licence(folder)
    return folder, Provenance("model", name, name, revision, *digest, licence, origin)


def check_local_model(name: str) -> None:
    """Raise SourceError for a model folder that is not there or cannot be loaded from; ask nobody for other models."""
    if name != "auto" and _is_local(name):
        check_folder(name, _local_folder(name))


def context_length(name: str) -> int | None:
    """Return how many tokens a model reads at once, by its configuration alone.

    None where that does not say it, or does not lie on this machine yet. Loads and downloads nothing, and verifies no
    weights. Raises SourceError for a name that no model can have.
    """
    known, on_hub = MODELS.get(name), hub.parse(name)
    folder: Path | None = expanded(name)
    if isinstance(known, PackagedFile):
        folder = cache_folder() / entry_name(name, known)
    elif on_hub and (known or not is_folder(name)):
        folder = hub.cached_snapshot(on_hub)
    return configured_context(folder) if folder else None


def pick_device(requested: str) -> torch.device:
    """Return the torch device for auto (cuda, else mps, else cpu), cpu, cuda or mps.

    Raises SourceError for another word, and for a device that this machine or this build of torch does not
    have.
    """
    import torch

    if requested not in DEVICES:
        raise SourceError(f"Unknown device {requested!r}. Choose one of {', '.join(DEVICES)}.")
    present = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if requested == "auto":
        return torch.device(next(name for name, there in present.items() if there))
    if not present[requested]:
        raise SourceError(
            f"The device {requested!r} was asked for, but torch {torch.__version__} finds none on this "
            "machine. Choose DEVICE=cpu, or DEVICE=auto to take what is there."
        )
    return torch.device(requested)


def _is_local(name: str) -> bool:
    return name not in MODELS and (is_folder(name) or hub.parse(name) is None)


def _local_folder(name: str) -> Path:
    if is_folder(name):
        return expanded(name).absolute()
    what = "a file, not a folder" if os.path.exists(expanded(name)) else "no such folder"
    raise SourceError(
        f"The model {name!r}: {what}. Give a folder made by save_pretrained, a hub name (org/name), "
        f"or one of {', '.join(sorted(MODELS))}, auto."
    )


def _read(name: str, folder: Path) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load a checked folder; what transformers cannot make sense of becomes a SourceError that says so."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        with quiet_transformers():
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                folder,
                dtype=torch.float32,
                attn_implementation="sdpa",
                use_safetensors=True,
                trust_remote_code=False,
                local_files_only=True,
                output_loading_info=True,
            )
            module, report = loaded
            tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except Exception as error:  # transformers lets every kind through, from KeyError to SafetensorError
        raise SourceError(
            f"transformers could not load {name!r} as a causal language model ({type(error).__name__}: "
            f"{error}). Choose a decoder-only model with its tokenizer, such as gpt2 or smollm2-135m."
        ) from error
    missing = sorted(report["missing_keys"])
    if missing:
        shown = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        raise SourceError(
            f"The weights of {name!r} are not complete: {len(missing)} tensors are missing ({shown}). "
            "transformers would fill them with random numbers; fetch or save the model again."
        )
    module.eval()
    _check_finite(name, module)
    _check_causal(name, module)
    return module, tokenizer


def _check_finite(name: str, module: PreTrainedModel) -> None:
    """Name the first tensor in which a number is NaN or infinite: it would make all that is computed from it so."""
    import torch

    for tensor, values in module.named_parameters():
        if not torch.isfinite(values).all():
            raise SourceError(
                f"The weights of {name!r} are broken: {tensor} holds NaN or infinite numbers. Fetch or save the model "
                "again."
            )


def _check_causal(name: str, module: PreTrainedModel) -> None:
    """Change the last token and demand that no earlier output changes: causal, whatever a config says."""
    import torch

    vocabulary = cast("torch.nn.Embedding", module.get_input_embeddings()).num_embeddings
    first = torch.arange(4).unsqueeze(0) % vocabulary
    second = first.clone()
    second[0, -1] = (first[0, -1] + 1) % vocabulary
    with torch.no_grad():
        gap = (module(first).logits - module(second).logits)[:, :-1].abs().max().item()
    if not math.isfinite(gap):
        raise SourceError(
            f"The model {name!r} is broken: its outputs are NaN or infinite. Fetch it again, or choose another model."
        )
    if gap > 1e-4:
        raise SourceError(
            f"The model {name!r} ({type(module).__name__}) is not causal: a change of the last token moves "
            f"earlier outputs by {gap:.2g}. Choose a decoder-only model such as gpt2 or smollm2-135m."
        )
