"""Redaction: what models are shown, the way back from a quotation to the original, and the epoch."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from label_studio_requests import SENTIMENT

from backend.errors import RedactionError
from backend.questions import TaskQuestion, parse_label_config
from backend.questions.label_config import epoch_of, question_hash
from backend.questions.objects import LocatedText
from backend.questions.redaction import RedactedText, Redactor
from camvo.votes.spans import read_spans

SECRET = "the heron"


def numbered(text: str) -> list[tuple[int, int, str]]:
    """Replaces the names by numbered placeholders, as a recogniser of names does."""
    names = list(dict.fromkeys(re.findall(r"Ann\w*|Bob 😀|Rome", text)))
    return [
        (match.start(), match.end(), f"[NAME {names.index(match[0]) + 1}]")
        for match in re.finditer(r"Ann\w*|Bob 😀|Rome", text)
    ]


NUMBERED = Redactor("tests:numbered", numbered)

LABELS = '<Label value="Person" alias="PER"/><Label value="Word"/>'


def asked(tag: str, shown: str, content: object, redactor: Redactor | None) -> TaskQuestion:
    xml = f'<View><{tag} name="ner" toName="text">{LABELS}</{tag}>{shown}</View>'
    return parse_label_config(xml).questions[0].about({"text": content}, redactor)


TEXT = ("Labels", '<Text name="text" value="$text"/>', "😀 Ann met\r\nBob 😀 in Rome, not Anna.")
PAGE = (
    "HyperTextLabels",
    '<HyperText name="text" value="$text"/>',
    "<p>😀 Ann &amp; <b>Bo</b>b 😀 met in</p><p>Rome, not Anna</p>",
)
TALK = (
    "ParagraphLabels",
    '<Paragraphs name="text" value="$text"/>',
    [
        {"author": "Rome", "text": "Did 😀 Ann\x00 meet"},
        {"author": "", "text": ""},
        {"author": "Anna", "text": ""},
        {"text": "Bob 😀 in Rome, not Anna?"},
    ],
)
"""The first placeholder is the speaker's name, in which no span can be marked."""


def spans(question: TaskQuestion, *quotes: str) -> list[tuple[int, int, str]]:
    answer = [{"quote": quote, "before": "", "label": "Person"} for quote in quotes]
    vote = question.vote_from_answer(answer)
    return [] if vote is None else [(span.start, span.end, span.label) for span in read_spans(vote)]


def words_of(question: TaskQuestion, *quotes: str) -> list[str]:
    """The words of the regions that a prediction has for these quotations."""
    vote = question.vote_from_answer([{"quote": quote, "before": "", "label": "Person"} for quote in quotes])
    assert vote is not None
    return [item["value"]["text"] for item in question.result_items(vote)]


@pytest.mark.parametrize("shape", [TEXT, PAGE, TALK], ids=["text", "hypertext", "paragraphs"])
def test_a_quoted_placeholder_is_the_region_of_the_original_words(shape: tuple[str, str, Any]) -> None:
    plain, redacted = asked(*shape, None), asked(*shape, NUMBERED)
    shown = redacted.texts["text"]
    assert not re.search("Ann|Bob|Rome", shown)
    names = numbered(plain.texts["text"])
    placeholder = {plain.texts["text"][start:end]: replacement for start, end, replacement in names}
    for name in ("Ann", "Bob 😀", "Rome", "Anna"):
        assert spans(redacted, placeholder[name]) == spans(plain, name)
        assert words_of(redacted, placeholder[name]) == words_of(plain, name)
    assert spans(redacted, f"{placeholder['Bob 😀']} in"[3:]) == spans(plain, "Bob 😀 in")


@pytest.mark.parametrize("shape", [TEXT, PAGE, TALK], ids=["text", "hypertext", "paragraphs"])
def test_words_that_were_not_replaced_are_where_they_were(shape: tuple[str, str, Any]) -> None:
    plain, redacted = asked(*shape, None), asked(*shape, NUMBERED)
    assert spans(redacted, "in", "not") == spans(plain, "in", "not") != []


def test_the_original_words_are_no_quotation_of_the_redacted_text() -> None:
    assert spans(asked(*TEXT, NUMBERED), "Bob 😀") == []


