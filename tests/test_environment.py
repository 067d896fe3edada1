"""pyproject.toml, requirements.lock and environment.yml say the same, and no file says where this was written."""

import ast
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
import yaml
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
DECLARED = [Requirement(line) for line in [*PROJECT["dependencies"], *itertools.chain(*EXTRAS.values())]]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
PYTHON = "3.11"  # what requirements.lock was made with; conda, Binder and the workflows take the same
WORKFLOWS = {
    path.stem: yaml.safe_load(path.read_text(encoding="utf-8"))
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))
}
LOCK_LINES = [
    line
    for line in (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]
LOCK = {
    canonicalize_name(name): version for name, _, version in (line.partition("==") for line in LOCK_LINES)
}


def own_files() -> list[Path]:
    """Every file that git tracks, or all but what is made where the project was unpacked without git."""
    try:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        made = {".venv", "_build", ".snakemake", ".git"}
        paths = [path for path in ROOT.rglob("*") if not made & set(path.relative_to(ROOT).parts)]
    else:
        paths = [ROOT / os.fsdecode(name) for name in listed.split(b"\0") if name]
    return [path for path in paths if path.is_file()]


@pytest.mark.parametrize("requirement", DECLARED, ids=str)
def test_lock_satisfies_pyproject(requirement):
    assert canonicalize_name(requirement.name) in LOCK, f"{requirement} is not locked: make lock"
    version = LOCK[canonicalize_name(requirement.name)]
    assert requirement.specifier.contains(version, prereleases=True)


def test_lock_holds_exact_versions_and_nothing_else():
    for line in LOCK_LINES:
        assert re.fullmatch(r"[a-z0-9][a-z0-9._-]*==[0-9][0-9a-z.]*", line), line
    assert len(LOCK) == len(LOCK_LINES), "a package is locked twice"
    assert not [name for name in LOCK if name.startswith("nvidia") or name == "triton"]
    assert str(Version(LOCK["torch"])) == "2.13.0"  # no local build such as +cpu: each platform takes its own


def test_lock_is_closed():
    """What an installed package needs on this machine is locked too, so nothing is left to the day's newest."""
    from importlib.metadata import PackageNotFoundError, requires

    missing, environment = [], default_environment()
    wanted = [(canonicalize_name(r.name), frozenset(r.extras)) for r in DECLARED]
    seen = set()
    while wanted:
        name, extras = wanted.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        # Torch pins these itself.
        if name not in LOCK and not name.startswith(("nvidia-", "cuda-", "triton")):
            missing.append(name)
        try:
            lines = requires(name) or []
        except PackageNotFoundError:
            continue
        for need in map(Requirement, lines):
            if need.marker is None or any(
                need.marker.evaluate(environment | {"extra": extra}) for extra in extras | {""}
            ):
                wanted.append((canonicalize_name(need.name), frozenset(need.extras)))
    assert len(seen) > 100
    assert not missing


def test_installed_versions_are_the_locked_ones():
    from importlib.metadata import PackageNotFoundError, version

    wrong = []
    for name, locked in LOCK.items():
        try:
            installed = Version(version(name))
        except PackageNotFoundError:
            wrong.append(f"{name} is not installed")
            continue
        if Version(installed.public) != Version(locked):
            wrong.append(f"{name} {installed} instead of {locked}")
    assert not wrong


def test_conda_environment_gives_the_same():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    conda = [item for item in environment["dependencies"] if isinstance(item, str)]
    (pip,) = (item["pip"] for item in environment["dependencies"] if isinstance(item, dict))
    assert conda == [f"python={PYTHON}", "pip"]  # every package comes through pip
    assert SpecifierSet(PROJECT["requires-python"]).contains(PYTHON)
    assert pip == ["-c requirements.lock", f"-e .[{','.join(EXTRAS)}]"]


def test_makefile_asks_for_the_same_python():
    least = re.fullmatch(r">=(\d+)\.(\d+)", PROJECT["requires-python"])
    assert f"sys.version_info < ({least[1]}, {least[2]})" in (ROOT / "Makefile").read_text(encoding="utf-8")
    assert SpecifierSet(PROJECT["requires-python"]).contains(".".join(map(str, sys.version_info[:3])))


# --- Binder and the workflows ---------------------------------------------------------------------------------------
def test_binder_opens_markdown_as_notebooks(tmp_path):
    """What postBuild runs makes JupyterLab's viewer for Markdown the notebook, by Jupytext's server extension."""
    script = ROOT / "postBuild"
    assert os.access(script, os.X_OK)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    home = os.environ | {"JUPYTER_CONFIG_DIR": str(tmp_path), "PATH": path}
    subprocess.run([str(script)], env=home, check=True)
    settings = json.loads(
        (tmp_path / "labconfig" / "default_setting_overrides.json").read_text(encoding="utf-8")
    )
    viewers = settings["@jupyterlab/docmanager-extension:plugin"]["defaultViewers"]
    assert viewers["markdown"] == viewers["myst"] == "Jupytext Notebook"
    enabled = Path(sys.prefix, "etc", "jupyter", "jupyter_server_config.d", "jupytext.json")
    extensions = json.loads(enabled.read_text(encoding="utf-8"))["ServerApp"]["jpserver_extensions"]
    assert extensions == {"jupyterlab_jupytext": True}
    # Were there such a folder, Binder would read that instead.
    assert not [name for name in ("binder", ".binder") if (ROOT / name).exists()]


def steps(workflow: str) -> list[dict]:
    return [step for job in WORKFLOWS[workflow]["jobs"].values() for step in job["steps"]]


def test_the_tests_run_on_each_push_and_pull_request():
    test = WORKFLOWS["test"]
    assert set(test[True]) == {"push", "pull_request"}  # YAML reads the key `on` as true
    (run,) = (step["run"] for step in steps("test") if "git config" not in step.get("run", "git config"))
    assert run == ".ci/run" and os.access(ROOT / run, os.X_OK)
    script = (ROOT / run).read_text(encoding="utf-8")
    assert (
        re.search(r"^make test\b", script, re.MULTILINE)
        and "chromium" in script
        and "REQUIRE_BROWSER=1" in script
    )
    assert test["jobs"]["test"]["container"].startswith(f"python:{PYTHON}-")  # Debian, as .ci/run wants it


def test_the_published_book_is_that_of_the_papers_model_and_text():
    from attention_limits.sources.registry import PAPER_CHOICE

    (build,) = (step for step in steps("publish") if step.get("run", "").startswith("make book"))
    given = dict(word.split("=") for word in build["run"].split()[2:])
    assert given == {"MODEL": PAPER_CHOICE["model"], "TEXT": PAPER_CHOICE["text"], "DEVICE": "cpu"}
    assert set(build["env"]) == {"ATTENTION_LIMITS_SITE", "ATTENTION_LIMITS_REPOSITORY"}
    (artifact,) = (step for step in steps("publish") if "upload-pages-artifact" in step.get("uses", ""))
    assert artifact["with"]["path"] == "_build/html"
    # Only the job that runs nothing of ours may publish.
    rights = {name: job["permissions"] for name, job in WORKFLOWS["publish"]["jobs"].items()}
    assert rights["build"] == {"contents": "read", "pages": "read"}
    assert rights["deploy"] == {"pages": "write", "id-token": "write"}
    (python,) = (
        step["with"]["python-version"] for step in steps("publish") if "setup-python" in step.get("uses", "")
    )
    assert python == PYTHON


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_a_workflow_runs_what_there_is(workflow):
    """Actions by their major version; make's targets and variables, and environment variables that the code reads."""
    folders = (ROOT / name for name in ("lib", "tests"))
    code = "".join(path.read_text(encoding="utf-8") for folder in folders for path in folder.rglob("*.py"))
    for step in steps(workflow):
        assert ("uses" in step) != ("run" in step)
        # GitHub's own, whose major versions only GitHub moves.
        assert re.fullmatch(r"actions/[a-z-]+@v\d+", step.get("uses", "actions/none@v1"))
        if "checkout" in step.get("uses", ""):
            assert step["with"] == {"persist-credentials": False}
        for target, settings in re.findall(r"^make (\w+)(.*)$", step.get("run", ""), re.MULTILINE):
            assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE), target
            for word in settings.split():
                assert re.search(rf"^{word.partition('=')[0]} \?=", MAKEFILE, re.MULTILINE), word
        for name in step.get("env", {}):
            assert name in code, f"{name} is read by nothing"
        for pattern in re.findall(r"hashFiles\(([^)]*)\)", str(step)):
            assert all((ROOT / name.strip(" '")).is_file() for name in pattern.split(","))
    assert set(WORKFLOWS) == {"audit", "publish", "test"}
    assert WORKFLOWS[workflow]["permissions"] == {"contents": "read"}


