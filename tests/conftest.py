"""What holds for all tests."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path

import pytest


def pytest_configure() -> None:
    """Let Ctrl-C reach the programs under test: a shell's background job ignores it, and so would they."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Let one process of pytest-xdist run all tests with Label Studio, so that only one is started.

    This and the other groups, one for each file, are for ``--dist loadgroup``.
    """
    for item in items:
        if item.get_closest_marker("e2e"):
            with_studio = "studio" in getattr(item, "fixturenames", ())
            item.add_marker(pytest.mark.xdist_group("label studio" if with_studio else item.path.name))


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Doctests are those of camvo/: modules beside the tests are not imported to look for some."""
    if collection_path.suffix == ".py" and not collection_path.name.startswith(("test_", "conftest")):
        return True
    return None
