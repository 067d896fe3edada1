"""What test modules share: the small book, made once, and which tests stay together when several processes test.

Also the option that writes the book's page of bad days from the tests that are found.
"""

from __future__ import annotations

from pathlib import Path

import bad_days
import hypothesis
import pytest
import small_book
from attention_limits.atomic import write_text
from sample_sweep import write_sweep

SLOW = [
    "book",
    "test_engine.py",
    "test_sweep.py",
    "test_cost.py",
    "test_comparison.py",
]  # these begin first, the longest before all


# A slow machine, or one that measures coverage, is no fault of an example.
hypothesis.settings.register_profile("any machine", deadline=None)
hypothesis.settings.load_profile("any machine")


@pytest.fixture(scope="session")
def book(tmp_path_factory):
    """Build folder of the whole book at small settings, made by the engine as `make book` does it.

    It has the page of a sweep too, whose results were there before.
    """
    folder = tmp_path_factory.mktemp("the book") / "build"
    write_sweep(folder)
    return small_book.build(folder)


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items):
    """A module's tests stay in one process, for what they share is made once per process; so do those of the book."""
    groups = {item: "book" if "book" in item.fixturenames else item.path.name for item in items}
    for item, group in groups.items():
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: SLOW.index(groups[item]) if groups[item] in SLOW else len(SLOW))


def pytest_addoption(parser):
    """Add ``--bad-days-page``."""
    parser.addoption(
        "--bad-days-page", type=Path, metavar="FILE", help="write the page that lists the bad days to FILE"
    )


def pytest_configure(config):
    """Begin a list of all tests that are found, those that -k leaves out among them."""
    config.stash[bad_days.COLLECTED] = []


def pytest_itemcollected(item):
    """Note one."""
    item.config.stash[bad_days.COLLECTED].append(item)


def pytest_collection_finish(session):
    """Write the page, where it is asked for."""
    path = session.config.getoption("--bad-days-page")
    if path:
        write_text(path, bad_days.page(session.config.stash[bad_days.COLLECTED]))
