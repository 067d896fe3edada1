"""Parameters: the comments in the chapters say the rules, and what does not keep them is refused at once."""

from __future__ import annotations

import io
import json
import math
import re
import tokenize
from pathlib import Path

import papermill
import pytest
import yaml
from attention_limits import controls, execute, parameters
from bad_days import case

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = {
    path.stem: path
    for folder in ("notebooks", "book")
    for path in sorted((ROOT / folder).rglob("*.md"))
    if execute.is_notebook(path)
}
DECLARED = {name: execute.declared(execute.read(path)) for name, path in NOTEBOOKS.items()}
CHAPTERS = [name for name in NOTEBOOKS if "record" in DECLARED[name]]


def comments(source: str) -> dict[str, str]:
    """What the comments of a parameters cell say of each name: those of its lines and right above them."""
    said: dict[str, list[str]] = {}
    waiting: list[str] = []
    name = ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            alone = token.line.lstrip().startswith("#")
            (waiting if alone else said[name]).append(token.string.lstrip("# "))
        elif token.type == tokenize.NAME and token.start[1] == 0:
            name = token.string
            said[name], waiting = waiting, []
    return {name: " ".join(lines) for name, lines in said.items()}


@pytest.mark.parametrize("chapter", NOTEBOOKS)
def test_the_comments_of_a_chapter_say_its_rules(chapter):
    (cell,) = (
        cell
        for cell in execute.read(NOTEBOOKS[chapter]).cells
        if execute.PARAMETERS_TAG in cell.metadata.get("tags", [])
    )
    said = comments(cell.source)
    assert list(said) == list(DECLARED[chapter])
    for name, words in said.items():
        rule = parameters.rule(chapter, name)
        assert rule is not None, f"{chapter}: {name} has no rule"
        assert rule.words in words, f"{chapter}: the comment of {name} lacks {rule.words!r}"


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_checks_its_parameters_before_anything_else(chapter):
    code = [cell for cell in execute.read(NOTEBOOKS[chapter]).cells if cell.cell_type == "code"]
    assert execute.PARAMETERS_TAG in code[0].metadata.tags
    first = [
        line for line in code[1].source.splitlines() if line and not line.startswith(("import ", "from "))
    ]
    assert first[0] == f'check_cell("{chapter}", globals())'


@pytest.mark.parametrize("chapter", NOTEBOOKS)
def test_the_defaults_keep_the_rules(chapter):
    parameters.check(chapter, DECLARED[chapter])


def test_rules_are_of_something_that_is_there():
    declared = set().union(*DECLARED.values())
    assert set(parameters.RULES) - declared == {"threads"}  # the engine's own
    for chapter, rules in parameters.OWN.items():
        assert set(rules) <= set(DECLARED[chapter])
    assert set(controls.SHAPES) == {"gpt2", "llama"}
    assert all(f"random:{shape}" in parameters.RULES["models"].words for shape in controls.SHAPES)


def test_the_settings_that_the_readme_shows_keep_the_rules():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = re.findall(r"--config (.*)", text)
    shown = [dict(re.findall(r"(\w+)=(\[.*?\]|[^\s\"`]+)", line)) for line in lines]
    assert {"seed": "7", "lengths": "[64,128,256]"} in shown
    for settings in shown:
        given = {name: yaml.safe_load(value) for name, value in settings.items()}
        for chapter, declared in DECLARED.items():
            own = {name: value for name, value in given.items() if name in declared}
            parameters.check(chapter, declared, own)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (parameters.Rule(least=1, most="length - 1"), "from 1 to length - 1"),
        (parameters.Rule(least=2), "at least 2"),
        (parameters.Rule(float, above=0, below=1, many=True), "each above 0 and below 1"),
        (parameters.Rule(least=32, many=True, fewest=3), "at least three, each at least 32"),
        (parameters.Rule(least=4, many=True, fewest=0), "[] or each at least 4"),
        (parameters.Rule(str, choices=("a", "b")), "a | b"),
        (parameters.Rule(str, choices=("a", "b"), many=True), "any of a, b"),
    ],
)
def test_the_words_of_a_rule(rule, words):
    assert rule.words == words


