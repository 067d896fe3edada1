"""What test modules share: the small book, made once, and which tests stay together when several processes test.

Also the option that writes the book's page of bad days from the tests that are found.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import bad_days
import hypothesis
import pytest
import small_book
from attention_limits.atomic import write_text
from sample_sweep import write_sweep
from xdist.scheduler import LoadScopeScheduling

BOOK = ("test_book.py", "test_reference.py")  # the modules that use the small book
# These begin first, the longest before all.
SLOW = ["book", "test_engine.py", "test_sweep.py", "test_cost.py", "test_comparison.py"]


# A slow machine, or one that measures coverage, is no fault of an example. Whether a fault that `make mutate` put in is
# noticed does not need the smallest example.
every = [hypothesis.Phase.explicit, hypothesis.Phase.reuse, hypothesis.Phase.generate]
phases = every if "MUTANT_UNDER_TEST" in os.environ else [*every, hypothesis.Phase.shrink]
hypothesis.settings.register_profile("any machine", deadline=None, phases=phases)
hypothesis.settings.load_profile("any machine")


@pytest.fixture(scope="session")
def book(tmp_path_factory):
    """Build folder of the whole book at small settings, made by the engine as `make book` does it.

    It has the page of a sweep too, whose results were there before.
    """
    folder = tmp_path_factory.mktemp("the book") / "build"
    write_sweep(folder)
    return small_book.build(folder)


def pytest_collection_modifyitems(items):
    """The longest first. A module that uses the small book without being in BOOK would make one of its own."""
    strays = {item.path.name for item in items if "book" in item.fixturenames} - set(BOOK)
    if strays:
        raise pytest.UsageError(f"name in BOOK of tests/conftest.py: {', '.join(sorted(strays))}")
    scopes = {item: scope(item.nodeid) for item in items}
    items.sort(key=lambda item: SLOW.index(scopes[item]) if scopes[item] in SLOW else len(SLOW))


class ByModule(LoadScopeScheduling):
    """A module's tests stay in one process, for what they share is made once per process; so do those of the book."""

    def _split_scope(self, nodeid):
        return scope(nodeid)


def scope(nodeid):
    """What a test stays together with."""
    name = Path(nodeid.partition("::")[0]).name
    return "book" if name in BOOK else name


def pytest_xdist_make_scheduler(config, log):
    """Called by xdist."""
    return ByModule(config, log)


def pytest_addoption(parser):
    """Add ``--bad-days-page``."""
    parser.addoption(
        "--bad-days-page", type=Path, metavar="FILE", help="write the page that lists the bad days to FILE"
    )


def pytest_configure(config):
    """Begin a list of all tests that are found, those that -k leaves out among them.

    And let Ctrl-C reach what the tests start, also where a shell runs the tests in the background, which ignores it.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config.stash[bad_days.COLLECTED] = []


def pytest_itemcollected(item):
    """Note one."""
    item.config.stash[bad_days.COLLECTED].append(item)


def pytest_collection_finish(session):
    """Write the page, where it is asked for."""
    path = session.config.getoption("--bad-days-page")
    if path:
        write_text(path, bad_days.page(session.config.stash[bad_days.COLLECTED]))
