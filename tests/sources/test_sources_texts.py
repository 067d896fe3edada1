"""Texts: cleaned of what is not the book, read from any UTF-8 file, and refused with the reason."""

from __future__ import annotations

import hashlib
import io
import json
import socket
import threading
from pathlib import Path

import pytest
from attention_limits import sources
from attention_limits.sources import gutenberg, reading, registry, texts

START = "*** START OF THE PROJECT GUTENBERG EBOOK WAR AND PEACE ***"
END = "*** END OF THE PROJECT GUTENBERG EBOOK WAR AND PEACE ***"
BODY = """BOOK ONE: 1805





CHAPTER I

“Well, Prince, so Genoa and Lucca
are now just family estates.”

It was in July, 1805.

    In the moon’s fair glow
    How sweet it is

CHAPTER II

Anna Pávlovna’s drawing room
was gradually filling.
"""
CLEAN = """BOOK ONE: 1805

CHAPTER I

“Well, Prince, so Genoa and Lucca are now just family estates.”

It was in July, 1805.

In the moon’s fair glow
How sweet it is

CHAPTER II

Anna Pávlovna’s drawing room was gradually filling.
"""
CONTENTS = "    Contents\n\n    BOOK ONE: 1805\n\n    CHAPTER I\n\n    CHAPTER II\n"
BOOK = "\n\n\n".join(
    [
        "Licence terms come first.",
        START,
        "WAR AND PEACE",
        "By Leo Tolstoy",
        CONTENTS,
        BODY,
        END,
        "Terms come last.",
    ]
)


def edition(text: str = BOOK) -> bytes:
    """The book as the site serves it: byte-order mark and CRLF line ends."""
    return b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()


# --- cleaning


def test_the_book_alone_remains():
    assert gutenberg.clean(BOOK, registry.TEXTS["war-and-peace"].body_start) == CLEAN
    assert gutenberg.clean(BOOK) == CLEAN


def test_the_body_is_the_last_place_where_both_headings_follow_each_other():
    twice = BOOK.replace("    Contents\n", "    Contents\n\n    BOOK ONE: 1805\n\n    CHAPTER I\n")
    assert gutenberg.clean(twice, ("BOOK ONE: 1805", "CHAPTER I")) == CLEAN
    named_later = BOOK.replace(
        "was gradually filling.\n", "was gradually filling.\n\nBOOK ONE: 1805\n\nwas over.\n"
    )
    cleaned = gutenberg.clean(named_later, ("BOOK ONE: 1805", "CHAPTER I"))
    assert cleaned.startswith(CLEAN) and cleaned.endswith("BOOK ONE: 1805\n\nwas over.\n")


def test_contents_whose_first_entry_returns_often_are_kept_rather_than_guessed():
    book = (
        f"{START}\n\nContents\n\nCHAPTER I\n\nCHAPTER I\n\nCHAPTER I\n\nOne.\n\nCHAPTER I\n\nTwo.\n\n{END}\n"
    )
    assert gutenberg.clean(book).startswith("Contents\n\nCHAPTER I\n")
    assert gutenberg.clean(f"{START}\n\nA title\n\nProse.\n\n{END}\n") == "A title\n\nProse.\n"


def test_a_preface_before_the_contents_is_kept():
    entries = "PREFACE\n\nCHAPTER I\n\nCHAPTER II"
    book = f"{START}\n\nPREFACE\n\nThe author's own.\n\nCONTENTS\n\n{entries}\n\nCHAPTER I\n\nIt began.\n\n{END}\n"
    assert gutenberg.clean(book).startswith("PREFACE\n\nThe author's own.\n\nCONTENTS\n")
    after = book.replace("PREFACE\n\nThe author's own.\n\nCONTENTS", "CONTENTS").replace(
        "CHAPTER I\n\nIt", "PREFACE\n\nIt"
    )
    assert gutenberg.clean(after) == "PREFACE\n\nIt began.\n"


def test_lines_are_joined_without_a_space_where_the_script_has_none():
    lines = ["春眠不覺曉", "處處聞啼鳥", "a", "b", "夜", "來", "х ю", "風", "그리고 그는", "집에 있었다"]
    cleaned = gutenberg.clean(f"{START}\n\n" + "\n".join(lines) + f"\n\n{END}\n")
    assert cleaned == "春眠不覺曉處處聞啼鳥 a b 夜來 х ю 風 그리고 그는 집에 있었다\n"


@pytest.mark.parametrize(
    "start",
    [
        "***START OF THE PROJECT GUTENBERG EBOOK EMMA***",
        "*** START OF THIS PROJECT GUTENBERG EBOOK EMMA ***",
        "*** START OF THE PROJECT GUTENBERG EBOOK A VERY LONG\nTITLE OF A BOOK ***",
    ],
)
def test_other_spellings_of_the_markers(start):
    assert (
        gutenberg.clean(f"Licence\n{start}\n\nProse.\n\n{start.replace('START', 'END')}\nLicence")
        == "Prose.\n"
    )