def test_the_version_is_one():
    """pyproject.toml, CITATION.cff and the newest entry of CHANGELOG.md, whose date is the citation's."""
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    entries = re.findall(r"^## \[(\S+)\](?: - (\d{4}-\d\d-\d\d))?$", changes, re.MULTILINE)
    released = [(version, date) for version, date in entries if version != "Unreleased"]
    assert released[0] == (PROJECT["version"], str(cited["date-released"]))
    assert cited["version"] == PROJECT["version"]
    assert [Version(version) for version, _ in released] == sorted(
        (Version(v) for v, _ in released), reverse=True
    )
    kinds = set(re.findall(r"^### (.*)$", changes, re.MULTILINE))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_makefile_hands_over_a_name_as_it_is(tmp_path):
    """What make itself or the shell would make of these characters must not happen."""
    name = "a $x_1$ $(shell touch made) `touch made` {b} 'q' \"r\" # &.txt"
    show = "show: ; @printf '%s\\n' \"$$ATTENTION_LIMITS_TEXT\""
    command = [
        "make",
        "-C",
        str(tmp_path),
        "-f",
        str(ROOT / "Makefile"),
        "--no-print-directory",
        "--eval",
        show,
    ]
    said = subprocess.run(
        [*command, "show", f"TEXT={name}"], capture_output=True, text=True, check=True
    ).stdout
    assert said == f"{name}\n"
    assert not list(tmp_path.iterdir())


