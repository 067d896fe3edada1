# Decides what has to run: sources -> one job per notebook -> provenance page -> book. Everything is made under `out`.
#
#   snakemake --cores 2 --config model=gpt2 text=war-and-peace device=cpu seed=1 lengths=[32,64]
#
# Any parameter that a notebook declares can be given through --config; only the notebooks that declare it run again.
# With `name=label` everything is made under `out/label`, and a page compares it with the book in `out`, the reference.
import atexit
import json
import logging
import os
import shlex
import shutil
import signal
import sys
from pathlib import Path

import yaml
from filelock import FileLock, Timeout

from attention_limits import execute, sources
from attention_limits.atomic import WriteError, write_text
from attention_limits.parameters import ParameterError, check, nearest
from attention_limits.rerun import label
from snakemake.logging import logger

OWN = {"out", "threads", "name"}
# Snakemake leaves the parts of a list as text: lengths=[32,64] is meant as numbers.
config = {
    key: [yaml.safe_load(part) if isinstance(part, str) else part for part in value] if isinstance(value, list) else value
    for key, value in config.items()
    if value is not None
}
if config.get("text") == [None]:
    config["text"] = sources.STANDARD_INPUT  # which Snakemake took for an empty list
for name in ("model", "text", "device"):  # `make` hands these over in the environment, safe from any quoting
    config.setdefault(name, os.environ.get(f"ATTENTION_LIMITS_{name.upper()}") or "auto")
config.setdefault("out", os.environ.get("ATTENTION_LIMITS_OUT") or "_build")
REFERENCE = OUT = str(config["out"])
LABEL = config.get("name", os.environ.get("ATTENTION_LIMITS_NAME"))
if LABEL is not None:
    try:
        OUT = str(Path(REFERENCE, label.checked(LABEL)))
    except label.LabelError as error:
        sys.exit(str(error))
PYTHON = shlex.quote(sys.executable)


# --- one run at a time, and its last words --------------------------------------------------------------------------
for handler in logger.handlers:
    if type(handler).__name__ == "ColorizingTextHandler":
        # In the terminal the jobs speak for themselves; Snakemake's own steps and command lines are in its log file. A
        # dry run has only these; that it is one is not known yet while this file is read.
        handler.addFilter(
            lambda said: workflow.dryrun
            or (said.levelno >= logging.WARNING and "CalledProcessError" not in said.getMessage())
        )
MAIN = not workflow.remote_exec  # a job of a cluster reads this file again
run_lock = FileLock(Path(OUT, ".lock"))
interrupted = False


def interrupt(*details):
    """Remember Ctrl-C, which Snakemake takes for a failed job, and go on as Python does."""
    global interrupted
    interrupted = True
    signal.default_int_handler(*details)


@atexit.register
def last_words():
    """Repeat the end of what each failed job said, after everything that Snakemake says."""
    if interrupted:
        print("\nInterrupted. The same command goes on from what is missing.", file=sys.stderr, flush=True)
        os._exit(130)  # as every command that Ctrl-C ends; Snakemake would say 1
    for report in sorted(Path(OUT, "failed").glob("*.txt")) if run_lock.is_locked else ():
        lines = report.read_text(encoding="utf-8", errors="replace").rstrip().splitlines()
        print(f"\n--- {report.stem} failed " + "-" * 60, *lines[-25:], sep="\n", file=sys.stderr)


try:
    Path(OUT, "failed").mkdir(parents=True, exist_ok=True)
    if MAIN:
        signal.signal(signal.SIGINT, interrupt)
        try:
            run_lock.acquire(timeout=0)
        except Timeout:
            print(f"Another run is at work in {OUT}; waiting for it to end.", file=sys.stderr)
            run_lock.acquire()
        for old in Path(OUT, "failed").glob("*.txt"):
            old.unlink()
except OSError as error:
    sys.exit(f"The build folder {OUT!r} cannot be written ({error.strerror or error}). Unlock it, or choose another: OUT=...")


onstart:  # only where something has to be done: pages of an older run must not look like those of this one
    if MAIN and Path(OUT, "html").exists():
        print(f"The older pages in {OUT}/html no longer fit and are removed; this run makes new ones.", file=sys.stderr)
        shutil.rmtree(Path(OUT, "html"), ignore_errors=True)


# --- what there is to execute, and with which parameters ------------------------------------------------------------
NOTEBOOKS = {path.stem: path for path in sorted(Path("notebooks").glob("*.md")) if execute.is_notebook(path)}
NOTEBOOKS |= {path.stem: path for path in sorted(Path("book").glob("*.md")) if execute.is_notebook(path)}
if LABEL is not None:
    NOTEBOOKS["comparison"] = Path("notebooks/rerun/comparison.md")
try:
    DECLARED = {name: execute.declared(execute.read(path)) for name, path in NOTEBOOKS.items()}
except execute.ExecutionError as error:
    sys.exit(str(error))
