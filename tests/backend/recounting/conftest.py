"""The prepared project, resumed by each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from doubtful_project import prepare_doubtful
from label_studio_api import LabelStudioApi
from recount_project import Prepared, Studio, prepare, resumed


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return prepare(tmp_path_factory.mktemp("prepared"))


@pytest.fixture(scope="session")
def predicted(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """A project that was predicted for little money."""
    return prepare_doubtful(tmp_path_factory.mktemp("doubtful"))


@pytest.fixture
def api() -> Iterator[LabelStudioApi]:
    with LabelStudioApi() as api:
        yield api


@pytest.fixture
def studio(prepared: Prepared, tmp_path: Path, api: LabelStudioApi) -> Iterator[Studio]:
    studio = resumed(prepared, tmp_path, api)
    with studio.backend:
        yield studio