PRETENDED = """#!/bin/sh
# Installs slowly, one package after the other; what is no installation is Python's own.
case "$*" in
  "-m venv "*) mkdir -p "$3/bin" "$3/lib"; cp "$0" "$3/bin/python";;
  *"pip install"*"-r "*) for i in 1 2 3; do sleep 0.4; echo made >> .venv/lib/package$i || exit 1; done;;
  *"pip install"*) ;;
  *snakemake*) cat .venv/lib/package1 .venv/lib/package2 .venv/lib/package3;;
  *) exec PYTHON "$@";;
esac
"""


@pytest.mark.bad_day("two first commands at once in one clone")
def test_two_first_commands_at_once_install_once(tmp_path):
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, tmp_path)
    python = tmp_path / "pretended"
    python.write_text(PRETENDED.replace("PYTHON", shlex.quote(sys.executable)), encoding="utf-8")
    python.chmod(0o755)
    plain = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL")}
    command = ["make", "-C", str(tmp_path), f"PYTHON={python}", "book"]
    running = []
    for _ in range(2):
        running.append(
            subprocess.Popen(command, env=plain, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        )
        time.sleep(0.7)  # in the middle of the first one's installation
    for process in running:
        said, _ = process.communicate(timeout=60)
        assert process.returncode == 0 and said.count("made\n") == 3, said
    assert (tmp_path / ".venv" / "lib" / "package3").read_text() == "made\n"


def imported(path: Path) -> set[str]:
    """Top-level names of what a Python file, or the code cells of a notebook, import absolutely."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        source = "\n".join(re.findall(r"^```\{code-cell\}.*?\n(.*?)^```", source, re.DOTALL | re.MULTILINE))
        source = re.sub(r"^(:|%).*$", "", source, flags=re.MULTILINE)
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add(node.module.split(".")[0])
    return names


def test_every_import_is_declared():
    declared = {canonicalize_name(requirement.name) for requirement in DECLARED} | {"attention-limits"}
    providers = packages_distributions()
    own = {path.stem for path in (ROOT / "tests").rglob("*.py")}
    files = [*(ROOT / "lib").rglob("*.py"), *(ROOT / "tests").rglob("*.py"), ROOT / "Snakefile"]
    files += [path for folder in ("notebooks", "book") for path in (ROOT / folder).glob("*.md")]
    wrong = set()
    for path in files:
        # The Snakefile is Python with rules: its import lines are at its top.
        names = (
            set(re.findall(r"^(?:import|from) (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE))
            if path.name == "Snakefile"
            else imported(path)
        )
        for name in names - set(sys.stdlib_module_names) - own:
            if not {canonicalize_name(provider) for provider in providers.get(name, [])} & declared:
                wrong.add(f"{path.relative_to(ROOT)}: {name}")
    assert not wrong


def test_no_file_names_a_machine_or_a_registry():
    # Put together here so that this file does not name them itself.
    folders = ["/" + name + "/" for name in ("work", "opt", "root")]
    hosts = [
        "pypi" + ".org",
        "python" + "hosted",
        "registry.npm" + "js",
        "deb.debian" + ".org",
        "index" + "-url =",
    ]
    found = []
    for path in own_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{path.relative_to(ROOT)}: {word}" for word in folders + hosts if word in text]
    assert not found
