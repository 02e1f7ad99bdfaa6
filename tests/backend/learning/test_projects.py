"""What the ledger knows about a project."""

from __future__ import annotations

from typing import Any

import pytest

from backend.learning.projects import is_new, project_settings, remember_project
from backend.ledger import Ledger, projects
from backend.ledger.projects import Project
from backend.settings import ModelSettings, Settings

KEY = "7.1"


def own(extra_params: Any) -> Project:
    return Project(KEY, 0, extra_params, "<View/>", "camvo", 1.0)


@pytest.fixture
def settings() -> Settings:
    models = [ModelSettings(name=name, model=f"openai/{name}") for name in ("a", "b")]
    return Settings(models=models)


@pytest.mark.parametrize("stored", [None, own(None)])
def test_a_project_without_overrides_has_the_servers_settings(
    settings: Settings, stored: Project | None
) -> None:
    assert project_settings(stored, settings) == (settings, None)


def test_a_project_has_its_own_overrides(settings: Settings) -> None:
    own_settings, problem = project_settings(own({"models": ["b"]}), settings)
    assert [model.name for model in own_settings.models] == ["b"]
    assert problem is None


def test_overrides_that_no_longer_fit_give_the_servers_settings_and_the_reason(settings: Settings) -> None:
    own_settings, problem = project_settings(own({"models": ["gone"]}), settings)
    assert own_settings is settings
    assert problem is not None
    assert problem.code == "model_unknown"


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"model_version": "camvo"}, False),
        ({"label_config": "<View/>", "extra_params": None}, False),
        ({"label_config": ""}, False),
        ({"model_version": None}, True),
        ({"extra_params": {"delta": 0.5}}, True),
    ],
)
def test_columns_are_new_if_they_differ(columns: dict[str, Any], expected: bool) -> None:
    assert is_new(own(None), columns) == expected


def test_an_unknown_project_is_new() -> None:
    assert is_new(None, {})


def test_an_empty_label_config_leaves_the_stored_one(sqlite_ledger: Ledger) -> None:
    with sqlite_ledger.write() as connection:
        assert remember_project(connection, KEY, {"label_config": "<View/>"}, 1.0) is None
        remember_project(connection, KEY, {"label_config": "", "model_version": "v1"}, 2.0)
        stored = projects.get(connection, KEY)
    assert stored is not None
    assert (stored.label_config, stored.model_version) == ("<View/>", "v1")


def test_equal_columns_are_not_written_again(sqlite_ledger: Ledger) -> None:
    with sqlite_ledger.write() as connection:
        remember_project(connection, KEY, {"model_version": "v1"}, 1.0)
        stored = remember_project(connection, KEY, {"model_version": "v1"}, 2.0)
        after = projects.get(connection, KEY)
    assert stored == after
    assert after is not None
    assert after.updated_at == 1.0
