# Decides what has to run: sources -> one job per notebook -> provenance page -> book. Everything is made under `out`.
#
#   snakemake --cores 2 --config model=gpt2 text=war-and-peace device=cpu seed=1 lengths=[32,64]
#
# Any parameter that a notebook declares can be given through --config; only the notebooks that declare it run again.
# With `name=label` everything is made under `out/label`, and a page compares it with the book in `out`, the reference.
#
#   snakemake sweep --cores 2 --keep-going --config sweep=table.csv chapters=[algorithm-1,health]
#
# runs these chapters for each row of a table, under `out`/sweep; see lib/attention_limits/sweep.
import atexit
import base64
import dataclasses
import functools
import hashlib
import json
import logging
import os
import shlex
import shutil
import signal
import sys
import zlib
from pathlib import Path

from filelock import FileLock, Timeout

from attention_limits import execute, sources, sweep
from attention_limits.atomic import WriteError
from attention_limits.parameters import ParameterError, check, nearest, tokens
from attention_limits.rerun import label
from snakemake.logging import logger

OWN = {"out", "threads", "name", "sweep", "chapters"}
MAIN = not workflow.remote_exec  # a job of a cluster reads this file again, and takes over what this process settled
SETTLED = "ATTENTION_LIMITS_SETTLED"
CORES = workflow.resource_settings.cores  # None on a cluster, where the number of jobs is limited instead
# Snakemake leaves the parts of a list as text: lengths=[32,64] is meant as numbers.
config = {
    key: [sweep.from_yaml(part) if isinstance(part, str) else part for part in value] if isinstance(value, list) else value
    for key, value in config.items()
    if value is not None
}
ASKED = set(config)
if config.get("text") == [None]:
    config["text"] = sources.STANDARD_INPUT  # which Snakemake took for an empty list
if MAIN:
    # `make` hands these over in the environment, safe from any quoting.
    for name, default in {"model": "auto", "text": "auto", "device": "auto", "out": "_build", "sweep": ""}.items():
        config.setdefault(name, os.environ.get(f"ATTENTION_LIMITS_{name.upper()}") or default)
    config.setdefault("name", os.environ.get("ATTENTION_LIMITS_NAME"))
else:
    settled = json.loads(zlib.decompress(base64.b64decode(os.environ[SETTLED])))
    config = settled["config"]
if "sweep" in sys.argv[1:] and not config["sweep"]:
    sys.exit("A sweep needs a table: make sweep TABLE=table.csv, or --config sweep=table.csv; see the README.")
GIVEN = {key: value for key, value in config.items() if key not in OWN}  # parameters of notebooks
REFERENCE = OUT = str(config["out"])
LABEL = config["name"]
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
        for old in Path(OUT, "failed").rglob("*.txt"):
            old.unlink()
except OSError as error:
    sys.exit(f"The build folder {OUT!r} cannot be written ({error.strerror or error}). Unlock it, or choose another: OUT=...")


# --- what there is to execute, and with which parameters ------------------------------------------------------------
NOTEBOOKS = {path.stem: path for path in sorted(Path("notebooks").glob("*.md")) if execute.is_notebook(path)}
NOTEBOOKS |= {path.stem: path for path in sorted(Path("book").glob("*.md")) if execute.is_notebook(path)}
if LABEL is not None:
    NOTEBOOKS["comparison"] = Path("notebooks/rerun/comparison.md")
try:
    DECLARED = {name: execute.declared(execute.read(path)) for name, path in NOTEBOOKS.items()}
except execute.ExecutionError as error:
    sys.exit(str(error))
RESULTS = f"{OUT}/sweep/results.csv"
TABLED = [name for name in NOTEBOOKS if "table" in DECLARED[name]]  # the page of a sweep, where there is a sweep
swept_before = Path(RESULTS).exists() and Path(RESULTS).read_bytes().count(b"\n") > 1  # more than a header
for name in () if swept_before else TABLED:
    del NOTEBOOKS[name]
# A chapter that the project no longer has is neither shown nor counted.
for path in (*Path(OUT, "executed").glob("[!.]*.ipynb"), *Path(OUT, "records").glob("*.json")) if MAIN else ():
    if path.stem not in NOTEBOOKS and not path.name.endswith(".partial.ipynb"):
        path.unlink()
