"""A spell in which every model answers with garbage, and the repeat after it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from ledger_audit import Audit, audited
from postgres import Postgres
from provider import Provider, prompt_hash
from server_process import MODELS, ServerProcess, config_for, task_of
from sqlalchemy import func, select

from backend.ledger.database import tables
from backend.testing import Reply

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

FURTHER = 2
"""Further attempts at a prompt whose answer was unusable."""

_USELESS = 10**15


def _with(reply: Reply, **changes: object) -> Reply:
    return replace(reply, body={**dict(reply.body), **changes})  # type: ignore[call-overload]


def _message(**changes: object) -> Reply:
    message = {"role": "assistant", "content": None, **changes}
    return _with(Reply.says(""), choices=[{"index": 0, "message": message, "finish_reason": "stop"}])


GARBAGE: Mapping[str, Reply] = {
    "an empty text": Reply.says(""),
    "blanks": Reply.says(" \n\t "),
    "null content": Reply.says(None),
    "a content of parts": _message(content=[{"type": "text", "text": '{"mood": "Glad"}'}]),
    "a number as content": _message(content=7),
    "a tool call": _message(tool_calls=[{"id": "1", "type": "function", "function": {"name": "f"}}]),
    "no choices": Reply.no_choices(),
    "null choices": _with(Reply.says(""), choices=None),
    "a refusal in words": Reply.says("I'm sorry, but I can't help with that."),
    "a refusal in its field": Reply.says(None, refusal="I can't help with that."),
    "a content filter": Reply.says("", finish_reason="content_filter"),
    "reasoning that used up the tokens": Reply.says("", usage=(10, 300), finish_reason="length"),
    "a wrong label": Reply.says({"mood": "Furious"}),
    "a wrong key": Reply.says({"feeling": "Glad"}),
    "two labels": Reply.says({"mood": ["Glad", "Sad"]}),
    "the same key twice": Reply.says('{"mood": "Glad", "mood": "Sad"}'),
    "an object as label": Reply.says({"mood": {"label": {"is": "Glad"}}}),
    "null as label": Reply.says({"mood": None}),
    "a list": Reply.says("[1, 2, 3]"),
    "JSON that is cut off": Reply.says('{"mood": "Gl'),
    "deeply nested JSON": Reply.says("[" * 100_000),
    "NUL and a lone surrogate": Reply.says("\x00\ud800"),
    "words in another script": Reply.says("Ich weiß es nicht. 不知道。"),
    "20 MB": Reply.says("Glad or sad? " * 1_600_000),
    "a body that is cut off": Reply.broken(),
    "a page with status 200": Reply.page(),
    "a page with status 502": Reply.page(status=502),
    "usage of 10^15 tokens": Reply.says("Who knows?", usage=(_USELESS, _USELESS)),
    "negative usage": Reply.says("Who knows?", usage=(-5, -7)),
    "usage in words": _with(
        Reply.says("Who knows?"), usage={"prompt_tokens": "ten", "completion_tokens": []}
    ),
}
"""One task for each kind."""

TASKS = range(1, len(GARBAGE) + 1)
BOASTER = 500
"""A task about which models answer well, but report an absurd usage."""


@dataclass
class Spell:
    """What the spell left behind.

    Attributes:
        health: the status of GET /health during the spell.
        boasted: the predictions of the task with absurd usage.
        spent: $ on that task.
        repeated: the predictions after the spell.
        attempts: (model, prompt) → how often it was asked in all.
        longest: characters of the longest stored answer.
        audit: of the ledger at the end.
        log: the server's.
    """

    health: int = 0
    boasted: list[Any] = field(default_factory=list)
    spent: float = 0.0
    repeated: list[Any] = field(default_factory=list)
    attempts: Counter[tuple[str, str]] = field(default_factory=Counter)
    longest: int = 0
    audit: Audit = field(default_factory=Audit)
    log: str = ""


@pytest.fixture(scope="module")
def spell(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres, seed: int) -> Iterator[Spell]:
    folder, spell = tmp_path_factory.mktemp("garbage"), Spell()
    kinds = list(GARBAGE.values())

    def garbage(body: dict[str, Any]) -> Reply:
        number = task_of(body)
        if number == BOASTER:
            return Reply.says({"mood": "Glad"}, usage=(_USELESS, _USELESS))
        return kinds[number - 1]

    with (
        Provider(seed) as provider,
        ServerProcess(folder, config_for(provider, folder), database_url=postgres.new_ledger_url()) as server,
    ):
        server.start()
        provider.instead = garbage
        spell.boasted = server.predict([BOASTER])
        for _ in range(FURTHER):  # the first attempt, and one further attempt of two
            server.predict(TASKS)
        spell.health = server.get("/health").status_code
        provider.instead = None
        results = server.predict(TASKS)
        spell.repeated = results
        for number, result in zip(TASKS, results, strict=True):
            if result:
                provider.books.predicted[number] = result["result"][0]["value"]["choices"][0]
        spell.attempts = Counter((request.model, prompt_hash(request.body)) for request in provider.requests)
        spent = select(func.sum(tables.calls.c.cost)).where(tables.calls.c.task == BOASTER)
        spell.spent = float(server.rows(spent)[0][0] or 0) / 1e12
        spell.longest = server.rows(select(func.max(func.length(tables.answers.c.content))))[0][0]
        spell.audit = audited(server.ledger, provider.books)
        spell.log = server.log
        yield spell


def test_there_are_more_than_27_kinds_of_garbage() -> None:
    kinds = {(reply.status, str(reply.body), str(reply.headers)) for reply in GARBAGE.values()}
    assert len(kinds) == len(GARBAGE) > 27


def test_a_repeat_after_the_spell_predicts_every_task_but_that_of_cut_off_answers(spell: Spell) -> None:
    """The same prompt would be cut off again, so it is not bought again before ``max_tokens`` is raised."""
    without = [kind for kind, result in zip(GARBAGE, spell.repeated, strict=True) if not result]
    assert without == ["reasoning that used up the tokens"]


def test_no_prompt_is_tried_more_often_than_twice_again(spell: Spell) -> None:
    assert len(spell.attempts) == len(MODELS) * (len(TASKS) + 1)
    assert max(spell.attempts.values()) <= 1 + FURTHER


def test_absurd_usage_is_not_believed_and_the_label_counts(spell: Spell) -> None:
    assert all(spell.boasted)
    assert spell.spent < 0.05


def test_the_ledger_is_sound_after_garbage(spell: Spell) -> None:
    assert not spell.audit.problems


def test_a_huge_answer_is_not_stored(spell: Spell) -> None:
    assert spell.longest < 1_000_000


def test_the_server_is_healthy_during_the_spell_and_logs_no_traceback(spell: Spell) -> None:
    assert spell.health == 200
    assert "Traceback" not in spell.log