READERS = [name for name in NOTEBOOKS if "records" in DECLARED[name]]  # pages that need all other notebooks' records
CHAPTERS = [name for name in NOTEBOOKS if name not in READERS]
RECORDS = [f"{OUT}/records/{name}.json" for name in CHAPTERS if "record" in DECLARED[name]]

for name in CHAPTERS:
    if "record" not in DECLARED[name]:
        sys.exit(f"{NOTEBOOKS[name]}: its cell tagged `parameters` lacks `record`, the path its results are written to.")
parameter_names = set().union(*DECLARED.values(), {"model", "text", "device", "seed"})
for name in config.keys() - OWN - parameter_names:
    sys.exit(f"--config {name}: no notebook has this parameter.{nearest(name, parameter_names | OWN)}")


def decided():
    """The model and text that `auto` stands for, settled once per run and read back by a cluster's jobs."""
    memory = Path(OUT, "decided.json")
    if not MAIN:
        return json.loads(memory.read_text(encoding="utf-8"))
    try:
        check("The book", {name: str(config[name]) for name in ("model", "text", "device")})
        check("The book", {name: config[name] for name in ("threads",) if name in config})
        answer = {kind: sources.decide(kind, str(config[kind])) for kind in ("model", "text")}
        if config["text"] == sources.STANDARD_INPUT:
            answer["text"] = sources.keep_standard_input(Path(OUT)), ""
        write_text(memory, json.dumps(answer))
    except (ParameterError, sources.SourceError, WriteError) as error:
        sys.exit(str(error))
    for _, notice in answer.values():
        if notice:
            print(f"Note: {notice}", file=sys.stderr)
    return answer


DECIDED = decided()
CHOSEN = {key: value for key, value in config.items() if key not in OWN}
CHOSEN |= {kind: DECIDED[kind][0] for kind in ("model", "text")}
try:
    for name in NOTEBOOKS if MAIN else ():
        check(name, DECLARED[name], {key: value for key, value in CHOSEN.items() if key in DECLARED[name]})
except ParameterError as error:
    sys.exit(str(error))


def file_states(paths):
    """What tells that a file changed: its name, size and time. One that is gone says so itself."""
    found = ((path.name, path.stat()) for path in paths if path.is_file())
    return [f"{name} {state.st_size} {state.st_mtime_ns}" for name, state in found]


def model_state():
    """The files of a model folder; none for a named model."""
    folder = Path(DECIDED["model"][0]).expanduser()
    return file_states(sorted(folder.iterdir()) if folder.is_dir() else [])


# Parameters and not inputs of the rules, since Snakemake reads braces in the name of an input as its wildcards.
try:
    OWN_FILES = {"model": model_state(), "text": sources.text_state(DECIDED["text"][0])}
except (sources.SourceError, RuntimeError) as error:  # RuntimeError: "~somebody" means nothing here
    sys.exit(str(error))


def own_sources(name):
    """The kinds of source, of model and text, that a notebook reads."""
    return [kind for kind in ("model", "text") if kind in DECLARED[name]]


def parameters(name):
    """The command line's parameter list for one notebook: what is configured and what the notebook declares."""
    chosen = CHOSEN | {"record": f"{OUT}/records/{name}.json", "records": f"{OUT}/records", "executed": f"{OUT}/executed"}
    chosen.setdefault("reference", REFERENCE)
    return [f"{key}={json.dumps(value)}" for key, value in sorted(chosen.items()) if key in DECLARED[name]]


def reference_state(name):
    """The reference's files that a notebook reads; only the comparison does."""
    folder = Path(config.get("reference", REFERENCE))
    reads = "reference" in DECLARED[name]
    return file_states([*sorted(folder.glob("records/*.json")), folder / "sources.json"] if reads else [])


