"""``camvo label --recount --ask-more``: labels of a file get better, and nothing is paid twice."""

from __future__ import annotations

import json
import os
import random
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from labelling import LabelFolder, Says

from backend.ledger import money
from backend.ledger.money import from_picodollars
from backend.testing import Reply

NOTES = 56


def script(body: dict[str, Any]) -> Reply:
    """Green is right in 95%, red in 75%."""
    found = re.findall(r"note (\d+)", "\n".join(message["content"] for message in body["messages"]))
    number, skill = int(found[-1]), 0.95 if body["model"] == "green" else 0.75
    lucky = random.Random(f"{body['model']} {number}").random() < skill  # noqa: S311 - no secret
    return Reply.says({"label": "Glad" if lucky == bool(number % 2) else "Sad"})


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabelFolder]:
    """A labelled file, for which a right label was worth little."""
    path = tmp_path_factory.mktemp("labelled")
    with LabelFolder(path, script, policy={"name": "joint", "worth": 0.2}) as folder:
        folder.table(*(f"note {number}" for number in range(NOTES)))
        folder.label()
        yield folder


@pytest.fixture
def folder(labelled: LabelFolder, tmp_path: Path) -> Iterator[LabelFolder]:
    """A copy of it, for which a right label is worth much."""
    with labelled.copied(tmp_path) as folder:
        path = folder.path / "camvo.yaml"
        settings = yaml.safe_load(path.read_text())
        path.write_text(yaml.safe_dump(settings | {"policy": {"name": "joint", "worth": 1000.0}}))
        yield folder


def spent(folder: LabelFolder) -> float:
    with folder.ledger.read() as connection:
        return from_picodollars(money.balance(connection, "in", "further").spent)


def votes(folder: LabelFolder) -> int:
    return sum(len(json.loads(row["camvo_votes"])) for row in folder.rows())


def test_a_recount_alone_asks_no_model(folder: LabelFolder) -> None:
    asked = folder.server.count()
    folder.label(recount=True)
    assert folder.server.count() == asked
    assert "Counted again" in folder.console.file.getvalue()  # type: ignore[attr-defined]


def test_asking_more_adds_votes_once_and_within_the_sum(folder: LabelFolder) -> None:
    asked, before = folder.server.count(), votes(folder)
    folder.label(recount=True, ask_more=1.0)
    more = folder.server.count() - asked
    assert more > 0
    assert votes(folder) == before + more
    assert 0.0 < spent(folder) <= 1.0
    folder.label(recount=True, ask_more=1.0)
    assert folder.server.count() == asked + more


def test_ctrl_c_while_more_is_asked_says_what_is_awaited_and_loses_no_answer(folder: LabelFolder) -> None:
    terminal = Says("stopping when the calls under way")

    def interrupted(body: dict[str, Any]) -> Reply:
        os.kill(os.getpid(), signal.SIGINT)
        folder.server.script = script
        return script(body).held_until(terminal.said)

    folder.console.file = terminal
    folder.server.script, asked = interrupted, folder.server.count()
    with pytest.raises(KeyboardInterrupt):
        folder.label(recount=True, ask_more=1.0)
    assert folder.server.count() > asked
    folder.label(recount=True, ask_more=1.0)
    sold = [(request.model, str(request.body)) for request in folder.server.requests[asked:]]
    assert len(sold) == len(set(sold))


def test_without_money_nobody_is_asked(folder: LabelFolder) -> None:
    asked = folder.server.count()
    folder.label(recount=True, ask_more=0.0)
    assert folder.server.count() == asked
    assert spent(folder) == 0.0
