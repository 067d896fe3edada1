"""What test modules share: the small book, made once, and which tests stay together when several processes test."""

import pytest
import small_book

SLOW = [
    "book",
    "test_engine.py",
    "test_cost.py",
    "test_comparison.py",
]  # these begin first, the longest before all


@pytest.fixture(scope="session")
def book(tmp_path_factory):
    """Build folder of the whole book at small settings, made by the engine as `make book` does it."""
    return small_book.build(tmp_path_factory.mktemp("the book") / "build")


def pytest_collection_modifyitems(items):
    """A module's tests stay in one process, for what they share is made once per process; so do those of the book."""
    groups = {item: "book" if "book" in item.fixturenames else item.path.name for item in items}
    for item, group in groups.items():
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: SLOW.index(groups[item]) if groups[item] in SLOW else len(SLOW))
