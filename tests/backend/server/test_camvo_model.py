"""The model class for ``label-studio-ml start``, on a stand-in for the 2.x base class."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from label_studio_requests import SENTIMENT, Annotation, Project, annotated, task

from backend.ledger import Ledger, rounds

STAND_IN = Path(__file__).parent / "label_studio_ml_2"


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    folder = tmp_path_factory.mktemp("label_studio_ml")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(STAND_IN))
        patch.setenv("CAMVO_DATABASE_URL", f"sqlite:///{folder / 'ledger.sqlite'}")
        from backend.server import camvo_model  # noqa: PLC0415 - needs the stand-in

        yield camvo_model
        camvo_model._runtime().close()
    for name in [name for name in sys.modules if name.split(".")[0] == "label_studio_ml"]:
        del sys.modules[name]


def stored(module: ModuleType, number: int) -> list[rounds.Round]:
    ledger: Ledger = module._runtime().ledger
    with ledger.read() as connection:
        return rounds.of_task(connection, "7", number)


def test_setup_shows_the_version_that_predictions_carry(module: ModuleType) -> None:
    model = module.CamvoModel(project_id="7", label_config=SENTIMENT)
    [prediction] = model.predict([task(1)]).predictions
    assert model.model_version == prediction.model_version == "camvo"


def test_a_task_without_a_prediction_is_an_empty_list(module: ModuleType) -> None:
    model = module.CamvoModel(project_id="7", label_config=SENTIMENT)
    assert model.predict([{"id": 2, "data": {}}]).predictions == [[]]


def test_fit_teaches_the_round_that_predict_made(module: ModuleType) -> None:
    model = module.CamvoModel(project_id="7", label_config=SENTIMENT)
    model.predict([task(3)])
    payload = annotated(Annotation(number=1, task=3, mood="Sad"), Project(number=7))
    model.fit(payload.pop("action"), payload)
    assert [round_.taught_by for round_ in stored(module, 3)] == ["human"]


def test_extra_params_are_kept_for_the_project(module: ModuleType) -> None:
    module.CamvoModel.stored_strings["8", "extra_params"] = '{"delta": 0.5}'
    module.CamvoModel(project_id="8", label_config=SENTIMENT)
    assert module._runtime().projects.settings("8").policy.delta == 0.5