WHOLE = "it must be a whole number"
LENGTHS = "it must be a list of different whole numbers, each from 2 to the model's context"


@pytest.mark.parametrize(
    ("chapter", "given", "said"),
    [
        case(
            "a text for a number", "algorithm-1", {"seed": "7"}, f"seed is '7'; {WHOLE} from 0 to 2**32 - 1."
        ),
        case("true for a number", "algorithm-1", {"seed": True}, f"seed is True; {WHOLE}"),
        case("a fraction for a whole number", "algorithm-1", {"top_n": 2.5}, f"top_n is 2.5; {WHOLE}"),
        case("5.0 for a whole number", "algorithm-1", {"top_n": 5.0}, f"top_n is 5.0; {WHOLE}"),
        case(
            "nothing for a number", "algorithm-1", {"windows": None}, f"windows is None; {WHOLE} at least 1."
        ),
        case(
            "NaN for a whole number",
            "algorithm-1",
            {"windows": math.nan},
            f"windows is nan; {WHOLE} at least 1.",
        ),
        case("a negative seed", "gradients", {"seed": -1}, f"seed is -1; {WHOLE} from 0 to 2**32 - 1."),
        case(
            "a seed of 400 digits",
            "gradients",
            {"seed": 10**400},
            f"; {WHOLE} from 0 to 2**32 - 1 (2**32 - 1 is 4294967295).",
        ),
        case("no window", "weights", {"windows": 0}, f"windows is 0; {WHOLE} at least 1."),
        case(
            "a negative number of windows", "weights", {"windows": -3}, f"windows is -3; {WHOLE} at least 1."
        ),
        case(
            "one length where lengths are asked for", "weights", {"lengths": 64}, f"lengths is 64; {LENGTHS}"
        ),
        case("no length", "weights", {"lengths": []}, f"lengths is []; {LENGTHS}"),
        case("a length twice", "weights", {"lengths": [64, 64]}, f"lengths is [64, 64]; {LENGTHS}"),
        case("a length of one token", "weights", {"lengths": [1, 64]}, f"lengths is [1, 64]; {LENGTHS}"),
        case(
            "lengths that are all too short",
            "weights",
            {"lengths": [2, 4]},
            f"{LENGTHS}; the largest at least 8.",
        ),
        case("a list in a list", "weights", {"lengths": [[64]]}, f"lengths is [[64]]; {LENGTHS}"),
        case("lengths as a text", "weights", {"lengths": "32,64"}, f"lengths is '32,64'; {LENGTHS}"),
        case(
            "N as large as the shortest L",
            "algorithm-1",
            {"lengths": [8, 16, 32], "top_n": 8},
            f"top_n is 8; {WHOLE} from 1 to min(lengths) - 1 (min(lengths) - 1 is 7, lengths is [8, 16, 32]).",
        ),
        case(
            "a list that papermill handed over as text",
            "algorithm-1",
            {"lengths": "[32,64,128]"},
            "It came as text, as papermill's -p gives it; -y 'lengths: [...]' gives a list.",
        ),
        case(
            "too few lengths for a straight line",
            "algorithm-1",
            {"lengths": [8, 16]},
            "lengths is [8, 16]; it must be a list of different whole numbers, at least three, each from 2 to",
        ),
        case(
            "an N of a list as large as L",
            "algorithm-2",
            {"length": 20, "stride": 4},
            "each from 1 to length - 1 (length - 1 is 19, length is 20).",
        ),
        case(
            "N of zero",
            "algorithm-4",
            {"top_ns": [0, 1]},
            "top_ns is [0, 1]; it must be a list of different whole numbers, each from 1 to length - 1.",
        ),
        case(
            "N above half of L",
            "health",
            {"length": 10, "top_n": 6, "stride": 1},
            "from 1 to length / 2 (length / 2 is 5, length is 10).",
        ),
        case(
            "every N above the shortest L",
            "selection",
            {"top_ns": [64]},
            "the smallest at most min(lengths) - 1 (min(lengths) - 1 is 63, lengths is [64, 128, 256]).",
        ),
        case(
            "lengths too short for N",
            "models",
            {"lengths": [16]},
            "each at least max(4, 2 * top_n) (max(4, 2 * top_n) is 32, top_n is 16).",
        ),
        case(
            "more predictions than tokens",
            "selection",
            {"targets": 64},
            f"targets is 64; {WHOLE} from 2 to min(lengths) - 1",
        ),
        case(
            "a stride longer than the window",
            "algorithm-5",
            {"length": 8, "stride": 9},
            f"stride is 9; {WHOLE} from 1 to length (length is 8).",
        ),
        case(
            "a stride that skips a whole range",
            "normalisers",
            {"stride": 17},
            f"stride is 17; {WHOLE} from 1 to min(lengths) / 2 (min(lengths) / 2 is 16",
        ),
        case(
            "an unknown space",
            "algorithm-1",
            {"spaces": ["hiden"]},
            "spaces is ['hiden']; it must be a list of different names, any of hidden, embedding, value.",
        ),
        case(
            "one space where several are asked for",
            "algorithm-1",
            {"spaces": "hidden"},
            "spaces is 'hidden'; it must be a list",
        ),
        case(
            "several spaces where one is asked for",
            "health",
            {"space": ["hidden"]},
            "space is ['hidden']; it must be hidden | embedding | value.",
        ),
        case("a support twice", "algorithm-1", {"supports": ["full", "full"]}, "any of causal, full."),
        case("unknown logits", "algorithm-5", {"logits": ["raw", "cooked"]}, "any of model, raw."),
        case(
            "a temperature of zero",
            "algorithm-5",
            {"temperatures": [0.0, 1.0]},
            "temperatures is [0.0, 1.0]; it must be a list of different numbers, each above 0.",
        ),
        case("an infinite temperature", "algorithm-5", {"temperatures": [math.inf]}, "each above 0."),
        case("NaN among temperatures", "normalisers", {"temperatures": [1.0, math.nan]}, "each above 0."),
        case("a temperature as a text", "normalisers", {"temperatures": ["0.1"]}, "each above 0."),
        case("a negative tolerance", "selection", {"tolerances": [-0.01]}, "each above 0."),
        case(
            "a significance level of 1",
            "algorithm-3",
            {"levels": [1]},
            "levels is [1]; it must be a list of different numbers, each above 0 and below 1.",
        ),
        case(
            "two lengths where a power is fitted",
            "cost",
            {"growth_lengths": [32, 64]},
            "at least four, each at least 32.",
        ),
        case(
            "a length beyond the context of a fixed model",
            "cost",
            {"length": 2048},
            f"length is 2048; {WHOLE} from 8 to 1024.",
        ),
        case("too few draws", "theorem-1", {"draws": 19}, f"draws is 19; {WHOLE} at least 20."),
        case(
            "random weights of an unknown shape",
            "models",
            {"models": ["random:bert"]},
            "random:gpt2 | random:llama | shuffled.",
        ),
        case(
            "an unknown device for a chapter",
            "weights",
            {"device": "gpu"},
            "device is 'gpu'; it must be auto | cpu | cuda | mps.",
        ),
        case("a blank name of a model", "weights", {"model": " "}, "model is ' '; it must be auto | gpt2"),
        case("a number for a text", "weights", {"text": 7}, "text is 7; it must be auto |"),
        case(
            "a file for the record that is no path",
            "vanishing",
            {"record": False},
            "record is False; it must be file that",
        ),
        case(
            "a misspelt parameter",
            "weights",
            {"lenghts": [8]},
            "weights has no parameter 'lenghts'. Did you mean lengths?",
        ),
        case(
            "a parameter of another chapter",
            "gradients",
            {"model": "gpt2"},
            "gradients has no parameter 'model'.",
        ),
        case("a value of a megabyte", "weights", {"lengths": "9" * 10**6}, "999 ...; it must be a list"),
    ],
)
def test_what_no_chapter_can_work_with_is_named(chapter, given, said):
    with pytest.raises(parameters.ParameterError) as refusal:
        parameters.check(chapter, DECLARED[chapter], given)
    message = str(refusal.value)
    assert message.startswith(chapter) and said in message
    assert "\n" not in message and len(message) < 600


