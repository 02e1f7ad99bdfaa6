from __future__ import annotations

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from ledger_workers import Together, migrate
from sqlalchemy import inspect, text

from backend.errors import LedgerError
from backend.ledger import Ledger, projects
from backend.ledger.database.tables import metadata


def test_the_migrations_create_exactly_the_tables_that_the_code_uses(ledger: Ledger) -> None:
    with ledger.read() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": True}
        )
        assert compare_metadata(context, metadata) == []
        assert set(inspect(connection).get_table_names()) == {*metadata.tables, "alembic_version"}


def test_the_comparison_would_see_a_missing_column(ledger: Ledger) -> None:
    with ledger.write() as connection:
        connection.execute(text("ALTER TABLE events DROP COLUMN kind"))
    with ledger.read() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) != []


def test_migrating_again_keeps_what_is_there(ledger: Ledger) -> None:
    with ledger.write() as connection:
        projects.ensure(connection, "1.1", 5.0)
    ledger.migrate()
    with ledger.read() as connection:
        assert [project.key for project in projects.all(connection)] == ["1.1"]


def test_processes_that_start_together_can_all_migrate(database_url: str) -> None:
    assert Together(migrate, *[(database_url,)] * 3).succeeded()
    ledger = Ledger(database_url)
    assert ledger.answers()
    ledger.close()


def test_a_ledger_of_a_newer_version_is_left_alone_and_explained(ledger: Ledger) -> None:
    with ledger.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(LedgerError, match="install the version of CaMVo that wrote the ledger"):
        ledger.migrate()
    with ledger.read() as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one() == "9999"


def test_a_ledger_of_the_first_version_is_filled_in(database_url: str) -> None:
    ledger = Ledger(database_url)
    _migrate_to(ledger, "0001")
    first = {
        "project": "1.1",
        "control": "mood",
        "question": "q",
        "epoch": "e",
        "plan": "{}",
        "label": "Glad",
        "score": 0.9,
        "audit": True,
        "context": b"<f4",
    }
    rows = [
        {"task": 1, "votes": '{"red": "Glad", "blue": "Sad", "new": null}', "taught": "Sad", "by": "human"},
        {"task": 2, "votes": '{"red": "Glad", "new": null}', "taught": "Glad", "by": "vote"},
    ]
    statement = text(
        "INSERT INTO rounds (project, task, control, question, epoch, plan, votes, label, score, cost_usd, "
        "full_cost_usd, audit, taught, taught_by, context, created_at) VALUES (:project, :task, :control, "
        ":question, :epoch, :plan, :votes, :label, :score, 0, 0, :audit, :taught, :by, :context, 0)"
    )
    with ledger.write() as connection:
        connection.execute(statement, [first | row for row in rows])
    ledger.migrate()
    with ledger.read() as connection:
        votes = connection.execute(
            text("SELECT round_id, model, voted, agreed, confirmed FROM votes ORDER BY round_id, model")
        ).all()
        rounds = connection.execute(text("SELECT human, confirmed FROM rounds ORDER BY id")).all()
    ledger.close()
    assert rounds == [("Sad", 0.0), (None, None)]
    assert votes == [
        (1, "blue", True, 0.0, 1.0),
        (1, "new", False, None, None),
        (1, "red", True, 1.0, 0.0),
        (2, "new", False, None, None),
        (2, "red", True, None, None),
    ]


def test_votes_that_were_asked_for_because_of_other_votes_say_nothing_of_their_models(
    database_url: str,
) -> None:
    ledger = Ledger(database_url)
    _migrate_to(ledger, "0002")
    stages = '{"stages": {"order": ["blue", "red"], "first": %s}}'
    rounds = [{"task": 1, "plan": stages % 1}, {"task": 2, "plan": stages % 2}, {"task": 3, "plan": "{}"}]
    with ledger.write() as connection:
        connection.execute(
            text(
                "INSERT INTO rounds (project, task, control, question, epoch, plan, votes, label, score, "
                "cost_usd, full_cost_usd, audit, context, created_at) VALUES ('1.1', :task, 'mood', 'q', "
                "'e', :plan, '{}', 'Glad', 0.9, 0, 0, :no, :context, 0)"
            ),
            [{**round_, "no": False, "context": b"<f4"} for round_ in rounds],
        )
        connection.execute(
            text(
                "INSERT INTO votes (round_id, model, project, audit, voted, agreed, confirmed) "
                "SELECT id, :model, project, audit, :yes, 1, 1 FROM rounds"
            ),
            [{"model": model, "yes": True} for model in ("blue", "red")],
        )
    ledger.migrate()
    with ledger.read() as connection:
        votes = connection.execute(
            text("SELECT round_id, model, agreed, confirmed FROM votes ORDER BY round_id, model")
        ).all()
    ledger.close()
    assert votes == [
        (1, "blue", None, 1.0),
        (1, "red", None, None),
        (2, "blue", 1.0, 1.0),
        (2, "red", 1.0, 1.0),
        (3, "blue", 1.0, 1.0),
        (3, "red", 1.0, 1.0),
    ]


def _migrate_to(ledger: Ledger, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", "backend.ledger:migrations")
    with ledger.write() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