# A job's words go to the terminal and to a file that is removed when the job succeeds: see last_words.
# -i: what Ctrl-C ends has its last words heard. -f: a job that outlived a killed run may have removed it.
SAY = "2>&1 | tee -i {params.report:q} && rm -f {params.report:q}"
# Only what notebooks compute with: a change in the engine or the book's looks executes nothing again.
LIBRARY = sorted(
    str(path)
    for path in Path(execute.__file__).parent.rglob("*.py")
    if path.parent.name != "parameters"
    and path.stem
    not in ("execute", "provenance", "publish", "pages", "api", "statements", "citation", "launch", "book", "markup")
)
CHAPTER_LIBRARY = [path for path in LIBRARY if Path(path).parent.name not in ("scorecard", "rerun")]  # chapters keep no score
BOOK_LIBRARY = sorted(
    str(path) for path in Path(execute.__file__).parent.rglob("*") if path.suffix in (".py", ".css", ".js", ".json")
)
# Two notebooks at a time, each on half of the cores: small matrices use few threads well, and the memory needed is
# that of two models whatever the number of cores. `--config threads=N` gives each notebook N.
THREADS = int(config.get("threads", max(1, (workflow.cores or 2) // 2)))
os.environ["PYTHONUNBUFFERED"] = "1"
for variable in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
    os.environ.setdefault(variable, str(Path(OUT, "home", variable.lower()).absolute()))  # nothing in the user's home
    Path(os.environ[variable]).mkdir(parents=True, exist_ok=True)


wildcard_constraints:
    name="|".join(map(str, NOTEBOOKS)) or "none",


rule book:
    input:
        config="_config.yml",
        pages=[str(path) for path in sorted(Path("book").rglob("*")) if path.is_file()],
        own=[name for name in ("CITATION.cff", "CONTRIBUTING.md", "CHANGELOG.md") if Path(name).is_file()],
        executed=expand("{out}/executed/{name}.ipynb", out=OUT, name=NOTEBOOKS),
        sources=f"{OUT}/sources.json",
        provenance=f"{OUT}/provenance.md",
        looks=BOOK_LIBRARY,
    output:
        f"{OUT}/html/index.html",
    params:
        out=OUT,
        report=f"{OUT}/failed/book.txt",
        # Where the book will lie and where its notebooks can be had, if anywhere: see .github/workflows/publish.yml.
        places=[os.environ.get(f"ATTENTION_LIMITS_{name}", "") for name in ("SITE", "REPOSITORY")],
    shell:
        f"{PYTHON} -m attention_limits.publish {{params.out:q}} {SAY}"


rule sources:
    output:
        f"{OUT}/sources.json",
    params:  # functions, since a plain string may hold no braces either
        own=lambda wildcards: OWN_FILES["model"] + OWN_FILES["text"],
        model=lambda wildcards: DECIDED["model"][0],
        text=lambda wildcards: DECIDED["text"][0],
        asked=lambda wildcards: [f"--device={config['device']}"]
        + [
            f"--{option}={value}"
            for kind in ("model", "text")
            for option, value in ((f"requested-{kind}", config[kind]), (f"{kind}-notice", DECIDED[kind][1]))
        ],
        report=f"{OUT}/failed/sources.txt",
    shell:
        f"{PYTHON} -m attention_limits.sources --model {{params.model:q}} --text {{params.text:q}}"
        f" {{params.asked:q}} --output {{output:q}} {SAY}"


EXECUTE = (
    "export OMP_NUM_THREADS={threads} MKL_NUM_THREADS={threads} NUMBA_NUM_THREADS={threads}; "
    f"{PYTHON} -m attention_limits.execute {{input.notebook:q}} {{output.executed:q}}"
    f" --parameters {{params.values:q}} {SAY}"
)


rule chapter:
    input:
        notebook=lambda wildcards: str(NOTEBOOKS[wildcards.name]),
        # Sources come first, so that a name that cannot be had fails at once; who reads none does not run again for them.
        sources=lambda wildcards: (str if own_sources(wildcards.name) else ancient)(f"{OUT}/sources.json"),
        library=CHAPTER_LIBRARY,
    output:
        executed=f"{OUT}/executed/{{name}}.ipynb",
        record=f"{OUT}/records/{{name}}.json",
    wildcard_constraints:
        name="|".join(CHAPTERS) or "none",
    params:
        own=lambda wildcards: [OWN_FILES[kind] for kind in own_sources(wildcards.name)],
        values=lambda wildcards: parameters(wildcards.name),
        report=f"{OUT}/failed/{{name}}.txt",
    threads:
        lambda wildcards: workflow.cores if wildcards.name == "cost" else THREADS  # times are measured: nothing beside it
    # The longest first, so that no long one is left running alone at the end; what takes every core before them.
    priority:
        lambda wildcards, input, attempt: {"cost": 9, "algorithm-3": 3, "algorithm-2": 2, "algorithm-4": 1}.get(wildcards.name, 0)
    shell:
        EXECUTE


rule page:  # the landing page, the scorecard and a rerun's comparison, which read what the chapters found
    input:
        RECORDS,
        notebook=lambda wildcards: str(NOTEBOOKS[wildcards.name]),
        library=LIBRARY,
    output:
        executed=f"{OUT}/executed/{{name}}.ipynb",
    wildcard_constraints:
        name="|".join(READERS) or "none",
    params:
        reference=lambda wildcards: reference_state(wildcards.name),
        values=lambda wildcards: parameters(wildcards.name),
        report=f"{OUT}/failed/{{name}}.txt",
    threads: THREADS
    shell:
        EXECUTE


rule provenance:
    input:
        sources=f"{OUT}/sources.json",
        executed=expand("{out}/executed/{name}.ipynb", out=OUT, name=NOTEBOOKS),
    output:
        f"{OUT}/provenance.md",
    params:
        report=f"{OUT}/failed/provenance.txt",
    shell:
        f"{PYTHON} -m attention_limits.provenance {{input.sources:q}} {{input.executed:q}} --output {{output:q}} {SAY}"
