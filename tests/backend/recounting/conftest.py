"""The prepared project, resumed by each test."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from doubtful_project import prepare_doubtful
from label_studio_api import LabelStudioApi
from numpy.typing import NDArray
from recount_project import Prepared, Studio, prepare, resumed

from camvo.joint import human_terms
from camvo.numerics.logit import ChoiceSets, NormalPrior
from camvo.typing import Array


@pytest.fixture(scope="session", autouse=True)
def remembered_fits() -> Iterator[None]:
    """Make each fit to the same human labels once: most tests count the same project, in a second each."""
    made: dict[tuple[Any, ...], Array] = {}
    fit = human_terms.fit_averaged_logit

    def remembered(
        choices: ChoiceSets, prior: NormalPrior, corrections: NDArray[np.bool_], strengths: Sequence[float]
    ) -> Array:
        design = choices.design
        parts = (design.data, design.indices, design.indptr, choices.starts, choices.chosen)
        parts = (*parts, prior.mean, prior.precision, corrections)
        key = (design.shape, *(part.tobytes() for part in parts), *strengths)
        if key not in made:
            made[key] = fit(choices, prior, corrections, strengths)
        return made[key].copy()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(human_terms, "fit_averaged_logit", remembered)
        yield


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return prepare(tmp_path_factory.mktemp("prepared"))


@pytest.fixture(scope="session")
def predicted(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """A project that was predicted for little money."""
    return prepare_doubtful(tmp_path_factory.mktemp("doubtful"))


@pytest.fixture
def studio(prepared: Prepared, tmp_path: Path, api: LabelStudioApi) -> Iterator[Studio]:
    studio = resumed(prepared, tmp_path, api)
    with studio.backend:
        yield studio
