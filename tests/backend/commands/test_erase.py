"""``camvo ledger erase``: a project that Label Studio has no more leaves nothing but what it has cost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import called
from label_studio_api import KEY as TOKEN
from label_studio_api import LabelStudioApi
from label_studio_requests import Annotation, annotated, setup, task
from label_studio_requests import Project as StudioProject
from sqlalchemy import func, insert, select
from whole_backend import Backend, votes

from backend.ledger import money, projects
from backend.ledger.database import tables
from backend.ledger.projects import AlertKey, Alerts

OTHER = StudioProject(number=8)
KEY = StudioProject().key
SPLIT = votes(red="Glad", green="Glad", blue="Sad")
MONEY = {"calls", "call_shares", "accounts"}


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[Backend]:
    """Two projects, the tasks of both with the same texts, so that they share answers."""
    with Backend(tmp_path, SPLIT, few_shot=3) as backend:
        for project in (StudioProject(), OTHER):
            backend.post("/setup", setup(project))
            backend.predict(*(task(number) for number in (1, 2, 3)), project=project)
        backend.hook(annotated(Annotation(1, 1, "Sad", user=7)))
        with backend.ledger.write() as connection:
            Alerts(connection).see([AlertKey(KEY, "model_failing", "red")])
        yield backend


def erase(folder: Path, *arguments: str, **environment: str) -> Any:
    environment |= {"CAMVO_DATABASE_URL": f"sqlite:///{folder / 'ledger.sqlite'}", "COLUMNS": "80"}
    config = str(folder / "camvo.yaml")
    return called("ledger", "erase", *arguments, "--config", config, cwd=folder, **environment)


def held(backend: Backend, project: str) -> dict[str, int]:
    """Table → its rows about a project."""
    with backend.ledger.read() as connection:
        return {
            table.name: rows
            for table in tables.metadata.sorted_tables
            if "project" in table.c
            and (
                rows := connection.scalars(
                    select(func.count()).select_from(table).where(table.c.project == project)
                ).one()
            )
        }


def test_nothing_is_left_of_a_project_but_its_money(backend: Backend, tmp_path: Path) -> None:
    with backend.ledger.read() as connection:
        spent = money.balance(connection, KEY, money.TOTAL)
        contexts = connection.scalars(select(func.count()).select_from(tables.contexts)).one()
    other = held(backend, OTHER.key)
    done = erase(tmp_path, "--project", "7", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    what = "3 tasks with 3 rounds, 9 answers of models and 1 human label"
    assert done.stdout.splitlines()[0].endswith(f"{what} to erase")
    assert f"{what} were erased. The $" in done.stdout
    assert held(backend, KEY).keys() <= MONEY
    assert held(backend, OTHER.key) == other
    with backend.ledger.read() as connection:
        assert money.balance(connection, KEY, money.TOTAL) == spent
        assert [stored.key for stored in projects.list_all(connection)] == [OTHER.key]
        assert contexts - connection.scalars(select(func.count()).select_from(tables.contexts)).one() == 3
        assert list(money.wrong_accounts(connection)) == []
    assert [each["key"] for each in backend.client.get("/status").json["projects"]] == [OTHER.key]


def test_it_asks_first_and_a_dry_run_erases_nothing(backend: Backend, tmp_path: Path) -> None:
    before = held(backend, KEY)
    assert erase(tmp_path, "--project", "7", "--dry-run").stdout.endswith("Nothing was changed.\n")
    done = erase(tmp_path, "--project", "7")
    assert (done.returncode, done.stderr) == (
        2,
        "camvo: erase: there is no terminal to ask (add --yes or --dry-run)\n",
    )
    assert held(backend, KEY) == before


def test_only_a_project_that_label_studio_has_no_more_is_erased(backend: Backend, tmp_path: Path) -> None:
    before = held(backend, KEY)
    with LabelStudioApi() as api:
        access = {"LABEL_STUDIO_URL": api.url, "LABEL_STUDIO_API_KEY": TOKEN}
        path = "/api/projects/7/"
        created = StudioProject().created.isoformat()
        api.answers["GET", path] = (200, api.project | {"id": 7, "created_at": created})
        done = erase(tmp_path, "--project", "7", "--yes", **access)
        assert done.returncode == 2
        assert "project 7 is still in Label Studio" in done.stderr
        assert held(backend, KEY) == before
        api.answers["GET", path] = (404, {"detail": "Not found."})
        assert erase(tmp_path, "--project", "7", "--yes", **access).returncode == 0
    assert held(backend, KEY).keys() <= MONEY


def test_a_batch_under_way_is_waited_for(backend: Backend, tmp_path: Path) -> None:
    job = {"id": "0" * 32, "project": KEY, "model": "red", "state": "out", "owner": "me", "files": {}}
    job |= {"leased_until": 0.0, "lines": 1, "tokens": 1, "cancelled": False, "created_at": 0.0}
    with backend.ledger.write() as connection:
        connection.execute(insert(tables.batch_jobs), job)
    done = erase(tmp_path, "--project", "7", "--yes")
    assert done.returncode == 2
    assert "a batch of the project is under way" in done.stderr
