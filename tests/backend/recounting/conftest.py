"""The prepared project, resumed by each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from label_studio_api import LabelStudioApi
from recount_project import Prepared, Studio, prepare, resumed


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return prepare(tmp_path_factory.mktemp("prepared"))


@pytest.fixture
def api() -> Iterator[LabelStudioApi]:
    with LabelStudioApi() as api:
        yield api


@pytest.fixture
def studio(prepared: Prepared, tmp_path: Path, api: LabelStudioApi) -> Iterator[Studio]:
    studio = resumed(prepared, tmp_path, api)
    with studio.backend:
        yield studio
