"""Texts on a bad day: each is either read as it is meant, or refused with a sentence that says what to do."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
from html import unescape
from pathlib import Path

import nbformat
import pytest
from attention_limits import publish, sources
from attention_limits.attention import CaptureError
from attention_limits.capture import windows
from attention_limits.sources import reading, standard_input
from bad_days import case
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.myst_role import myst_role_plugin
from mdit_py_plugins.substitution import substitution_plugin

PROSE = "Anna Pávlovna’s drawing room was gradually filling.\n"
START = "*** START OF THE PROJECT GUTENBERG EBOOK X ***"
END = "*** END OF THE PROJECT GUTENBERG EBOOK X ***"


def refused(requested) -> str:
    """The sentence with which a text is refused."""
    with pytest.raises(sources.SourceError) as refusal:
        sources.load_text(str(requested))
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


@pytest.mark.parametrize(
    ("content", "complaints"),
    [
        case("an empty text", b"", ["is empty", "some pages of text"]),
        case("a text of white space only", b" \n\t\n", ["is empty"]),
        case("a text that is a byte-order mark only", b"\xef\xbb\xbf", ["no letter"]),
        case("a text without any letter", b"12 + 3 = 15\n", ["holds no letter"]),
        case(
            "a Gutenberg text of which nothing is left", f"{START}\n\n{END}\n".encode(), ["holds no letter"]
        ),
        case("a binary file", b"\x7fELF\x02\x01\x01\0" * 99, ["byte 7 is zero"]),
        case("a binary file without a zero byte", b"\x89PNG\xff\xd8" * 99, ["not UTF-8", "byte 0,", "0x89"]),
        case("a file of zeros only", b"\0" * 5000, ["byte 0 is zero", "Give plain text in UTF-8"]),
        case("a PDF as text", b"%PDF-1.7\nsome text", ["is a PDF document", "Save its text as UTF-8"]),
        case("a word processor's file as text", b"PK\x03\x04docx", ["zip archive", ".docx"]),
        case("a compressed text", b"\x1f\x8b\x08 text", ["compressed with gzip"]),
        case("an RTF document as text", b"{\\rtf1 text}", ["RTF document"]),
        case("UTF-16 with a byte-order mark", PROSE.encode("utf-16"), ["is UTF-16", "iconv -f UTF-16 "]),
        case("UTF-16 without a byte-order mark, little end first", PROSE.encode("utf-16-le"), ["UTF-16LE;"]),
        case("UTF-16 without a byte-order mark, big end first", PROSE.encode("utf-16-be"), ["UTF-16BE;"]),
        case("Chinese in UTF-16 without a mark", "战争与和平".encode("utf-16-le"), ["not UTF-8"]),
        case("UTF-32", PROSE.encode("utf-32"), ["is UTF-32", "iconv -f UTF-32 "]),
        case(
            "Latin-1", "Anna P\xe1vlovna".encode("latin-1"), ["byte 6, in line 1, is 0xe1", "iconv -f LATIN1"]
        ),
        case(
            "UTF-8 and Latin-1 mixed in one file",
            (PROSE * 3).encode() + "caf\xe9 noir".encode("latin-1"),
            [f"byte {3 * len(PROSE.encode()) + 3}, in line 4, is 0xe9"],
        ),
        case("a text cut in the middle of a letter", "é".encode()[:1], ["byte 0", "unexpected end of data"]),
        case("half of a surrogate pair", b"a \xed\xa0\x80 b", ["not UTF-8: byte 2"]),
    ],
)
def test_what_is_no_text_is_refused_with_place_and_advice(tmp_path, content, complaints):
    path = tmp_path / "bad.txt"
    path.write_bytes(content)
    said = refused(path)
    assert [complaint for complaint in complaints if complaint not in said] == []
    assert "bad.txt" in said


@pytest.mark.bad_day("a wrong byte on the border of two blocks")
def test_the_place_of_a_wrong_byte_is_right_wherever_blocks_end(tmp_path, monkeypatch):
    path = tmp_path / "bad.txt"
    path.write_bytes("Aé\né€".encode()[:-1] + b"\xff")
    said = {block: (monkeypatch.setattr(reading, "BLOCK", block), refused(path))[1] for block in range(1, 10)}
    assert {sentence for sentence in said.values() if "byte 6, in line 2" not in sentence} == set()


@pytest.mark.parametrize(
    ("content", "read"),
    [
        case("a byte-order mark before UTF-8", b"\xef\xbb\xbfText", "Text"),
        case("line ends of Windows (CRLF)", b"One\r\n\r\nTwo\r\n", "One\n\nTwo\n"),
        case("line ends of old Macs (a lone CR)", b"One\rTwo\r", "One\nTwo\n"),
        case("all three line ends mixed", b"a\r\nb\rc\nd\n\re", "a\nb\nc\nd\n\ne"),
        case("Hebrew, from right to left", "מלחמה ושלום\n".encode(), "מלחמה ושלום\n"),
        case("Arabic with direction marks", "‫الحرب‬ و\u200fالسلم".encode(), "‫الحرب‬ و\u200fالسلم"),
        case("Chinese without a single space", "战争与和平".encode() * 50, "战争与和平" * 50),
        case("letters outside the basic plane", "𐌰𐌱 𝔞 🜁 word".encode(), "𐌰𐌱 𝔞 🜁 word"),
        case("control characters inside a text", b"a\x01\x1b[31mb\x7f", "a\x01\x1b[31mb\x7f"),
    ],
)
def test_what_is_a_text_is_read_as_it_is_meant(tmp_path, monkeypatch, tokenizer, content, read):
    path = tmp_path / "good.txt"
    path.write_bytes(content)
    for block in (1, 2, 3, 1 << 20):  # no mark, line end or letter is torn by the end of a block
        monkeypatch.setattr(reading, "BLOCK", block)
        text = sources.load_text(str(path))
        assert str(text.content) == text.content[: len(read) + 1] == read
    ids = windows(tokenizer, text.content, 2, 2)
    assert ids.flatten().tolist() == tokenizer(read)["input_ids"][:4]


@pytest.mark.bad_day("a text with fewer tokens than are asked for")
def test_a_tiny_text_is_refused_with_both_numbers(tmp_path, tokenizer):
    (tmp_path / "tiny.txt").write_text("Call me Ishmael.")  # 16 bytes: a token each
    content = sources.load_text(str(tmp_path / "tiny.txt")).content
    assert windows(tokenizer, content, 8, 2).shape == (2, 8)
    with pytest.raises(
        CaptureError, match=r"has 16 tokens, but 3 window\(s\) of 8 need 24; give a longer text"
    ):
        windows(tokenizer, content, 8, 3)


@pytest.mark.bad_day("one enormous line")
def test_of_an_enormous_line_only_the_beginning_is_read(tmp_path, monkeypatch, tokenizer):
    (tmp_path / "line.txt").write_text("word " * 400_000)
    content = sources.load_text(str(tmp_path / "line.txt")).content
    read = []
    count = lambda piece: (read.append(len(piece)), piece)[1]  # noqa: E731
    pieces = reading._characters
    monkeypatch.setattr(reading, "BLOCK", 1000)
    monkeypatch.setattr(reading, "_characters", lambda file: map(count, pieces(file)))
    assert windows(tokenizer, content, 50, 4).shape == (4, 50)
    assert sum(read) <= 3000


@pytest.mark.bad_day("a text of 500 MB")
def test_a_huge_text_takes_no_memory(tmp_path):
    """The highest memory in use, as the kernel counts it for this process alone, before and after."""
    with open(tmp_path / "huge.txt", "wb") as stream:
        block = (PROSE.encode() * 20000)[: 1 << 20].decode(errors="ignore").encode()
        for _ in range(500):
            stream.write(block)
    code = (
        "import re, sys; from pathlib import Path; from attention_limits.sources import texts\n"
        "peak = lambda: int(re.search(r'VmHWM:\\s+(\\d+)', Path('/proc/self/status').read_text())[1]) // 1024\n"
        "small = texts.load_text(sys.argv[1]); small.content[:9]; before = peak()\n"
        "text = texts.load_text(sys.argv[2]); start = text.content[:100_000]\n"
        "print(len(start), text.provenance.size, peak() - before)"
    )
    (tmp_path / "small.txt").write_bytes(block)
    command = [sys.executable, "-c", code, str(tmp_path / "small.txt"), str(tmp_path / "huge.txt")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (tmp_path / "huge.txt").unlink()
    characters, size, grown = map(int, done.stdout.split())
    assert (characters, size) == (100_000, 500 * len(block))
    assert grown < 16  # MiB, of a text of 500


# --- paths


@pytest.mark.parametrize(
    ("requested", "complaint"),
    [
        case(
            "a text that is not there",
            "war-and-peas",
            "auto). Did you mean war-and-peace? A relative path",
        ),
        case("a file below a file", "file/below", "cannot be read (Not a directory)"),
        case(
            "the text itself in place of its path",
            "Call me Ishmael. " * 99,
            "cannot be read (File name too long)",
        ),
        case("a web address as text", "https://example.org/a.txt", "is a web address. Download it"),
        case("a zero byte in a path", "a\0b", "cannot be read (embedded null byte)"),
        case("the home of an unknown user", "~nobody-of-that-name/a.txt", "leads nowhere"),
        case("an empty path in a list of texts", "file::file", "a path is empty"),
        case("one of several texts missing", "file:missing.txt", "no text file 'missing.txt'"),
        case(
            "a named text in a list of files", "king-james:file", "A named text cannot be joined with others"
        ),
        case("a folder without texts", "empty", "The folder 'empty' holds no text"),
        case("a device without end", "/dev/zero", "'/dev/zero' is a pipe or a device, which need not end"),
        case("a file that fails while it is read", "/proc/self/mem", "cannot be read (Input/output error)"),
        case("a pipe that nobody writes to", "pipe", "'pipe' is a pipe or a device"),
        case("standard input where one chapter runs", "-", "make rerun TEXT=- NAME=label < FILE"),
        case("a name with a backslash", "a\\(b", "holds a backslash, which a page cannot show. Rename it."),
        case("a name with a line end", "a\nb", "a line end, a control character or a broken letter"),
        case("a name that is no UTF-8", "a\udcff", "a line end, a control character or a broken letter"),
        case("a name without letter and digit", "$", "no letter and no digit"),
    ],
)
def test_paths_that_lead_to_no_text(tmp_path, monkeypatch, requested, complaint):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("file", "a\\(b", "a\nb", "a\udcff", "$"):
        (tmp_path / name).write_text(PROSE)
    said = refused(requested)
    assert complaint in said and len(said) < 400


@contextlib.contextmanager
def nobody():
    """Without the rights of root, which may read every file."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.bad_day("a file that may not be read")
