"""Models of the hub: from its cache or downloaded, verified by the hashes the cache names its files by."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from urllib.parse import quote, urlsplit

from attention_limits.parameters import nearest
from attention_limits.sources.base import SourceError, one_at_a_time, say, sha256_file
from attention_limits.sources.folders import has_tokenizer, weight_files
from attention_limits.sources.reach import Answer, probe
from attention_limits.sources.registry import MODELS, HubModel

# Weights as safetensors, configuration, tokenizer and the model card (for the licence). No pickle, no Python.
PATTERNS = ["config.json", "generation_config.json", "model.safetensors", "model-*.safetensors"]
PATTERNS += ["model.safetensors.index.json", "tokenizer*", "vocab*", "merges.txt", "special_tokens_map.json"]
PATTERNS += ["added_tokens.json", "README.md"]
_NAME = re.compile(r"(?P<repository>\w[\w.-]*(?:/\w[\w.-]*)?)(?:@(?P<revision>[\w./-]+))?", re.ASCII)


def parse(requested: str) -> HubModel | None:
    """Return the hub model that ``name``, ``org/name`` or ``org/name@revision`` means, or None."""
    known = MODELS.get(requested)
    if isinstance(known, HubModel):
        return known
    match = _NAME.fullmatch(requested)
    return HubModel(match["repository"], match["revision"] or "main") if match else None


def host() -> str:
    """Return the name of the hub's host (``HF_ENDPOINT`` may name a mirror)."""
    from huggingface_hub import constants

    return urlsplit(constants.ENDPOINT).hostname or constants.ENDPOINT


def ask(model: HubModel) -> Answer:
    """Ask the hub once, within the probe's deadline, whether it has this model at this revision."""
    from huggingface_hub import constants

    if constants.is_offline_mode():
        return Answer(False, 0, "HF_HUB_OFFLINE is set")
    return probe(
        f"{constants.ENDPOINT}/api/models/{model.repository}/revision/{quote(model.revision, safe='')}"
    )


def _cache() -> str:
    """The hub's cache folder. Raises SourceError where it would be in the home folder of a user who has none."""
    from huggingface_hub import constants

    if constants.HF_HUB_CACHE.startswith("~"):  # which was not replaced, since it means nothing here
        raise SourceError(
            f"There is no home folder for the hub's cache ({constants.HF_HUB_CACHE!r}). Set the environment variable "
            "HF_HOME to a folder that can be written."
        )
    return constants.HF_HUB_CACHE


def cached_snapshot(model: HubModel) -> Path | None:
    """Return the folder in the hub's cache if config, tokenizer and every weight file are there, else None.

    Contents are not read here: see :func:`damaged`. Asks no network. Raises SourceError for a name that no model has,
    and where there can be no cache.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        found = snapshot_download(
            model.repository,
            revision=model.revision,
            cache_dir=_cache(),
            allow_patterns=PATTERNS,
            local_files_only=True,
        )
    except LocalEntryNotFoundError:
        return None
    except HFValidationError as error:
        raise SourceError(f"{model.repository!r} is no model name the hub can have ({error}).") from error
    folder = Path(found)
    weights = weight_files(folder)
    whole = weights and all(path.is_file() for path in (folder / "config.json", *weights))
    return folder if whole and has_tokenizer(folder) else None


def is_cached(model: HubModel) -> bool:
    """Say whether the model lies whole and undamaged in the hub's cache."""
    folder = cached_snapshot(model)
    return folder is not None and not damaged(folder, model)


def snapshot(name: str, model: HubModel) -> Path:
    """Return a verified folder of the model in the hub's cache, downloaded if it is absent or damaged.

    Raises SourceError: unknown name, no network (after one short probe), no safetensors, wrong hash.
    """
    folder = cached_snapshot(model)
    if folder and not damaged(folder, model):
        return folder
    with one_at_a_time(model.repository.replace("/", "--")):
        folder = cached_snapshot(model)  # another process may have repaired it while this one waited
        broken = damaged(folder, model) if folder else []
        if folder and not broken:
            return folder
        _require_hub(name, model, broken)
        for path in broken:
            say(f"The cached {path.name} of {name} is damaged; it is fetched again.")
            _forget(path)
        return _download(name, model)


