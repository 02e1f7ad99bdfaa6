"""One Label Studio for all end-to-end tests of a test process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from label_studio import LabelStudio, prepare


@pytest.fixture(scope="session")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabelStudio]:
    """A Label Studio that is allowed to call private addresses."""
    prepare()
    with LabelStudio(tmp_path_factory.mktemp("studio")) as started:
        yield started
