"""What holds for all tests."""

from __future__ import annotations

import functools
import signal
from pathlib import Path

import pytest
from xdist.scheduler.loadfile import LoadFileScheduling


def pytest_configure() -> None:
    """Let Ctrl-C reach the programs under test: a shell's background job ignores it, and so would they."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class _OneLabelStudio(LoadFileScheduling):  # type: ignore[misc]  # pytest-xdist has no types
    """Give each process whole files, and all files with a real Label Studio to one: only one is started."""

    def _split_scope(self, nodeid: str) -> str:
        file = str(super()._split_scope(nodeid))
        return "label studio" if _uses_label_studio(self.config.rootpath / file) else file


@functools.cache
def _uses_label_studio(file: Path) -> bool:
    return file.exists() and "from label_studio import" in file.read_text("utf-8")


@pytest.hookimpl(optionalhook=True)  # without pytest-xdist there is no such hook
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadFileScheduling:
    return _OneLabelStudio(config, log)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Doctests are those of camvo/: modules beside the tests are not imported to look for some."""
    if collection_path.suffix == ".py" and not collection_path.name.startswith(("test_", "conftest")):
        return True
    return None
