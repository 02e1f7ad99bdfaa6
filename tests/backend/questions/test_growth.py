"""Four times the input takes about four times as long, whatever is read and however it repeats itself."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from backend.errors import BadAnswerError
from backend.models import embedded_voters
from backend.questions import parse_label_config
from backend.questions.naming import unwrapped
from backend.questions.objects import LocatedText, locate_dialogue, locate_html, storable_text
from backend.questions.personal_data import _redact
from backend.questions.prompts.answers import parse_answer
from backend.questions.prompts.confidences import AnswerToken, answer_confidences
from backend.questions.prompts.messages import fence
from backend.questions.prompts.packs import PackedTask, draw_ids, packed_task, split_answer
from backend.questions.question import TaskQuestion
from backend.questions.redaction import Redactor
from backend.questions.spans import _QuotedText
from camvo.errors import CamvoError
from camvo.student import hashed_ngrams
from camvo.votes import texts

SIZE = 6_000
QUIET = 0.05
"""Seconds of processor time that are too few to judge."""
MOST = 9.0
"""Time for four times the input, beside that for the input; work that grows with the square takes 16."""

UNITS = [
    *("a", "ab ", "1", "1/", " ", "\n", '\\"', "[", '{"c":', '"417082":{', "417082: [1, "),
    *("BEGIN 100000\n", "<p>", "<a ", "```\n", "ﷺ", "+49 (0) 30-", "a@b."),
]

TEXT = '<Text name="t" value="$text"/>'
CHOICES = '<Choices name="c" toName="t" choice="%s"><Choice value="Glad"/><Choice value="Sad"/></Choices>'
CONTROLS = {
    "choice": TEXT + CHOICES % "single",
    "choices": TEXT + CHOICES % "multiple",
    "taxonomy": TEXT + '<Taxonomy name="c" toName="t"><Choice value="a"><Choice value="b"/></Choice>'
    '<Choice value="d"/></Taxonomy>',
    "number": TEXT + '<Number name="c" toName="t"/>',
    "rating": TEXT + '<Rating name="c" toName="t"/>',
    "date": TEXT + '<DateTime name="c" toName="t"/>',
    "text": TEXT + '<TextArea name="c" toName="t"/>',
    "spans": TEXT + '<Labels name="c" toName="t"><Label value="A"/><Label value="B"/></Labels>',
    "ranker": '<List name="t" value="$list"/><Ranker name="c" toName="t"/>',
    "pairwise": '<Text name="t" value="$text"/><Text name="u" value="$text"/>'
    '<Pairwise name="c" toName="t,u"/>',
}
DATA: dict[str, Any] = {"text": "some", "list": [{"id": str(each), "title": "x"} for each in range(50)]}


def asked(control: str, data: dict[str, Any] = DATA) -> list[TaskQuestion]:
    questions = parse_label_config(f"<View>{CONTROLS[control]}</View>").questions
    return [question.about(data) for question in questions]


def parse(control: str, content: str) -> None:
    with suppress(CamvoError):
        parse_answer(content, asked(control))
    with suppress(CamvoError):
        parse_answer(json.dumps({"c": content}), asked(control))


def parse_spans(content: str) -> None:
    if content.strip():
        (question,) = asked("spans", {"text": content})
        starts = range(0, len(content), 60)
        answer = [{"quote": content[at : at + 9], "before": "x", "label": "A"} for at in starts]
        question.vote_from_answer(answer[:1000])


def split(content: str) -> None:
    packed = packed_task(asked("choice"), None)
    assert packed is not None
    split_answer(content, {"417082": packed, "862305": packed})


def quote(content: str) -> None:
    quoted = _QuotedText(content)
    for words in (content[: len(content) // 2], content[:50], content[-1:], "not there"):
        quoted.places(words)
        quoted.places(words, "before")


def replace_every_other(content: str) -> None:
    redactor = Redactor("test", lambda text: [(at, at + 1, "<X>") for at in range(0, len(text) - 1, 2)])
    redacted = redactor.redact({"text": content})["text"]
    redacted.located(LocatedText(content, range(len(content))))
    assert len(redacted.text) >= len(content)


def confide(content: str) -> None:
    written = content.encode()
    tokens = [AnswerToken(written[at : at + 4], -0.1) for at in range(0, len(written), 4)]
    answer_confidences(content, tokens, asked("choice"))


def config(content: str) -> None:
    with suppress(CamvoError):
        parse_label_config.__wrapped__(content)
    labels = f'<Choice value={json.dumps(content)}/><Choice value="b"/>'
    with suppress(CamvoError):
        parse_label_config.__wrapped__(f'<View>{TEXT}<Choices name="c" toName="t">{labels}</Choices></View>')


def condition(content: str) -> None:
    """As many choices and as many labels that a condition names as a tenth of the characters."""
    numbers = range(len(content) // 10)
    many = "".join(f'<Choice value="{each}"/>' for each in numbers)
    named = ",".join(f"no {each}" for each in numbers)
    waits = f'visibleWhen="choice-selected" whenTagName="c" whenChoiceValue="{named}"'
    later = f'<Choices name="d" toName="t" {waits}><Choice value="a"/><Choice value="b"/></Choices>'
    parse_label_config.__wrapped__(f'<View>{TEXT}<Choices name="c" toName="t">{many}</Choices>{later}</View>')


READERS: dict[str, Callable[[str], object]] = {
    **{f"answer about {control}": partial(parse, control) for control in CONTROLS},
    "answer after an opened tag": lambda content: parse("choice", f"<label>{content}x"),
    "answer with quotations": parse_spans,
    "answer about a pack": split,
    "confidences": confide,
    "wrappings": unwrapped,
    "quotations": quote,
    "fence": lambda content: fence({"text": content}),
    "ids of a pack": lambda content: draw_ids([PackedTask("", {"t": content}, {})], random.Random(0)),  # noqa: S311
    "HTML": locate_html.__wrapped__,
    "dialogue": lambda content: locate_dialogue([{"a": "x", "t": content}] * 2, "a", "t"),
    "redacted parts": replace_every_other,
    "personal data": _redact,
    "label config": config,
    "condition of a label config": condition,
    "stored text": storable_text,
    "normalised text": texts.normalise_text,
    "overlap of words": lambda content: texts._word_overlap(content, content + " x"),
    "n-grams": hashed_ngrams,
    "sentences": embedded_voters._sentences,
    "words": embedded_voters._words,
}


def seconds(read: Callable[[str], object], content: str, tries: int) -> float:
    """Processor time of this thread, so that other processes do not matter; the least of some tries."""
    spent = []
    for _ in range(tries):
        start = time.thread_time()
        read(content)
        spent.append(time.thread_time() - start)
    return min(spent)


@pytest.mark.parametrize("name", READERS)
def test_four_times_the_text_takes_about_four_times_as_long(name: str) -> None:
    for unit in UNITS:
        short, long = ((unit * size)[:size] for size in (SIZE, 4 * SIZE))
        for tries in (1, 3, 6):
            spent = seconds(READERS[name], long, tries)
            if spent < QUIET or spent < MOST * seconds(READERS[name], short, tries):
                break
        else:
            pytest.fail(f"{name}: {spent:.2f} s for {4 * SIZE} characters of {unit!r}")


@pytest.mark.parametrize("control", CONTROLS)
@pytest.mark.parametrize("depth", [100, 600, 900, 100_000])
def test_an_answer_that_is_nested_deeply_is_no_answer(control: str, depth: int) -> None:
    for nested in ("[" * depth + "]" * depth, '{"answer":' * depth + "null" + "}" * depth):
        for content in (nested, f'{{"c": {nested}}}'):
            with pytest.raises(BadAnswerError):
                parse_answer(content, asked(control))
