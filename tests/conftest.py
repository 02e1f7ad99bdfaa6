"""What holds for all tests."""

from __future__ import annotations

import functools
import logging
import os
import re
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.doctest import DoctestModule
from xdist.scheduler.loadfile import LoadFileScheduling


class _Loggers(dict[str, Any]):
    """All loggers, safe to iterate over while other threads create new ones.

    pytest iterates over them before each phase of each test. It would fail if a library that a backend
    imports in its own thread created a logger meanwhile.
    """

    def values(self) -> Iterator[Any]:  # type: ignore[override]  # callers only iterate
        return iter(tuple(super().values()))


logging.root.manager.loggerDict = _Loggers(logging.root.manager.loggerDict)


def pytest_configure() -> None:
    """Let Ctrl-C reach the programs under test, and all processes keep what they compile, for one another.

    A shell's background job ignores Ctrl-C, and so would the programs.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


class _OneEmbedder(LoadFileScheduling):  # type: ignore[misc]  # pytest-xdist has no types
    """Give each process whole files, and one all that need the packaged embedder, whose import is slow."""

    def _split_scope(self, nodeid: str) -> str:
        file = str(super()._split_scope(nodeid))
        return "an embedder" if _needs_embedder(self.config.rootpath / file) else file


@functools.cache
def _needs_embedder(file: Path) -> bool:
    text = file.read_text("utf-8") if file.exists() else ""
    return re.search("packaged=True|Embedder\\(|embedder=str", text) is not None


@pytest.hookimpl(optionalhook=True)  # without pytest-xdist there is no such hook
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadFileScheduling:
    return _OneEmbedder(config, log)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import only what may have tests to run.

    Doctests are those of camvo/: modules beside the tests are not imported to look for some. With ``-m e2e``
    files without such a test are not imported either, which takes each process half a minute, and without it
    none in which all are such tests.
    """
    if collection_path.suffix != ".py" or collection_path.name.startswith("conftest"):
        return None
    if not collection_path.name.startswith("test_"):
        return True
    return None if _may_run(collection_path, config) else True


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for no doctest in the tests, in which there is none."""
    return [found for found in (yield) if not isinstance(found, DoctestModule)]


def _may_run(file: Path, config: pytest.Config) -> bool:
    """Whether a file may have tests that ``-m`` selects."""
    text, wanted = file.read_text("utf-8"), config.getoption("markexpr")
    if wanted in {"e2e", "soak"}:
        return f"mark.{wanted}" in text
    of_all = re.search(r"^pytestmark = \[pytest\.mark\.(e2e|soak),", text, re.MULTILINE)
    return of_all is None or "not e2e" not in wanted
