from __future__ import annotations

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
        taken = [projects.next_sequences(connection, key, 1, 1.0) for key in ("1.1", "1.1", "2.1", "1.1")]
    assert [number for (number,) in taken] == [1, 2, 1, 3]


def test_several_sequence_numbers_follow_each_other(ledger: Ledger) -> None:
    with ledger.write() as connection:
        taken = [[*projects.next_sequences(connection, "1.1", count, 1.0)] for count in (2, 3)]
    assert taken == [[1, 2], [3, 4, 5]]