def test_what_is_not_the_book_is_said():
    with pytest.raises(ValueError, match="no Project Gutenberg start and end markers"):
        gutenberg.clean("<html>busy</html>")
    with pytest.raises(ValueError, match="no Project Gutenberg"):
        gutenberg.clean(BOOK[: BOOK.index(END)])  # a truncated file
    with pytest.raises(ValueError, match="'BOOK ONE: 1805', 'CHAPTER I'"):
        gutenberg.clean(BOOK.replace("1805\n", "1806\n"), ("BOOK ONE: 1805", "CHAPTER I"))


# --- war-and-peace


def test_war_and_peace_is_downloaded_once_and_cleaned(server):
    server.pages["/pg2600.txt"] = edition()
    text = sources.load_text("war-and-peace")
    assert text.content == CLEAN
    assert text.provenance.sha256 == hashlib.sha256(edition()).hexdigest()
    assert text.provenance.size == len(edition())
    assert (text.provenance.name, text.provenance.notice) == ("war-and-peace", "")
    assert text.provenance.origin == f"{server.address}/pg2600.txt"
    server.asked.clear()
    assert sources.load_text("war-and-peace") == text
    assert sources.decide("text", "auto") == ("war-and-peace", "")
    assert server.asked == []


def test_a_damaged_copy_is_fetched_again(server, own_machine):
    server.pages["/pg2600.txt"] = edition()
    sources.load_text("war-and-peace")
    copy = own_machine / "war-and-peace" / "source.txt"
    copy.write_bytes(copy.read_bytes()[:-50])
    assert not texts.is_cached("war-and-peace")
    assert sources.load_text("war-and-peace").content == CLEAN
    assert copy.read_bytes() == edition()


@pytest.mark.parametrize(
    "served", [b"<html>busy</html>", edition(BOOK.replace("CHAPTER I\n", "I\n")), b"\xff\xfe\0"]
)
def test_another_page_than_the_book_is_refused_and_not_kept(server, served):
    server.pages["/pg2600.txt"] = served
    with pytest.raises(
        sources.SourceError, match=f"served {len(served):,} bytes that are not the expected book"
    ):
        sources.load_text("war-and-peace")
    assert not texts.is_cached("war-and-peace")


def test_war_and_peace_by_name_never_falls_back():
    with pytest.raises(
        sources.SourceError, match=r"not in the cache.*could not be reached.*refused.*king-james"
    ):
        sources.load_text("war-and-peace")


def test_a_download_that_breaks_off_is_an_error(connect):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(4)

        def serve():
            for _ in range(2):  # the probe, then the download
                connection, _ = listener.accept()
                connection.recv(4096)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + b"x" * 10)
                connection.close()

        threading.Thread(target=serve, daemon=True).start()
        connect(f"http://127.0.0.1:{listener.getsockname()[1]}")
        with pytest.raises(sources.SourceError, match="broke off"):
            sources.load_text("war-and-peace")
    assert not texts.is_cached("war-and-peace")


# --- files by path


def refused(requested) -> str:
    """The sentence with which a text is refused."""
    with pytest.raises(sources.SourceError) as refusal:
        sources.load_text(str(requested))
    return str(refusal.value)


def test_any_utf8_file(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_bytes(b"\xef\xbb\xbfOne\r\ntwo \xc3\xa9\rthree\n")
    text = sources.load_text(str(path))
    assert str(text.content) == "One\ntwo é\nthree\n"  # line ends of its own are the author's: they stay
    assert [text.content[:n] for n in (0, 5, 100)] == ["", "One\nt", "One\ntwo é\nthree\n"]
    assert text.provenance.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (text.provenance.name, text.provenance.requested) == ("mine.txt", "mine.txt")
    assert text.provenance.licence == "unknown (the reader's own file)"
    assert str(tmp_path) not in json.dumps(text.provenance.to_json())


def test_only_the_beginning_of_a_text_can_be_had(tmp_path):
    (tmp_path / "mine.txt").write_text("Some text.")
    content = sources.load_text(str(tmp_path / "mine.txt")).content
    for part in (slice(1, 3), slice(None), slice(None, -1), slice(None, 4, 2)):
        with pytest.raises(ValueError, match="only its beginning"):
            content[part]


def test_a_file_with_gutenbergs_markers_is_cleaned(tmp_path):
    (tmp_path / "2600-0.txt").write_bytes(edition())
    text = sources.load_text(str(tmp_path / "2600-0.txt"))
    assert str(text.content) == CLEAN and "Project Gutenberg" in text.provenance.origin
    assert text.content[:4] == "BOOK"


def test_a_file_too_large_for_one_of_gutenbergs_is_read_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "WHOLE", len(edition()) - 1)
    (tmp_path / "2600-0.txt").write_bytes(edition())
    text = sources.load_text(str(tmp_path / "2600-0.txt"))
    assert str(text.content) == BOOK and "Project Gutenberg" not in text.provenance.origin


