"""Texts: cleaned of what is not the book, read from any UTF-8 file, and refused with the reason."""

from __future__ import annotations

import hashlib
import json
import socket
import threading

import pytest
from attention_limits import sources
from attention_limits.sources import gutenberg, registry, texts

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


def test_any_utf8_file(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_bytes(b"\xef\xbb\xbfOne\r\ntwo \xc3\xa9\rthree\n")
    text = sources.load_text(str(path))
    assert text.content == "One\ntwo é\nthree\n"  # line ends of its own are the author's: they stay
    assert text.provenance.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (text.provenance.name, text.provenance.requested) == ("mine.txt", "mine.txt")
    assert text.provenance.licence == "unknown (the reader's own file)"
    assert str(tmp_path) not in json.dumps(text.provenance.to_json())


def test_a_file_with_gutenbergs_markers_is_cleaned(tmp_path):
    (tmp_path / "2600-0.txt").write_bytes(edition())
    text = sources.load_text(str(tmp_path / "2600-0.txt"))
    assert text.content == CLEAN and "Project Gutenberg" in text.provenance.origin


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "is empty"),
        (b"\xef\xbb\xbf", "no letter"),
        (b" \n\t\n", "is empty"),
        (b"12 + 3 = 15\n", "no letter"),
        (b"text\0more", "not a text file: byte 4 is zero"),
        ("text".encode("utf-16"), "not a text file"),
        ("Anna P\xe1vlovna".encode("latin-1"), r"not UTF-8: byte 6 is 0xe1 .*iconv"),
        (f"{START}\n\n{END}\n".encode(), "no letter"),
    ],
)
def test_files_that_are_no_text(tmp_path, content, complaint):
    path = tmp_path / "bad.txt"
    path.write_bytes(content)
    with pytest.raises(sources.SourceError, match=complaint):
        sources.load_text(str(path))


def test_paths_that_lead_nowhere(tmp_path):
    with pytest.raises(
        sources.SourceError, match=r"no text file 'war-and-peas'.*king-james, war-and-peace, auto"
    ):
        sources.load_text("war-and-peas")
    with pytest.raises(sources.SourceError, match="is a folder"):
        sources.load_text(str(tmp_path))
    (tmp_path / "file").write_text("x")
    with pytest.raises(sources.SourceError, match="cannot be read"):
        sources.load_text(str(tmp_path / "file" / "below"))
