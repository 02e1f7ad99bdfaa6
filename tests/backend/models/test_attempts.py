"""Unusable answers: each is stored, and a prompt is asked again twice at most."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from answer_users import ANSWER_USERS
from ledger_workers import delete_task
from sqlalchemy import select

from backend.errors import BadAnswerError, CutOffError, ModelError, RefusedError, UnusableAnswersError
from backend.ledger import Ledger, Writer
from backend.ledger.database import tables
from backend.models import Pool
from backend.models.call_ledger import CallLedger, ModelQuery
from backend.models.pool import CachingPool
from backend.questions import parse_label_config
from backend.questions.prompts.answers import parse_answer
from backend.settings import BudgetSettings, ModelSettings
from backend.testing import OpenAIServer, Reply

MESSAGES = [{"role": "system", "content": "Label it."}, {"role": "user", "content": "A long day."}]
CONFIG = """<View><Text name="text" value="$text"/><Choices name="mood" toName="text">
<Choice value="Glad"/><Choice value="Sad"/></Choices></View>"""
QUESTIONS = [parse_label_config(CONFIG).questions[0].about({"text": "A long day."})]
GLAD = Reply.says('{"mood": "Glad"}')
WRONG = Reply.says('{"mood": "Ecstatic"}')


def usable(content: str) -> bool:
    try:
        return bool(parse_answer(content, QUESTIONS))
    except BadAnswerError:
        return False


class Process:
    """One process with the model ``red``, and the server of the model."""

    def __init__(self, ledger: Ledger, server: OpenAIServer) -> None:
        self.ledger, self.server, self.writer = ledger, server, Writer(ledger)
        self.with_max_tokens(100)

    def with_max_tokens(self, most: int) -> Process:
        """The same process after a restart with this setting."""
        model = ModelSettings(
            name="red",
            model="openai/red",
            input_price=1.0,
            output_price=2.0,
            structured_output=False,
            max_tokens=most,
            parameters={"api_base": self.server.url},
        )
        self.models = Pool([model])
        self.pool = CachingPool(self.models, CallLedger(self.writer, lambda: 1e9), retries=2)
        return self

    def replies(self, *replies: Reply) -> None:
        """Let the model send these replies in turn, and then repeat the last one."""
        left = list(replies)
        self.server.script = lambda body: left.pop(0) if len(left) > 1 else left[0]

    async def ask(self, task: int = 1) -> str:
        """One run of a task: the answer, or the code of the error."""
        try:
            query = ModelQuery("7.1", task, "red", MESSAGES, {}, BudgetSettings(), QUESTIONS)
            return (await self.pool.ask(query, 10.0, usable)).content
        except ModelError as error:
            return error.code

    def runs(self, number: int, task: int = 1) -> list[str]:
        """So many runs of a task, one after the other."""

        async def run() -> list[str]:
            return [await self.ask(task) for _ in range(number)]

        return asyncio.run(run())

    def rows(self, table: Any) -> list[Any]:
        with self.ledger.read() as connection:
            return list(connection.execute(select(table)).all())


@pytest.fixture
def process(sqlite_ledger: Ledger) -> Iterator[Process]:
    with OpenAIServer(lambda body: GLAD) as server:
        process = Process(sqlite_ledger, server)
        yield process
        process.writer.close()


def tool_call() -> Reply:
    reply = Reply.says(None)
    call = {"id": "1", "type": "function", "function": {"name": "label", "arguments": '{"mood": "Ecstatic"}'}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    return replace(reply, body={**dict(reply.body), "choices": [choice]})  # type: ignore[call-overload]


UNUSABLE = {
    "empty": Reply.says(""),
    "empty and unpaid": Reply.says("", usage=(0, 0)),
    "no content": Reply.says(None),
    "spaces": Reply.says(" \n\t "),
    "no choices": Reply.no_choices(),
    "a wrong label in a tool call": tool_call(),
    "a refusal in words": Reply.says("I am sorry, but I can not help with that."),
    "a refusal of the API": Reply.says(None, refusal="I can not help with that."),
    "a refusal beside a label": Reply.says('{"mood": "Glad"}', refusal="I can not help with that."),
    "filtered, with a label": Reply.says('{"mood": "Glad"}', finish_reason="content_filter"),
    "filtered with a 400": Reply.fails(400, code="content_filter"),
    "a wrong label": WRONG,
    "a wrong label without JSON": Reply.says("Ecstatic"),
    "a wrong label in a fence": Reply.says('```json\n{"mood": "Ecstatic"}\n```'),
    "a label in another language": Reply.says('{"mood": "Froh"}'),
    "two labels": Reply.says("Glad or Sad"),
    "no label": Reply.says('{"mood": null}'),
    "a number": Reply.says('{"mood": 1}'),
    "a boolean": Reply.says('{"mood": true}'),
    "an object for a label": Reply.says('{"mood": {"is": "Glad"}}'),
    "another question": Reply.says('{"sentiment": "Glad"}'),
    "a repeated question": Reply.says('{"mood": "Glad", "mood": "Sad"}'),
    "an empty object": Reply.says("{}"),
    "an empty list": Reply.says("[]"),
    "the schema": Reply.says('{"type": "object", "properties": {"mood": {"enum": ["Glad", "Sad"]}}}'),
    "a page": Reply.says("<html><body>Bad gateway</body></html>"),
    "NUL": Reply.says("\x00\x00"),
    "a lone surrogate": Reply.says("\ud800"),
    "brackets without end": Reply.says("[" * 10_000),
    "twenty megabytes": Reply.says("Glad " * 4_000_000),
}


@pytest.mark.parametrize("reply", UNUSABLE.values(), ids=UNUSABLE)
def test_an_unusable_answer_of_any_kind_is_asked_again_twice_and_then_final(
    process: Process, reply: Reply
) -> None:
    process.replies(reply)
    outcomes = process.runs(5)
    assert process.server.count() == 3
    assert outcomes[3:] == [UnusableAnswersError.code] * 2
    failed = {RefusedError.code, BadAnswerError.code}
    assert all(outcome in failed or not usable(outcome) for outcome in outcomes[:3])
    assert all(len(row.content) < 20_000 for row in process.rows(tables.answers))


CUT = {
    "nothing": Reply.says("", finish_reason="length"),
    "half of the JSON": Reply.says('{"mood": "Gl', finish_reason="length"),
    "reasoning": Reply.says("<think>The day was long, so", finish_reason="length"),
}


@pytest.mark.parametrize("reply", CUT.values(), ids=CUT)
def test_an_answer_that_max_tokens_cut_off_is_bought_once(process: Process, reply: Reply) -> None:
    process.replies(reply)
    outcomes = process.runs(4)
    assert process.server.count() == 1
    assert outcomes[1:] == [CutOffError.code] * 3


def test_a_longer_answer_than_the_one_that_was_cut_off_may_be_asked_for(process: Process) -> None:
    process.replies(CUT["reasoning"], GLAD)
    process.runs(1)
    assert process.with_max_tokens(2000).runs(2) == ['{"mood": "Glad"}'] * 2
    assert process.server.count() == 2


def test_a_label_in_an_answer_that_was_cut_off_counts(process: Process) -> None:
    process.replies(Reply.says('{"mood": "Glad"}', finish_reason="length"))
    assert [usable(outcome) for outcome in process.runs(2)] == [True, True]
    assert process.server.count() == 1


def test_a_usable_answer_after_a_spell_of_garbage_is_kept(process: Process) -> None:
    process.replies(WRONG, Reply.says(""), GLAD)
    assert process.runs(5) == ['{"mood": "Ecstatic"}', "model_bad_answer", *['{"mood": "Glad"}'] * 3]
    assert process.server.count() == 3


def test_one_run_asks_once(process: Process) -> None:
    process.replies(WRONG, GLAD)
    assert process.runs(1) == ['{"mood": "Ecstatic"}']
    assert process.server.count() == 1


def test_the_first_attempt_has_the_key_of_ledgers_that_know_no_attempts(process: Process) -> None:
    process.replies(WRONG)
    process.runs(4)
    first = process.models["red"].model.fingerprint(MESSAGES, {})
    further = [hashlib.sha256(f"{first}{attempt}".encode()).hexdigest() for attempt in (1, 2)]
    keys = [key[:32] for key in (first, *further)]
    assert {row.key for row in process.rows(tables.answers)} == set(keys)
    assert [row.key for row in process.rows(tables.calls)] == [key[:8] for key in keys]


def test_a_failure_of_the_provider_is_no_attempt(process: Process) -> None:
    process.replies(*[Reply.fails(400)] * 5, GLAD)
    assert process.runs(6) == ["model_rejected"] * 5 + ['{"mood": "Glad"}']


def test_tasks_with_the_same_prompt_share_the_attempts(process: Process) -> None:
    process.replies(WRONG)
    for task in range(5):
        process.runs(1, task)
    assert process.server.count() == 3
    last = process.models["red"].model.fingerprint(MESSAGES, {})[:32]
    assert {row.task for row in process.rows(ANSWER_USERS) if row.key == last} == set(range(5))


def test_runs_at_the_same_time_share_one_attempt(process: Process) -> None:
    gate = threading.Event()
    process.replies(WRONG.held_until(gate), GLAD)

    async def run() -> list[str]:
        runs = [asyncio.create_task(process.ask(task)) for task in range(4)]
        assert await asyncio.to_thread(process.server.wait_for, 1)
        gate.set()
        return await asyncio.gather(*runs)

    assert asyncio.run(run()) == ['{"mood": "Ecstatic"}'] * 4
    assert process.server.count() == 1
    again = asyncio.run(run())
    assert (again, process.server.count()) == (['{"mood": "Glad"}'] * 4, 2)


def test_the_attempts_of_another_process_count(process: Process) -> None:
    process.replies(WRONG)
    process.runs(2)
    other = Process(process.ledger, process.server)
    assert other.runs(2) == ['{"mood": "Ecstatic"}', UnusableAnswersError.code]
    other.writer.close()
    assert process.server.count() == 3


def test_every_attempt_is_paid(process: Process) -> None:
    process.replies(WRONG)
    process.runs(5)
    costs = [row.cost for row in process.rows(tables.calls)]
    assert costs == [round((10 * 1.0 + 2 * 2.0) * 1e6)] * 3


def test_deleting_a_task_forgets_the_answers_of_all_attempts(process: Process) -> None:
    process.replies(WRONG)
    process.runs(4)
    assert len(process.rows(tables.answers)) == 3
    with process.ledger.write() as connection:
        delete_task(connection, "7.1", 1)
    assert process.rows(tables.answers) == process.rows(tables.answer_tasks) == []
