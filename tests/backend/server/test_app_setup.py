"""POST /setup: a project's overrides are stored and used, or refused if they do not fit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from label_studio_requests import Project, setup, task
from whole_backend import Backend, prompt_of, votes

from backend.ledger import projects

ALL = votes(red="Glad", green="Glad", blue="Sad")


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[Backend]:
    with Backend(tmp_path, ALL, policy={"name": "camvo", "n0": 1, "k_min": 1, "delta": 0.0}) as backend:
        yield backend


def stored(backend: Backend) -> object:
    with backend.ledger.read() as connection:
        stored = projects.get(connection, Project().key)
    return None if stored is None else stored.extra_params


def test_setup_answers_the_model_version(backend: Backend) -> None:
    response = backend.post("/setup", setup())
    assert (response.status_code, response.get_json()) == (200, {"model_version": "camvo"})


@pytest.mark.parametrize(
    "extra_params", [{"k_min": 2, "models": ["red", "blue"]}, '{"delta": 0.9}', {}, "", None]
)
def test_extra_params_are_stored_as_they_came(backend: Backend, extra_params: object) -> None:
    backend.post("/setup", setup(extra_params={"delta": 0.5}))
    assert backend.post("/setup", setup(extra_params=extra_params)).status_code == 200
    assert stored(backend) == extra_params


@pytest.mark.parametrize(
    ("bad", "where"),
    [
        ({"delta": 2}, "extra_params.delta"),
        ({"k": 2}, "extra_params.k"),
        ({"models": ["violet"]}, "extra_params.models[0]"),
        ({"k_min": 4}, "extra_params.k_min"),
        ({"worth": {"Pozitive": 50.0}}, "extra_params.worth.Pozitive"),
        ([1], "extra_params"),
        ("no json", "extra_params"),
        (5, "extra_params"),
    ],
)
def test_bad_extra_params_are_refused_and_the_old_ones_stay(
    backend: Backend, bad: object, where: str
) -> None:
    backend.post("/setup", setup(extra_params={"delta": 0.5}))
    response = backend.post("/setup", setup(extra_params=bad))
    assert (response.status_code, response.get_json()["where"]) == (400, where)
    assert stored(backend) == {"delta": 0.5}


def test_a_project_asks_its_own_models_only(backend: Backend) -> None:
    backend.post("/setup", setup(extra_params={"models": ["red", "blue"]}))
    backend.predict(task(1))
    assert sorted(request.model for request in backend.server.requests) == ["blue", "red"]


def test_a_projects_override_leaves_other_projects_alone(backend: Backend) -> None:
    backend.post("/setup", setup(extra_params={"models": ["red"]}))
    backend.predict(task(1, project=Project(number=8)), project=Project(number=8))
    assert backend.server.count() == 3


def test_a_projects_k_min_is_used(backend: Backend) -> None:
    backend.post("/setup", setup(extra_params={"k_min": 2}))
    backend.predict(task(1))  # all three have too few rewards, so all are asked
    before = backend.server.count()
    backend.predict(task(2, "Something else altogether."))
    assert backend.server.count() - before == 2


def test_a_projects_delta_is_used(backend: Backend) -> None:
    """After one round the cheapest model alone reaches δ = 0, and no set reaches δ = 1."""
    backend.predict(task(1))
    before = backend.server.count()
    backend.predict(task(2, "With little confidence."))
    assert backend.server.count() - before == 1
    backend.post("/setup", setup(extra_params={"delta": 1.0}))
    before = backend.server.count()
    backend.predict(task(3, "With all confidence."))
    assert backend.server.count() - before == 3


def test_a_projects_instructions_reach_the_models_as_an_object_or_as_text(backend: Backend) -> None:
    overrides = {"instructions": "Judge as a poet."}
    for number, extra_params in enumerate((overrides, json.dumps(overrides))):
        backend.post("/setup", setup(extra_params=extra_params))
        backend.predict(task(number, f"Entry {number}."))
        assert "Judge as a poet." in prompt_of(backend.server.requests[-1].body)
        backend.post("/setup", setup(extra_params=None))


def test_null_takes_the_overrides_back(backend: Backend) -> None:
    backend.post("/setup", setup(extra_params={"models": ["red"]}))
    backend.post("/setup", setup(extra_params=None))
    backend.predict(task(1))
    assert backend.server.count() == 3


def test_overrides_that_no_longer_fit_the_settings_are_refused_at_predict(
    backend: Backend, tmp_path: Path
) -> None:
    backend.post("/setup", setup(extra_params={"models": ["blue"]}))
    with Backend(tmp_path, ALL, models=("red", "green"), policy={"name": "camvo", "k_min": 1}) as smaller:
        body = {"tasks": [task(1)], "project": Project().key, "label_config": Project().label_config}
        response = smaller.post("/predict", body)
        assert (response.status_code, response.get_json()["where"]) == (400, "extra_params.models[0]")


def test_a_project_whose_labels_are_not_worth_the_same_is_predicted(tmp_path: Path) -> None:
    with Backend(tmp_path, ALL, policy={"name": "joint"}) as backend:
        backend.post("/setup", setup(extra_params={"worth": {"Glad": 50.0, "default": 15.0}}))
        (prediction,) = backend.predict(task(1))
        assert prediction["result"]
