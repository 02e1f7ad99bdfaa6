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


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import only what may have tests to run.

    Doctests are those of camvo/: modules beside the tests are not imported to look for some. With ``-m e2e``
    files without such a test are not imported either, which takes each process half a minute.
    """
    if collection_path.suffix != ".py" or collection_path.name.startswith("conftest"):
        return None
    if not collection_path.name.startswith("test_"):
        return True
    marker = {"e2e": "mark.e2e", "soak": "mark.soak"}.get(config.getoption("markexpr"))
    return True if marker and marker not in collection_path.read_text("utf-8") else None