def test_several_files_are_joined_in_the_order_given(tmp_path):
    first, second, third = tmp_path / "b c.txt", tmp_path / "a.txt", tmp_path / "d.md"
    first.write_text("One.\n")
    second.write_bytes(b"\xef\xbb\xbfTwo.")
    third.write_text("")  # empty: part of the list, but not of the text
    text = sources.load_text(f"{first}:{second}:{third}")
    assert str(text.content) == "One.\n\nTwo."
    assert text.content[:7] == "One.\n\nT"
    found, hashes = (
        text.provenance,
        [hashlib.sha256(p.read_bytes()).hexdigest() for p in (first, second, third)],
    )
    assert found.files == (("b c.txt", 5, hashes[0]), ("a.txt", 7, hashes[1]), ("d.md", 0, hashes[2]))
    lines = f"{hashes[0]}  b c.txt\n{hashes[1]}  a.txt\n{hashes[2]}  d.md\n"
    assert (found.sha256, found.size) == (hashlib.sha256(lines.encode()).hexdigest(), 12)
    assert (found.name, found.requested) == ("b c.txt and 2 others", "b c.txt:a.txt:d.md")
    assert str(tmp_path) not in json.dumps(found.to_json())
    assert sources.load_text(f"{second}:{first}").provenance.name == "a.txt and b c.txt"


def test_a_folder_stands_for_its_texts_sorted_by_their_paths(tmp_path):
    folder = tmp_path / "my letters"
    for name, words in {
        "b.txt": "Two.",
        "a/z.md": "One.",
        "c.TXT": "Three.",
        ".hidden.txt": "No.",
        ".git/x.txt": "No.",
        "picture.png": "No.",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(words)
    (folder / "a folder.txt").mkdir()
    (folder / "back").symlink_to(folder)
    text = sources.load_text(str(folder))
    assert str(text.content) == "One.\n\nTwo.\n\nThree."
    assert (text.provenance.name, text.provenance.requested) == ("my letters (3 files)", "my letters")
    assert [file[0] for file in text.provenance.files] == ["z.md", "b.txt", "c.TXT"]
    assert sources.load_text(f"{folder}:{folder}/b.txt").provenance.name == "z.md and 3 others"


def test_a_path_with_the_separator_in_it_is_taken_whole_if_it_is_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a:b.txt").write_text("One.")
    assert sources.load_text("a:b.txt").provenance.name == "a:b.txt"
    (tmp_path / "a").write_text("Two.")
    assert "no text file 'b.txt'" in refused("a:b.txt:a")  # not there as it stands: a list


def test_a_state_tells_every_change(tmp_path):
    folder = tmp_path / "letters"
    folder.mkdir()
    (folder / "a.txt").write_text("One.")
    states = [sources.text_state(str(folder))]
    (folder / "b.txt").write_text("Two.")
    states.append(sources.text_state(str(folder)))
    (folder / "a.txt").write_text("One!!")
    states.append(sources.text_state(str(folder)))
    assert [len(state) for state in states] == [1, 2, 2] and states[1] != states[2]
    assert sources.text_state("king-james") == []


# --- standard input


class Pipe(io.BytesIO):
    """Bytes that come through a pipe, or from a terminal."""

    def __init__(self, content: bytes, terminal: bool = False):
        super().__init__(content)
        self.isatty = lambda: terminal


def test_standard_input_is_kept_so_that_a_run_can_be_resumed(tmp_path, capsys):
    kept = sources.keep_standard_input(tmp_path, Pipe(b"Some text."))
    before = Path(kept).stat().st_mtime_ns
    for stream in (Pipe(b"Some text."), Pipe(b""), Pipe(b"", terminal=True)):
        assert sources.keep_standard_input(tmp_path, stream) == kept
        assert Path(kept).stat().st_mtime_ns == before  # nothing runs again for it
    assert capsys.readouterr().err.count("the one kept before is taken (10 bytes)") == 2
    assert sources.keep_standard_input(tmp_path, Pipe(b"Other text.")) == kept
    text = sources.load_text(kept)
    assert (str(text.content), text.provenance.name) == ("Other text.", "standard input")
    assert [path.name for path in tmp_path.iterdir()] == ["standard input"]


def test_a_terminal_is_asked_for_the_text(tmp_path, capsys):
    kept = sources.keep_standard_input(tmp_path, Pipe(b"Typed.", terminal=True))
    assert Path(kept).read_bytes() == b"Typed." and "Ctrl-D" in capsys.readouterr().err
