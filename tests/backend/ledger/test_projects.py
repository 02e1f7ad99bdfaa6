from __future__ import annotations

import pytest

from backend.errors import LedgerError
from backend.ledger import Ledger, projects
from backend.ledger.projects import Project


def test_an_unknown_project_is_none(ledger: Ledger) -> None:
    with ledger.read() as connection:
        assert projects.get(connection, "1.1") is None


def test_ensuring_a_known_project_changes_nothing(ledger: Ledger) -> None:
    with ledger.write() as connection:
        projects.ensure(connection, "1.1", 5.0)
        projects.ensure(connection, "1.1", 6.0)
        assert projects.list_all(connection) == [Project("1.1", 0, None, None, None, 5.0)]


def test_remember_leaves_other_columns_unchanged(ledger: Ledger) -> None:
    with ledger.write() as connection:
        projects.remember(connection, "1.1", extra_params={"delta": 0.9, "models": ["a"]}, now=1.0)
        projects.remember(connection, "1.1", label_config="<View/>", model_version="camvo", now=2.0)
        expected = Project("1.1", 0, {"delta": 0.9, "models": ["a"]}, "<View/>", "camvo", 2.0)
        assert projects.get(connection, "1.1") == expected


def test_remembering_none_clears_a_column(ledger: Ledger) -> None:
    with ledger.write() as connection:
        projects.remember(connection, "1.1", extra_params={"delta": 0.9}, label_config="<View/>", now=1.0)
        projects.remember(connection, "1.1", extra_params=None, now=2.0)
        assert projects.get(connection, "1.1") == Project("1.1", 0, None, "<View/>", None, 2.0)


def test_projects_are_listed_by_key(ledger: Ledger) -> None:
    with ledger.write() as connection:
        for key in ("2.1", "1.1", "10.1"):
            projects.ensure(connection, key, 1.0)
        assert [project.key for project in projects.list_all(connection)] == ["1.1", "10.1", "2.1"]


def test_sequences_count_from_one_in_each_project(ledger: Ledger) -> None:
    with ledger.write() as connection:
        projects.ensure(connection, "1.1", 1.0)
        projects.ensure(connection, "2.1", 1.0)
        numbers = [projects.next_sequence(connection, key) for key in ("1.1", "1.1", "2.1", "1.1")]
    assert numbers == [1, 2, 1, 3]


def test_a_sequence_number_for_an_unknown_project_is_refused(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match=r"project 1\.1"), ledger.write() as connection:
        projects.next_sequence(connection, "1.1")
