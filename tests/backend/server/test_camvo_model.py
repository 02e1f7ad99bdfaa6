"""The model class for ``label-studio-ml start``, on a stand-in for the 2.x base class."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest
from flask.testing import FlaskClient
from label_studio_requests import (
    SENTIMENT,
    Annotation,
    Project,
    annotated,
    annotations_deleted,
    predict,
    setup,
    task,
)
from server_process import child

from backend.ledger import Ledger, rounds
from backend.ledger.rounds import ProjectRounds

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
        return ProjectRounds(connection, "7").of_task(number)


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


@pytest.fixture
def client(module: ModuleType) -> FlaskClient:
    """A client of the package's own server."""
    from label_studio_ml.api import init_app  # type: ignore[import-not-found]  # noqa: PLC0415 - the stand-in

    return cast("FlaskClient", init_app(module.CamvoModel).test_client())


def test_setup_does_not_wait_for_the_runtime(
    module: ModuleType, client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    never: Future[Any] = Future()
    monkeypatch.setattr(module, "_starting", lambda: never)
    body = setup(Project(number=9), extra_params={"delta": 0.5})
    assert client.post("/setup", json=body).get_json() == {"model_version": "camvo"}


def test_extra_params_as_an_object_are_kept_for_the_project(module: ModuleType, client: FlaskClient) -> None:
    assert client.post("/setup", json=setup(Project(number=10), {"delta": 0.5})).status_code == 200
    assert module._runtime().projects.settings("10").policy.delta == 0.5


def test_a_deleted_annotation_is_unlearnt_although_the_server_ignores_the_event(
    module: ModuleType, client: FlaskClient
) -> None:
    project = Project(number=7)
    client.post("/predict", json=predict([task(4)], project))
    client.post("/webhook", json=annotated(Annotation(number=41, task=4, mood="Sad"), project))
    assert [round_.taught_by for round_ in stored(module, 4)] == ["human"]
    answer = client.post("/webhook", json=annotations_deleted(41, project=project))
    assert answer.get_json() == {"status": "Unknown event"}
    assert [round_.taught_by for round_ in stored(module, 4)] == ["vote"]


def test_the_copy_that_create_makes_works_beside_the_package(tmp_path: Path) -> None:
    """``create`` copies the script, and writes a ``_wsgi.py`` that imports it by its file's name."""
    copy = tmp_path / "my_backend"
    copy.mkdir()
    shutil.copy(Path(__file__).parents[3] / "backend" / "server" / "camvo_model.py", copy)
    (copy / "_wsgi.py").write_text(
        "from camvo_model import CamvoModel\n"
        "from label_studio_ml.api import init_app\n"
        "print(init_app(model_class=CamvoModel).name)\n"
    )
    path = os.pathsep.join([str(STAND_IN), str(Path(__file__).parents[3])])
    done = subprocess.run(  # noqa: S603 - our own
        [sys.executable, str(copy / "_wsgi.py")],
        cwd=tmp_path,
        env=child(PYTHONPATH=path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "label_studio_ml\n"), done.stderr


def test_extra_params_are_kept_for_the_project(module: ModuleType) -> None:
    module.CamvoModel.stored_strings["8", "extra_params"] = '{"delta": 0.5}'
    module.CamvoModel(project_id="8", label_config=SENTIMENT)
    assert module._runtime().projects.settings("8").policy.delta == 0.5