def test_a_bound_by_what_a_chapter_has_not_is_none():
    parameters.check("a new chapter", {"length": 64, "top_n": 5, "record": ""})
    parameters.check("a new chapter", {"lengths": [64], "top_ns": [5], "record": ""})
    with pytest.raises(parameters.ParameterError, match="top_n is 0"):
        parameters.check("a new chapter", {"length": 64, "top_n": 0, "record": ""})


def test_whole_numbers_will_do_where_numbers_are_asked_for():
    parameters.check("algorithm-5", DECLARED["algorithm-5"], {"temperatures": [1, 2.5]})
    parameters.check("models", DECLARED["models"], {"models": [], "long_lengths": []})


@pytest.fixture
def model(tmp_path):
    """A model of which there is the config alone: 100 tokens of context."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "gpt2", "n_positions": 100}))
    return str(folder)


@pytest.mark.bad_day("lengths beyond the context of a model of which only the config has been read")
def test_lengths_are_held_against_the_models_context_before_it_loads(model):
    with pytest.raises(parameters.ParameterError) as refusal:
        parameters.check("weights", DECLARED["weights"], {"model": model, "lengths": [64, 101]})
    assert str(refusal.value).endswith(
        f"{LENGTHS}; the largest at least 8 (the model's context is 100, model is {model!r})."
    )
    parameters.check("weights", DECLARED["weights"], {"model": model, "lengths": [64, 100]})
    # Left out, and said, there.
    parameters.check("models", DECLARED["models"], {"model": model, "lengths": [64, 101]})


@pytest.mark.bad_day("a parameter that no chapter has, given by plain papermill")
def test_a_chapter_run_by_plain_papermill_checks_itself(tmp_path, model):
    notebook = execute.read(NOTEBOOKS["weights"])
    first, second = [cell for cell in notebook.cells if cell.cell_type == "code"][:2]
    second.source = "\n".join(line for line in second.source.splitlines() if "check_cell" in line)  # no torch
    notebook.cells = [first, second]
    papermill.iorw.write_ipynb(notebook, str(tmp_path / "weights.ipynb"))
    with pytest.raises(papermill.PapermillExecutionError) as refusal:
        papermill.execute_notebook(
            tmp_path / "weights.ipynb",
            tmp_path / "mine.ipynb",
            {"lenghts": [8], "model": model},
            progress_bar=False,
        )
    assert refusal.value.ename == "ParameterError"
    assert refusal.value.evalue == "weights has no parameter 'lenghts'. Did you mean lengths?"


@pytest.mark.parametrize(
    ("cells", "namespace", "said"),
    [
        case(
            "a wrong value typed into a notebook",
            ["n = 1", "top_n = 0\nrecord = ''", "ask"],
            {"top_n": 0, "record": ""},
            "top_n is 0",
        ),
        case(
            "a wrong value that papermill puts in",
            ["top_n = 1\nrecord = ''", "# Parameters\ntop_n = -1\n", "ask"],
            {"top_n": -1, "record": ""},
            "top_n is -1",
        ),
        case(
            "a notebook whose parameters cell was not run",
            ["%matplotlib inline", "ask"],
            {},
            "has not been run. Run it first.",
        ),
        case("a notebook that is run out of order", ["ask"], {}, "has not been run. Run it first."),
    ],
)
def test_a_notebook_finds_its_parameters_among_the_cells_that_ran(cells, namespace, said):
    with pytest.raises(parameters.ParameterError, match=re.escape(said)):
        parameters.check_cell("models", {"In": ["", *cells], **namespace})


@pytest.mark.bad_day("a wrong value in a chapter that runs as a plain script")
def test_a_chapter_may_be_a_script():
    script = {"__name__": "__main__", "json": json, "top_n": 1, "record": ""}
    parameters.check_cell("models", script)
    with pytest.raises(parameters.ParameterError, match="top_n is 0"):
        parameters.check_cell("models", script | {"top_n": 0})


def test_a_notebook_may_be_run_again_and_may_use_the_names_of_other_chapters():
    cells = [
        "",
        "top_n = 1\nrecord = ''",
        "check_cell(...)",
        "rows = draws = 'something else'",
        "check_cell(...)",
    ]
    parameters.check_cell("models", {"In": cells, "top_n": 1, "record": "", "rows": "x", "draws": "y"})
