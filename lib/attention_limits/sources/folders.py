"""What a model folder must be before anything of it is loaded: safetensors that are whole, and no code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attention_limits.sources.base import SourceError, sha256_file

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt")


def weight_files(folder: Path) -> list[Path]:
    """Return the safetensors files a folder's model needs, present or not; [] if it has none at all.

    Raises SourceError for an index that is not one.
    """
    if (folder / WEIGHTS).is_file() or not (folder / INDEX).is_file():
        return [folder / WEIGHTS] if (folder / WEIGHTS).is_file() else []
    try:
        names = set(json.loads((folder / INDEX).read_text(encoding="utf-8"))["weight_map"].values())
        outside = sorted(name for name in names if Path(name).name != name)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SourceError(
            f"{INDEX} of {folder.name!r} is damaged ({error!r}). Fetch the model again."
        ) from error
    if outside:
        raise SourceError(
            f"{INDEX} of {folder.name!r} names a file outside its folder: {outside[0]!r}. Refused."
        )
    return sorted(folder / name for name in names)


def has_tokenizer(folder: Path) -> bool:
    """Say whether a folder holds a tokenizer. Without one, transformers makes up an empty one and says nothing."""
    return any((folder / name).is_file() for name in TOKENIZERS)


def check_folder(name: str, folder: Path) -> dict[str, Any]:
    """Return the folder's config after checking, without torch, that the model may be loaded at all.

    Raises SourceError: no or damaged config.json, remote code asked for, an encoder-decoder, no tokenizer,
    no safetensors, a missing or truncated safetensors file.
    """
    path = folder / "config.json"
    if not path.is_file():
        raise SourceError(
            f"The model folder {name!r} has no config.json. Give a folder made by save_pretrained."
        )
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        architectures, automatic = config.get("architectures") or [], config.get("auto_map")
    except (ValueError, AttributeError) as error:
        raise SourceError(
            f"config.json of the model {name!r} is damaged ({error}). Fetch it again."
        ) from error
    if automatic and not _built_in(config.get("model_type"), architectures):
        raise SourceError(
            f"The model {name!r} needs code from its own folder (auto_map: {sorted(automatic)}), which is "
            "never run here. Choose a model whose architecture transformers itself knows."
        )
    if config.get("is_encoder_decoder"):
        raise SourceError(
            f"The model {name!r} is an encoder-decoder ({', '.join(architectures)}), not a causal language "
            "model. Choose a decoder-only model such as gpt2 or smollm2-135m."
        )
    if not has_tokenizer(folder):
        raise SourceError(
            f"The model {name!r} has no tokenizer ({' or '.join(TOKENIZERS)}). Save the one it was trained with "
            "into its folder."
        )
    _check_weights(name, folder)
    return config


def _built_in(kind: Any, architectures: list[Any]) -> bool:
    """Whether transformers itself has the classes that a config names: it then runs its own and not the folder's."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    own = set(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values())
    return kind in CONFIG_MAPPING_NAMES and bool(architectures) and own.issuperset(architectures)


def configured_context(folder: Path) -> int | None:
    """Return the most tokens that a folder's config.json says the model attends to at once, or None.

    That is its number of positions, or what `local_attention` says where that is smaller.
    """
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        config = {**config, **(config.get("text_config") or {})}
    except (OSError, ValueError, TypeError, AttributeError):
        return None
    limits = [config.get(key) for key in ("max_position_embeddings", "n_positions")]
    return min(
        (limit for limit in [*limits, local_attention(config)] if isinstance(limit, int)), default=None
    )


def local_attention(config: Mapping[str, Any]) -> int | None:
    """Return the fewest tokens that a layer attends within, by a sliding window or chunks; None where none is named."""
    kinds = config.get("layer_types") or []
    slides = "sliding_attention" in kinds if kinds else config.get("use_sliding_window", True)
    chunked = "chunked_attention" in kinds if kinds else True
    limits = [
        config.get("sliding_window") if slides else None,
        config.get("attention_chunk_size") if chunked else None,
    ]
    return min((limit for limit in limits if isinstance(limit, int)), default=None)


def _check_weights(name: str, folder: Path) -> None:
    from safetensors import SafetensorError, safe_open

    files = weight_files(folder)
    if not files:
        pickles = sorted(p.name for pattern in ("*.bin", "*.pt", "*.pth") for p in folder.glob(pattern))
        raise SourceError(
            f"The model {name!r} has no weights as safetensors ({WEIGHTS}). "
            + (
                f"It has {', '.join(pickles)}: pickle files are refused, since reading them can run code. "
                if pickles
                else ""
            )
            + "Convert it with save_pretrained, or choose another model."
        )
    for path in files:
        try:
            # Opening reads the header and holds it against the file's size.
            with safe_open(path, framework="numpy") as weights:
                weights.keys()
        except FileNotFoundError:
            raise SourceError(
                f"The model {name!r} lacks {path.name}, which its index names. Fetch it again."
            ) from None
        except (SafetensorError, OSError) as error:
            raise SourceError(
                f"{path.name} of the model {name!r} is truncated or damaged ({error}). Fetch or save it "
                "again."
            ) from error


def weights_digest(folder: Path) -> tuple[str, int]:
    """Return SHA-256 and size in bytes of a folder's weights (for several files as in ``Provenance``)."""
    files = weight_files(folder)
    size = sum(path.stat().st_size for path in files)
    if len(files) == 1:
        return sha256_file(files[0]), size
    lines = "".join(f"{sha256_file(path)}  {path.name}\n" for path in files)
    return hashlib.sha256(lines.encode()).hexdigest(), size


def card_licence(folder: Path) -> str:
    """Return the licence that the folder's model card names, or that it names none."""
    import yaml
    from huggingface_hub import ModelCard

    try:
        named = ModelCard.load(folder / "README.md").data.license
    except (OSError, ValueError, yaml.YAMLError):
        named = None
    return str(named) if named else "unknown (no model card names one)"
