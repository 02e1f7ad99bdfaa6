"""One Label Studio for all end-to-end tests, because starting one takes half a minute."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from label_studio import LabelStudio


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Let one process of pytest-xdist run all tests with Label Studio, so that only one is started."""
    for item in items:
        if "studio" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("label studio"))
        elif item.get_closest_marker("e2e"):
            item.add_marker(pytest.mark.xdist_group(item.path.name))


@pytest.fixture(scope="session")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabelStudio]:
    """A Label Studio that is allowed to call private addresses."""
    with LabelStudio(tmp_path_factory.mktemp("studio")) as started:
        yield started