PIECES = st.lists(
    st.tuples(
        st.text("ab😀\n ", max_size=4), st.text("ab", min_size=1, max_size=3), st.text("[x]", max_size=3)
    )
)


@given(PIECES, st.text("ab😀"))
def test_every_character_of_a_redacted_text_leads_back_to_its_original(
    pieces: list[tuple[str, str, str]], tail: str
) -> None:
    original, edits, expected, places = "", [], "", []
    for kept, replaced, replacement in pieces:
        places += [(len(original) + i, len(original) + i + 1) for i in range(len(kept))]
        start = len(original) + len(kept)
        original += kept + replaced
        edits.append((start, len(original), replacement))
        expected += kept + replacement
        places += [(start, len(original))] * len(replacement)
    places += [(len(original) + i, len(original) + i + 1) for i in range(len(tail))]
    redacted = RedactedText(original + tail, tuple(edits))
    located = redacted.located(LocatedText(original + tail, range(len(original + tail))))
    assert redacted.text == located.text == expected + tail
    assert [located.positions_of(i, i + 1) for i in range(len(located.text))] == places


def about(function: Callable[[str], Any], text: str = SECRET) -> TaskQuestion:
    return parse_label_config(SENTIMENT).questions[0].about({"text": text}, Redactor("m:f", function))


def failing(text: str) -> Sequence[tuple[int, int, str]]:
    raise ValueError(f"cannot read {text}")


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (failing, "it raised ValueError"),
        (lambda text: None, "it returned NoneType where a list of (start, end, replacement) is expected"),
        (lambda text: text, "it returned str where a list of (start, end, replacement) is expected"),
        (lambda text: [(0, 1)], "not (start, end, replacement)"),
        (lambda text: [(0, 0, "x")], "not (start, end, replacement)"),
        (lambda text: [(0, len(text) + 1, "x")], "not (start, end, replacement)"),
        (lambda text: [(0, 1, text.encode())], "not (start, end, replacement)"),
        (lambda text: [(2, 5, ""), (0, 3, "")], "overlap"),
    ],
)
def test_a_function_that_fails_is_an_error_that_does_not_quote_the_text(
    function: Callable[[str], Any], says: str
) -> None:
    with pytest.raises(RedactionError) as raised:
        about(function)
    assert says in str(raised.value)
    assert "heron" not in str(raised.value)
    assert raised.value.__cause__ is raised.value.__context__ is None
    assert (raised.value.code, raised.value.where) == ("redaction_failed", "data.text")


def test_edits_may_come_in_any_order_and_remove_words() -> None:
    assert about(lambda text: [(4, 9, "bird"), (0, 4, "")]).texts == {"text": "bird"}


# -- identity

EPOCH, HASH = "2160332a385c5d90", "5e9c4ca5adcc5c6fe12a4cd98e0e8678"
"""Of the question of SENTIMENT about "A day.", by prompts of version 3 without redaction."""


def epoch(redactor: Redactor | None) -> str:
    return epoch_of(parse_label_config(SENTIMENT).questions[0], "Be kind.", "model-8", redactor)


def test_without_redaction_epoch_and_hash_are_what_they_were() -> None:
    question = parse_label_config(SENTIMENT).questions[0].about({"text": "A day."})
    assert (epoch(None), question_hash(question.source)) == (EPOCH, HASH)


def test_the_epoch_changes_with_the_redactors_name_and_version() -> None:
    def first(text: str) -> Sequence[tuple[int, int, str]]:
        return []

    def second(text: str) -> Sequence[tuple[int, int, str]]:
        return []

    second.version = "2"  # type: ignore[attr-defined]  # an attribute of the function
    epochs = {epoch(Redactor(name, function)) for name in ("m:f", "m:g") for function in (first, second)}
    assert len(epochs | {EPOCH}) == 5
    assert epoch(Redactor("m:f", first)) == epoch(Redactor("m:f", first))


def test_a_round_is_that_of_the_original_text() -> None:
    """An edit of what is replaced moves the regions, so it is a new round, though models see the same."""
    ann, anna = (about(numbered, f"{name} left.") for name in ("Ann", "Anna"))
    assert ann.texts == anna.texts
    assert question_hash(ann.source) != question_hash(anna.source)
    assert about(lambda _: [], "A day.").source == {"text": "A day."}
    assert question_hash(about(lambda _: [(0, 1, "")], "A day.").source) == HASH