def test_a_file_that_may_not_be_read():
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        path = Path(place, "secret.txt")
        path.write_text(PROSE)
        path.chmod(0)
        with nobody():
            assert "secret.txt' cannot be read (Permission denied)" in refused(path)


@pytest.mark.bad_day("a folder of which a part may not be read")
def test_a_folder_of_which_a_part_may_not_be_read():
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        Path(place, "a.txt").write_text(PROSE)
        Path(place, "secret").mkdir(mode=0)
        with nobody():
            assert "cannot be read (Permission denied" in refused(place)


@pytest.mark.bad_day("a text that vanishes between decision and read")
def test_a_text_that_vanishes_is_named(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text(PROSE)
    assert sources.text_state(str(path))
    content = sources.load_text(str(path)).content
    path.unlink()
    with pytest.raises(sources.SourceError, match=r"mine.txt' is gone"):
        content[:5]
    assert "There is no text file" in refused(path)


@pytest.mark.bad_day("a text that changes while it is read")
def test_a_text_that_changes_is_named(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text(PROSE)
    content = sources.load_text(str(path)).content
    path.write_text(PROSE + PROSE)
    with pytest.raises(sources.SourceError, match=r"changed while it was read\. Run again"):
        content[:5]


# --- standard input


@pytest.mark.parametrize(
    ("stream", "complaint"),
    [
        case("an empty standard input", lambda: io.BytesIO(b""), "Standard input is empty"),
        case("a closed standard input", lambda: None, "Standard input is empty"),
        case("a binary standard input", lambda: io.BytesIO(b"ab\0c"), "byte 2 of it is zero"),
        case("a standard input without end", lambda: open("/dev/zero", "rb"), "byte 0 of it is zero"),  # noqa: SIM115
        case(
            "a standard input of words without end",
            lambda: io.BytesIO(b"y\n" * 99),
            "100 bytes and had no end",
        ),
    ],
)
def test_what_cannot_come_through_standard_input(tmp_path, monkeypatch, stream, complaint):
    monkeypatch.setattr(standard_input, "LIMIT", 100)
    monkeypatch.setattr(sys, "stdin", None)
    opened = stream()
    with contextlib.closing(opened or io.BytesIO()), pytest.raises(sources.SourceError) as refusal:
        sources.keep_standard_input(tmp_path / "new", opened)
    assert complaint in str(refusal.value)
    assert not list((tmp_path / "new").iterdir())


@pytest.mark.bad_day("a build folder that cannot hold the standard input")
def test_a_build_folder_that_cannot_hold_the_standard_input(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(sources.SourceError, match=r"could not be kept in .*Not a directory"):
        sources.keep_standard_input(tmp_path / "file" / "below", io.BytesIO(b"text"))


# --- pages

MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
for plugin in (dollarmath_plugin, myst_role_plugin, substitution_plugin):  # what a page may interpret
    MARKDOWN.use(plugin)
MARKUP = "<script>alert(1)</script> $x_1$ \\(y\\) {{ z }} `code` {math}`w` [a](b) | c |\n\n# Heading\n"


@pytest.mark.bad_day("a text full of HTML, $, {{ and backticks")
def test_a_text_full_of_markup_is_read_literally_and_no_word_of_it_is_recorded(tmp_path):
    path = tmp_path / "markup.txt"
    path.write_text(MARKUP)
    text = sources.load_text(str(path))
    assert str(text.content) == MARKUP
    assert "alert" not in str(text.provenance) and "alert" not in repr(text.content)


@pytest.mark.bad_day("a file name full of HTML, $, {{ and backticks")
def test_a_name_full_of_markup_is_literal_in_every_sentence(tmp_path):
    path = tmp_path / "{{a}} $x_1$ `t` <b> *c* [d](e) {math}`w` ~~f~~.txt"
    path.write_text(PROSE)
    other = tmp_path / "g_h_i.txt"
    other.write_text(PROSE)
    for requested in (str(path), f"{path}:{other}", f"{path}:{other}:{other}"):
        name = sources.load_text(requested).provenance.name
        outputs = [nbformat.v4.new_output("display_data", {"text/markdown": f"On **{name}**: $a_1$."})]
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("x", outputs=outputs)])
        staged = publish.without_places(notebook, {"text": {"name": name}})
        html = MARKDOWN.renderInline(staged.cells[0].outputs[0].data["text/markdown"])
        shown = re.search(r'<strong>(.*)</strong>: <span class="math inline">a_1</span>', html)[1]
        assert "<" not in shown and unescape(shown) == name
