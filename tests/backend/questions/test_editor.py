"""What Label Studio 1.23.2's editor made of predicted spans, recorded when it saved them in Chromium 156.

The prediction had empty XPaths and no ids; every region was shown on the very words that it was meant for.
"""

from __future__ import annotations

from typing import Any

import pytest

from backend.questions import TaskQuestion, parse_label_config

CONFIG = """<View>
  <Labels name="ner" toName="text"><Label value="Person" alias="PER"/></Labels>
  <Text name="text" value="$text"/>
  <Choices name="role" toName="text" perRegion="true"><Choice value="guest"/><Choice value="host"/></Choices>
  <HyperTextLabels name="page" toName="html"><Label value="Name"/></HyperTextLabels>
  <HyperText name="html" value="$html"/>
  <HyperTextLabels name="inside" toName="inline"><Label value="Name"/></HyperTextLabels>
  <HyperText name="inline" value="$inline" inline="true"/>
  <ParagraphLabels name="claims" toName="talk"><Label value="Claim"/></ParagraphLabels>
  <Paragraphs name="talk" value="$talk"/>
</View>"""
DATA = {
    "text": "Ann 😀 stayed\r\nwith Bob & Eve in Rome.",
    "html": "\n<html><head><title>T</title><style>p{color:red}</style></head>\n<body>\n "
    "<h1>Hello &amp; bye</h1>\n<p>Ann 😀 met <b>Bob</b><br>\nin   Rome.</p>"
    "<table>\n<tr><td>Carl</td><td>Dora</td></tr></table></body></html>",
    "inline": "  <p>Ann 😀 met <b>Bob</b><br>\nin   Rome.</p>\n<p>Dora</p>",
    "talk": [
        {"author": "Ann", "text": "It rained 😀 there."},
        {"author": "Bob", "text": "It never 😀 rains."},
    ],
}
MARKED = {
    "ner": ("Person", ["Bob", "Eve in Rome"]),
    "role": ("host", ["Bob", "Eve in Rome"]),
    "page": ("Name", ["bye", "Ann 😀", "Bob in Rome", "Dora"]),
    "inside": ("Name", ["Ann 😀", "Bob in Rome", "Dora"]),
    "claims": ("Claim", ["there", "never 😀 rains"]),
}


def saved(control: str, kind: str, label: str, **value: Any) -> dict[str, Any]:
    return {"from_name": control, "type": kind, "origin": "prediction", "value": {**value, kind: [label]}}


def page(
    control: str, start: tuple[str, int], end: tuple[str, int], offsets: tuple[int, int]
) -> dict[str, Any]:
    places = {"start": start[0], "startOffset": start[1], "end": end[0], "endOffset": end[1]}
    globally = {"start": offsets[0], "end": offsets[1]}
    return saved(control, "hypertextlabels", "Name", **places, globalOffsets=globally)


CELL = "/table[1]/tbody[1]/tr[1]/td[2]/text()[1]"
SAVED = [
    saved("ner", "labels", "PER", start=19, end=22),
    saved("role", "choices", "host", start=19, end=22),
    saved("ner", "labels", "PER", start=25, end=36),
    saved("role", "choices", "host", start=25, end=36),
    page("page", ("/h1[1]/text()[1]", 8), ("/h1[1]/text()[1]", 11), (10, 13)),
    page("page", ("/p[1]/text()[1]", 0), ("/p[1]/text()[1]", 6), (14, 19)),
    page("page", ("/p[1]/b[1]/text()[1]", 0), ("/p[1]/text()[2]", 10), (24, 38)),
    page("page", (CELL, 0), (CELL, 4), (44, 48)),
    page("inside", ("/p[1]/text()[1]", 0), ("/p[1]/text()[1]", 6), (2, 7)),
    page("inside", ("/p[1]/b[1]/text()[1]", 0), ("/p[1]/text()[2]", 10), (12, 26)),
    page("inside", ("/p[2]/text()[1]", 0), ("/p[2]/text()[1]", 4), (28, 32)),
    saved("claims", "paragraphlabels", "Claim", start="0", end="0", startOffset=13, endOffset=18),
    saved("claims", "paragraphlabels", "Claim", start="1", end="1", startOffset=3, endOffset=17),
]
QUESTIONS = {question.name: question.about(DATA) for question in parse_label_config(CONFIG).questions}


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=list(QUESTIONS))
def test_what_the_editor_saves_is_what_was_predicted(question: TaskQuestion) -> None:
    label, words = MARKED[question.name]
    predicted = question.vote_from_answer([{"quote": quote, "before": "", "label": label} for quote in words])
    assert predicted is not None
    assert question.config.vote_from_annotation(SAVED) == predicted
