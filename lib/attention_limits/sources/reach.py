"""One question, with a deadline: does this address answer?"""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse

USER_AGENT = "attention-limits/0.1"
# One probe for the model and one for the text, and the imports before them on a cold disk, stay under five seconds.
PROBE_SECONDS = 1.5


@dataclass(frozen=True)
class Answer:
    """What an address answered: ``ok``, or else the HTTP status (0: none) and the reason in words."""

    ok: bool
    status: int
    reason: str


def probe(url: str, seconds: float = PROBE_SECONDS) -> Answer:
    """Ask ``url`` once and give up after ``seconds`` (proxies from the environment are honoured).

    A name server that hangs cannot be interrupted, so the question is asked by a thread that is left behind.
    """
    answers: list[Answer] = []
    thread = threading.Thread(target=lambda: answers.append(_ask(url, seconds)), daemon=True)
    thread.start()
    thread.join(seconds)
    return answers[0] if answers else Answer(False, 0, f"no answer in {seconds:g} s")


def open_url(url: str, timeout: float) -> HTTPResponse:
    """Open an address under this project's name; ``timeout`` is in seconds without a byte.

    A new opener each time, since the one that urlopen shares keeps the proxies it saw first. Raises OSError or
    HTTPException, ValueError for what is no address.
    """
    request = urllib.request.Request(url, headers={"User-Agent": USER_AGENT})
    return urllib.request.build_opener().open(request, timeout=timeout)


def _ask(url: str, seconds: float) -> Answer:
    try:
        with open_url(url, seconds) as response:
            return Answer(True, response.status, "")
    except urllib.error.HTTPError as error:
        return Answer(False, error.code, f"HTTP status {error.code}")
    except (OSError, HTTPException, ValueError) as error:  # ValueError: not an address at all
        cause = getattr(error, "reason", error)
        if isinstance(cause, TimeoutError):
            return Answer(False, 0, f"no answer in {seconds:g} s")
        return Answer(False, 0, str(getattr(cause, "strerror", None) or cause))