READERS = [name for name in NOTEBOOKS if "records" in DECLARED[name]]  # pages that need all other notebooks' records
CHAPTERS = [name for name in NOTEBOOKS if name not in [*READERS, *TABLED]]
RECORDS = [f"{OUT}/records/{name}.json" for name in CHAPTERS if "record" in DECLARED[name]]

for name in CHAPTERS:
    if "record" not in DECLARED[name]:
        sys.exit(f"{NOTEBOOKS[name]}: its cell tagged `parameters` lacks `record`, the path its results are written to.")
parameter_names = set().union(*DECLARED.values(), {"model", "text", "device", "seed"})
for word in sys.argv[1:] if MAIN else ():  # Snakemake takes a setting without --config for a file to make
    name, equals, _ = word.partition("=")
    if equals and name in parameter_names | OWN and name not in ASKED:
        sys.exit(f"{word}: settings come after --config, as in ARGS='--config {word}'.")
for name in config.keys() - OWN - parameter_names:
    sys.exit(f"--config {name}: no notebook has this parameter.{nearest(name, parameter_names | OWN)}")


def swept():
    """The chapters and the cells of the sweep, both checked; none where no table is given."""
    if not config["sweep"]:
        return [], {}
    chosen = config.get("chapters", sweep.CHAPTERS)
    chosen = [chosen] if isinstance(chosen, str) else list(chosen)
    able = [name for name in CHAPTERS if {"length", "lengths"} & DECLARED[name].keys()]
    for name in chosen:
        if name not in able:
            sys.exit(f"--config chapters: {name} is no chapter that a sweep can run. These are: {', '.join(able)}.")
    try:
        return chosen, sweep.read(config["sweep"], {name: DECLARED[name] for name in chosen})
    except sweep.SweepError as error:
        sys.exit(str(error))


def decided():
    """The model and text that each name asked for stands for, `auto` among them, with a notice where they differ."""
    answer = {}
    try:
        check("The book", {name: str(config[name]) for name in ("model", "text", "device")})
        check("The book", {name: config[name] for name in ("threads",) if name in config})
        for kind in ("model", "text"):
            asked = {getattr(cell, kind) for cell in CELLS.values()} or {str(config[kind])}
            answer[kind] = {name: sources.decide(kind, name) for name in sorted(asked)}
        if sources.STANDARD_INPUT in answer["text"]:
            answer["text"][sources.STANDARD_INPUT] = sources.keep_standard_input(Path(OUT)), ""
    except (ParameterError, sources.SourceError, WriteError) as error:
        sys.exit(str(error))
    for notice in [notice for kind in answer.values() for _, notice in kind.values() if notice]:
        print(f"Note: {notice}", file=sys.stderr)
    return answer