def damaged(folder: Path, model: HubModel) -> list[Path]:
    """Return a snapshot's files whose bytes are not what the cache's own file names, or our pin, say.

    The cache stores each file under the hash the hub announced: SHA-256 of large files (64 digits), git's
    blob hash of small ones (40 digits). A cache without links (some Windows file systems) has no such names:
    only a pin holds.
    """
    broken = []
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        known = Path(os.readlink(path)).name if path.is_symlink() else ""
        if model.sha256 and path.name == "model.safetensors":
            known = model.sha256
        right = {64: sha256_file, 40: _git_sha1}.get(len(known))
        if right and right(path) != known:
            broken.append(path)
    return broken


def _git_sha1(path: Path) -> str:
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _require_hub(name: str, model: HubModel, broken: list[Path]) -> None:
    answer = ask(model)
    if answer.ok:
        return
    if answer.status in (401, 403, 404):
        raise SourceError(
            f"There is no folder {name!r} here, and {host()} has no open model {model.repository!r} at "
            f"revision {model.revision!r} ({answer.reason}).{nearest(name, MODELS)} Check the spelling, or log in if "
            "the model is private."
        )
    state = f"damaged in the cache ({', '.join(p.name for p in broken)})" if broken else "not in the cache"
    raise SourceError(
        f"The model {name!r} is {state}, and {host()} could not be reached to download it ({answer.reason})."
        f"{'' if name in MODELS else nearest(name.lower(), MODELS)} "
        "Connect to the network and run again, give the path of a local model folder, or choose the embedded "
        "model 'smollm2-135m' (MODEL=smollm2-135m, or MODEL=auto to take it only when the paper's model "
        "cannot be had)."
    )


def _forget(path: Path) -> None:
    """Delete a cached file and everything its link leads to, so that the hub's client downloads it again."""
    while path.is_symlink():
        target = path.parent / os.readlink(path)
        path.unlink()
        path = target
    path.unlink(missing_ok=True)


def _fetch(name: str, model: HubModel) -> str:
    """Let the hub's client download the files, and return their folder; every way to fail becomes a SourceError."""
    from huggingface_hub import constants, snapshot_download

    try:
        return snapshot_download(
            model.repository,
            revision=model.revision,
            cache_dir=_cache(),
            endpoint=constants.ENDPOINT,
            allow_patterns=PATTERNS,
        )
    except Exception as error:  # the client raises errors of its own, of its HTTP library and of the system
        of_network = isinstance(error, ConnectionError | TimeoutError)
        if isinstance(error, OSError) and error.errno and not of_network:
            raise SourceError(
                f"{name} could not be written to the hub's cache folder {constants.HF_HUB_CACHE!r} "
                f"({error.strerror}). Check its free space and permissions, or set the environment variable HF_HOME to "
                "a folder that can be written."
            ) from error
        raise SourceError(
            f"The download of {model.repository!r} from {host()} failed ({type(error).__name__}: {error}). "
            "Run again: what has arrived is kept."
        ) from error


def _download(name: str, model: HubModel) -> Path:
    say(f"Fetching {name} from {host()}, once ...")
    fetched = _fetch(name, model)
    folder = cached_snapshot(model)
    if folder is None:
        raise SourceError(
            f"{model.repository!r} at revision {model.revision!r} lacks config.json, a tokenizer, or weights "
            f"as safetensors (it has {', '.join(sorted(os.listdir(fetched))) or 'nothing of these'}). "
            "Weights in pickle files are refused, since reading them can run code. Choose another model or "
            "revision."
        )
    broken = damaged(folder, model)
    if broken:
        raise SourceError(
            f"{', '.join(p.name for p in broken)} of {model.repository!r} arrived with another hash than "
            "announced or pinned; it was not used. Run again, or check the mirror in HF_ENDPOINT."
        )
    return folder
