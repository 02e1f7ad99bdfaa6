"""Questions under a condition are asked once it holds for the decided labels, and otherwise never."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from label_studio_requests import Project, task
from whole_backend import Backend, prompt_of

from backend.testing import Reply

CONFIG = """<View><Text name="text" value="$text"/>
<Choices name="topic" toName="text"><Choice value="Sports"/><Choice value="Politics" alias="pol"/></Choices>
<View visibleWhen="choice-selected" whenTagName="topic" whenChoiceValue="Politics">
<Choices name="party" toName="text" required="true"><Choice value="Red"/><Choice value="Blue"/></Choices>
</View>
<Choices name="reason" toName="text" visibleWhen="choice-selected" whenTagName="party" whenChoiceValue="Red">
<Choice value="x"/><Choice value="y"/></Choices></View>"""
PROJECT = Project(label_config=CONFIG)
MODELS = ("red", "green", "blue")


class Models:
    """Models that all give the same answers, and the questions of each prompt."""

    def __init__(self, **answers: str) -> None:
        self.answers, self.asked = answers, list[tuple[str, ...]]()

    def __call__(self, body: dict[str, Any]) -> Reply:
        prompt = prompt_of(body)
        asked = tuple(name for name in self.answers if f'Question "{name}"' in prompt)
        self.asked.append(asked)
        return Reply.says({name: self.answers[name] for name in asked})


@pytest.mark.parametrize(
    ("answers", "asked"),
    [
        ({"topic": "Sports", "party": "Red", "reason": "x"}, ["topic"]),
        ({"topic": "Politics", "party": "Blue", "reason": "x"}, ["topic", "party"]),
        ({"topic": "Politics", "party": "Red", "reason": "y"}, ["topic", "party", "reason"]),
    ],
)
def test_only_questions_that_annotators_see_are_asked_stored_and_counted(
    tmp_path: Path, answers: dict[str, str], asked: list[str]
) -> None:
    models = Models(**answers)
    with Backend(tmp_path, models) as backend:
        [prediction] = backend.predict(task(1), project=PROJECT)
        rounds = {round_.key.control: round_.score for round_ in backend.rounds(1, PROJECT)}
    assert models.asked == [(name,) for name in asked for _ in MODELS]
    assert [region["from_name"] for region in prediction["result"]] == asked
    product = 1.0
    for name in asked:
        product *= rounds.pop(name)
    assert not rounds
    assert prediction["score"] == pytest.approx(product)


def test_a_second_request_asks_nothing_again(tmp_path: Path) -> None:
    models = Models(topic="Politics", party="Blue", reason="x")
    with Backend(tmp_path, models) as backend:
        first = backend.predict(task(1), project=PROJECT)
        calls = len(models.asked)
        assert backend.predict(task(1), project=PROJECT) == first
    assert len(models.asked) == calls


def test_an_interrupted_task_goes_on_with_the_question_that_was_missing(tmp_path: Path) -> None:
    def fails(body: dict[str, Any]) -> Reply:
        return Reply.fails(400) if "party" in prompt_of(body) else Reply.says({"topic": "Politics"})

    with Backend(tmp_path, fails) as backend:
        [partial] = backend.predict(task(1), project=PROJECT)
        assert [region["from_name"] for region in partial["result"]] == ["topic"]
    models = Models(topic="Politics", party="Blue")
    with Backend(tmp_path, models) as backend:
        [whole] = backend.predict(task(1), project=PROJECT)
    assert models.asked == [("party",)] * len(MODELS)
    assert [region["from_name"] for region in whole["result"]] == ["topic", "party"]


def test_questions_without_a_condition_are_asked_together(tmp_path: Path) -> None:
    tone = '<Choices name="tone" toName="text"><Choice value="Mild"/><Choice value="Harsh"/></Choices>'
    models = Models(topic="Sports", tone="Mild", party="Red")
    with Backend(tmp_path, models) as backend:
        backend.predict(
            task(1), project=Project(label_config=CONFIG.replace("<View vis", f"{tone}<View vis"))
        )
    assert models.asked == [("topic", "tone")] * len(MODELS)
