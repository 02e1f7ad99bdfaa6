"""What holds for all tests."""

from __future__ import annotations

import signal
from pathlib import Path


def pytest_configure() -> None:
    """Let Ctrl-C reach the programs under test: a shell's background job ignores it, and so would they."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Doctests are those of camvo/: modules beside the tests are not imported to look for some."""
    if collection_path.suffix == ".py" and not collection_path.name.startswith(("test_", "conftest")):
        return True
    return None