if MAIN:
    SWEPT, CELLS = swept()
    # An empty field of the table, like `auto` in it, leaves the choice to the run.
    CELLS = {
        label: dataclasses.replace(
            cell, **{kind: str(config[kind]) for kind in ("model", "text") if getattr(cell, kind) == "auto"}
        )
        for label, cell in CELLS.items()
    }
    DECIDED = decided()
    # Two notebooks at a time, each on half of the cores: small matrices use few threads well, and the memory needed is
    # that of two models whatever the number of cores. `--config threads=N` gives each notebook N.
    THREADS = int(config.get("threads", max(1, (CORES or 8) // 2)))
    settled = {"config": config, "decided": DECIDED, "threads": THREADS, "swept": SWEPT}
    settled["cells"] = [dataclasses.astuple(cell) for cell in CELLS.values()]
    # Packed, since a table may be long and the room in the environment is not.
    os.environ[SETTLED] = base64.b64encode(zlib.compress(json.dumps(settled).encode())).decode()
else:
    DECIDED, THREADS, SWEPT = settled["decided"], settled["threads"], settled["swept"]
    CELLS = {cell[0]: sweep.Cell(*cell) for cell in settled["cells"]}
if CELLS:
    Path(OUT, "failed", "sweep").mkdir(exist_ok=True)


envvars:
    SETTLED,


def explicit(kind, label=None):
    """The model or text that a chapter reads, the run's or that of a cell of the sweep: its name, and a notice."""
    asked = getattr(CELLS[label], kind) if label else str(config[kind])
    if asked not in DECIDED[kind]:  # the book itself, asked for together with a sweep
        DECIDED[kind][asked] = sources.decide(kind, asked)
    return DECIDED[kind][asked]


def needed(name, values):
    """How many tokens of the text a chapter with these values reads at least; none without a text."""
    return tokens(DECLARED[name] | values) if "text" in DECLARED[name] else 0


def check_size(chapter, text, least):
    """Raise ParameterError for a text by path that is surely too short for the chapter, or none."""
    try:
        sources.check_size(text, least)
    except sources.SourceError as error:
        raise ParameterError(f"{chapter}: {error}") from None


def check_parameters():
    """Every value of every chapter that this run executes, before anything starts: those of the book, or of its cells."""
    need = {}
    for name in () if CELLS else NOTEBOOKS:
        chosen = GIVEN | {kind: explicit(kind)[0] for kind in ("model", "text")}
        chosen = {key: value for key, value in chosen.items() if key in DECLARED[name]}
        check(name, DECLARED[name], chosen)
        need[name] = needed(name, chosen)
    if need:
        most = max(need, key=need.get)
        check_size(most, explicit("text")[0], need[most])
    for label in CELLS:
        for name in SWEPT:
            chosen = {kind: explicit(kind, label)[0] for kind in own_sources(name)}
            values = cell_settings(name, label) | chosen
            try:
                check(name, DECLARED[name], values)
                check_size(name, explicit("text", label)[0], needed(name, values))
            except ParameterError as error:
                raise ParameterError(f"{config['sweep']}: the row {label}: {error}") from None


def file_states(paths):
    """What tells that a file changed: its name, size and time. One that is gone says so itself."""
    found = ((path.name, path.stat()) for path in paths if path.is_file())
    return [f"{name} {state.st_size} {state.st_mtime_ns}" for name, state in found]


@functools.cache
def state(kind, name):
    """The states of the files of a model folder, or of a text given by path; none for named ones."""
    if kind == "text":
        return sources.text_state(name)
    return file_states(sorted(sources.base.expanded(name).iterdir()) if sources.base.is_folder(name) else [])


# Parameters and not inputs of the rules, since Snakemake reads braces in the name of an input as its wildcards.
try:
    for kind, names in DECIDED.items():
        for name, _ in names.values():
            state(kind, name)
except sources.SourceError as error:
    sys.exit(str(error))


def own_files(kind, label=None):
    """What tells a change in the files of the model or text of the run, or of a cell of the sweep."""
    return state(kind, explicit(kind, label)[0])


def own_sources(name):
    """The kinds of source, of model and text, that a notebook reads."""
    return [kind for kind in ("model", "text") if kind in DECLARED[name]]


def cell_settings(name, label):
    """What a chapter of the sweep is given for a cell, but model, text and files."""
    return sweep.settings(DECLARED[name], CELLS[label], GIVEN)


try:
    if MAIN:
        check_parameters()
except ParameterError as error:
    sys.exit(str(error))


def parameters(name, label=None):
    """The command line's parameter list for one notebook: what is configured and what the notebook declares."""
    chosen = cell_settings(name, label) if label else GIVEN
    chosen = chosen | {kind: explicit(kind, label)[0] for kind in ("model", "text")}
    chosen |= {"records": f"{OUT}/records", "executed": f"{OUT}/executed", "table": RESULTS}
    chosen.setdefault("reference", REFERENCE)
    return [f"{key}={json.dumps(value)}" for key, value in sorted(chosen.items()) if key in DECLARED[name]]


def record(wildcards, output):
    """The parameter that says where to write the results; apart, since Snakemake forgets those that depend on outputs."""
    return f"record={json.dumps(str(output.record))}"


def asked_sources(label=None):
    """The options that tell `attention_limits.sources` what was asked for, and why it got something else."""
    options = [f"--device={config['device']}"]
    for kind in ("model", "text"):
        asked = getattr(CELLS[label], kind) if label else str(config[kind])
        options += [f"--requested-{kind}={asked}", f"--{kind}-notice={explicit(kind, label)[1]}"]
    return options


if MAIN and "reference" in config and not Path(config["reference"]).is_dir():
    sys.exit(f"--config reference={config['reference']}: there is no such folder. Name the build folder of another book.")


def reference_state(name):
    """The reference's files that a notebook reads; only the comparison does."""
    folder = Path(config.get("reference", REFERENCE))
    reads = "reference" in DECLARED[name]
    return file_states([*sorted(folder.glob("records/*.json")), folder / "sources.json"] if reads else [])


# A job's words go to the terminal and to a file that is removed when the job succeeds: see last_words.
# -i: what Ctrl-C ends has its last words heard. -f: a job that outlived a killed run may have removed it.
SAY = "2>&1 | tee -i {params.report:q} && rm -f {params.report:q}"
# Only what notebooks compute with: a change in the engine or the book's looks executes nothing again.
PACKAGE = Path(execute.__file__).parent


def library(suffixes, *without):
    """The library's files with these suffixes, but its modules and packages ``without``."""
    paths = (path for path in PACKAGE.rglob("*") if path.suffix in suffixes)
    return sorted(str(path) for path in paths if Path(path.relative_to(PACKAGE).parts[0]).stem not in without)


OF_THE_BOOK = ["api", "book", "citation", "execute", "heartbeat", "launch", "pages", "parameters", "provenance", "publish"]
OF_THE_BOOK += ["statements"]
LIBRARY = library({".py"}, *OF_THE_BOOK)
# Chapters keep no score, and know nothing of other runs.
CHAPTER_LIBRARY = library({".py"}, *OF_THE_BOOK, "scorecard", "rerun", "sweep")
BOOK_LIBRARY = library({".py", ".css", ".js", ".json"})
os.environ["PYTHONUNBUFFERED"] = "1"
for variable in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
    os.environ.setdefault(variable, str(Path(OUT, "home", variable.lower()).absolute()))  # nothing in the user's home
    Path(os.environ[variable]).mkdir(parents=True, exist_ok=True)


wildcard_constraints:
    name="|".join(map(str, NOTEBOOKS)) or "none",
    label="|".join(CELLS) or "none",


localrules:  # what needs the network runs where Snakemake does: the nodes of a cluster may have none
    sources,
    cell_sources,


onstart:  # only where something has to be done
    if not workflow.local_exec and " " in sys.executable:
        sys.exit(f"Snakemake cannot start Python on a cluster from a path with a space: {sys.executable}. Move the project.")
    if not workflow.local_exec:
        os.environ["ATTENTION_LIMITS_ELSEWHERE"] = "yes"  # this machine need not have the device that was asked for
    if MAIN and not CELLS and Path(OUT, "html").exists():  # pages of an older run must not look like those of this one
        print(f"The older pages in {OUT}/html no longer fit and are removed; this run makes new ones.", file=sys.stderr)
        shutil.rmtree(Path(OUT, "html"), ignore_errors=True)


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
        own=lambda wildcards: own_files("model") + own_files("text"),
        model=lambda wildcards: explicit("model")[0],
        text=lambda wildcards: explicit("text")[0],
        asked=lambda wildcards: asked_sources(),
        report=f"{OUT}/failed/sources.txt",
    shell:
        f"{PYTHON} -m attention_limits.sources --model {{params.model:q}} --text {{params.text:q}}"
        f" {{params.asked:q}} --output {{output:q}} {SAY}"


EXECUTE = (
    "export OMP_NUM_THREADS={threads} MKL_NUM_THREADS={threads}; "
    f"{PYTHON} -m attention_limits.execute {{params.notebook:q}} {{output.executed:q}}"
    f" --name {{params.called:q}} --parameters {{params.values:q}} {{params.record:q}} {SAY}"
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
        own=lambda wildcards: [own_files(kind) for kind in own_sources(wildcards.name)],
        notebook=lambda wildcards: str(NOTEBOOKS[wildcards.name]),
        called="{name}",
        values=lambda wildcards: parameters(wildcards.name),
        record=record,
        report=f"{OUT}/failed/{{name}}.txt",
    threads:
        # Times are measured in `cost`: nothing beside it.
        lambda wildcards: (CORES or THREADS) if wildcards.name == "cost" else THREADS
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
        notebook=lambda wildcards: str(NOTEBOOKS[wildcards.name]),
        called="{name}",
        values=lambda wildcards: parameters(wildcards.name),
        record=[],
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


# --- the sweep ------------------------------------------------------------------------------------------------------
# Without a shared file system results go through a storage provider, and the project's files come with each job: inputs
# they cannot be, since a job with inputs that are not stored is not sent away.
STORED = workflow.storage_settings.default_storage_provider is not None


use rule sources as cell_sources with:
    output:
        f"{OUT}/sweep/{{label}}/sources.json",
    params:
        own=lambda wildcards: own_files("model", wildcards.label) + own_files("text", wildcards.label),
        model=lambda wildcards: explicit("model", wildcards.label)[0],
        text=lambda wildcards: explicit("text", wildcards.label)[0],
        asked=lambda wildcards: asked_sources(wildcards.label),
        report=f"{OUT}/failed/sweep/{{label}}.sources.txt",


use rule chapter as cell with:
    input:
        project=lambda wildcards: [] if STORED else [str(NOTEBOOKS[wildcards.name]), *CHAPTER_LIBRARY],
        sources=f"{OUT}/sweep/{{label}}/sources.json",
    output:
        executed=f"{OUT}/sweep/{{label}}/executed/{{name}}.ipynb",
        record=f"{OUT}/sweep/{{label}}/records/{{name}}.json",
    wildcard_constraints:
        name="|".join(SWEPT) or "none",
    params:
        own=lambda wildcards: [own_files(kind, wildcards.label) for kind in own_sources(wildcards.name)]
        + [digest([NOTEBOOKS[wildcards.name], *CHAPTER_LIBRARY])] * STORED,
        notebook=lambda wildcards: str(NOTEBOOKS[wildcards.name]),
        called="{label}/{name}",
        values=lambda wildcards: parameters(wildcards.name, wildcards.label),
        record=record,
        report=f"{OUT}/failed/sweep/{{label}}.{{name}}.txt",


def digest(paths):
    """What tells a change in the project's own files where they are no inputs."""
    return hashlib.sha256(b"".join(Path(path).read_bytes() for path in paths)).hexdigest()


def all_cells(wildcards):
    """The records of all jobs of the sweep."""
    return expand("{out}/sweep/{label}/records/{name}.json", out=OUT, label=CELLS, name=SWEPT)


rule sweep:
    input:
        all_cells,
    default_target: bool(CELLS)


rule sweep_page:  # a page of the book where there are results of a sweep
    input:
        table=RESULTS,
        notebook=lambda wildcards: str(NOTEBOOKS[wildcards.name]),
        library=LIBRARY,
    output:
        executed=f"{OUT}/executed/{{name}}.ipynb",
    wildcard_constraints:
        name="|".join(TABLED) or "none",
    params:
        notebook=lambda wildcards: str(NOTEBOOKS[wildcards.name]),
        called="{name}",
        values=lambda wildcards: parameters(wildcards.name),
        record=[],
        report=f"{OUT}/failed/{{name}}.txt",
    threads: THREADS
    shell:
        EXECUTE


if MAIN and CELLS:
    watch = sweep.Watch()
    logger.addHandler(watch)

    @atexit.register
    def gather_cells():
        """Whatever became of the jobs, both tables of the sweep are written and what is missing is said in words."""
        if workflow.dryrun:
            return
        out = OUT
        if STORED:
            if workflow.storage_settings.default_storage_provider != "fs":
                return print("\nThe results are in the storage; the README says how to gather them.", file=sys.stderr)
            out = Path(workflow.storage_settings.default_storage_prefix, OUT)
        wanted = {(label, name): cell_settings(name, label) for label in CELLS for name in SWEPT}
        print("\n" + sweep.collect(sweep.gather(CELLS, wanted, out, watch.failed), out), file=sys.stderr)
