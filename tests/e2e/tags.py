"""A small project for each tag: what three models say, the prediction, and a person's correction.

"red" and "green" agree, "blue" dissents, and the person corrects the prediction to what "blue" said.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

TEXT = '<Text name="text" value="$text"/>'
FLAT = '<Choice value="Food" alias="food"/><Choice value="Travel"/><Choice value="Work"/>'
TREE = (
    '<Choice value="Animal"><Choice value="Dog"/><Choice value="Cat" alias="c"/></Choice>'
    '<Choice value="Plant"/>'
)
SENTENCE = "Ann stayed with Bob in Rome."
ANN = {"start": 0, "end": 3, "text": "Ann"}
BOB = {"start": 16, "end": 19, "text": "Bob"}
ITEMS = [{"id": "a", "title": "one"}, {"id": "b", "title": "two"}, {"id": "c", "title": "three"}]
TALK = [{"author": "Ann", "text": "It rained."}, {"author": "Bob", "text": "It never rains."}]
IMAGE, PHOTO = '<Image name="text" value="$photo"/>', {"photo": "https://pictures.example/lunch.jpg"}
CHAT = [{"role": "user", "content": "Hello!"}, {"role": "assistant", "content": "Welcome back."}]

Items = tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class Tag:
    """A project with one task.

    Attributes:
        config: the content of its View.
        agreed: what "red" and "green" say, by control.
        dissent: what "blue" says.
        predicted: the values of the prediction's regions.
        corrected: the values of the corrected regions.
        data: the task's data.
    """

    config: str
    agreed: Mapping[str, Any]
    dissent: Mapping[str, Any]
    predicted: Items
    corrected: Items
    data: Mapping[str, Any] = field(default_factory=lambda: {"text": SENTENCE})

    @property
    def label_config(self) -> str:
        return f"<View>{self.config}</View>"


def _simple(
    control: str, agreed: object, dissent: object, predicted: Any, corrected: Any, **more: Any
) -> Tag:
    """A tag whose only control is called "c"."""
    config = more.pop("objects", TEXT) + control
    return Tag(config, {"c": agreed}, {"c": dissent}, (predicted,), (corrected,), **more)


def _choices(attributes: str = "", content: str = FLAT) -> str:
    return f'<Choices name="c" toName="text" {attributes}>{content}</Choices>'


def _taxonomy(attributes: str = "") -> str:
    return f'<Taxonomy name="c" toName="text" {attributes}>{TREE}</Taxonomy>'


def _quote(words: str, label: str) -> dict[str, str]:
    return {"quote": words, "before": "", "label": label}


def _food(objects: str, data: Mapping[str, Any]) -> Tag:
    """A single choice about another object."""
    return _simple(
        _choices(), "Food", "Work", {"choices": ["food"]}, {"choices": ["Work"]}, objects=objects, data=data
    )


TAGS = {
    "choices": _simple(_choices(), "Food", "Work", {"choices": ["food"]}, {"choices": ["Work"]}),
    "ordered choices": _simple(
        _choices('camvo_ordered="true" camvo_error="absolute"'),
        "Food",
        "Work",
        {"choices": ["food"]},
        {"choices": ["Work"]},
    ),
    "multiple choices": _simple(
        _choices('choice="multiple"'),
        ["Food", "Travel"],
        ["Work"],
        {"choices": ["food", "Travel"]},
        {"choices": ["Work"]},
    ),
    "nested choices": _simple(
        _choices('allowNested="true"', TREE),
        "Animal / Cat",
        "Plant",
        {"choices": [["Animal", "c"]]},
        {"choices": [["Plant"]]},
    ),
    "taxonomy": _simple(
        _taxonomy(),
        ["Animal / Cat", "Plant"],
        ["Animal / Dog"],
        {"taxonomy": [["Animal", "c"], ["Plant"]]},
        {"taxonomy": [["Animal", "Dog"]]},
    ),
    "taxonomy of one": _simple(
        _taxonomy('maxUsages="1"'),
        "Animal / Cat",
        "Plant",
        {"taxonomy": [["Animal", "c"]]},
        {"taxonomy": [["Plant"]]},
    ),
    "rating": _simple('<Rating name="c" toName="text" maxRating="5"/>', 4, 1, {"rating": 4}, {"rating": 1}),
    "number": _simple(
        '<Number name="c" toName="text" min="0" max="100"/>', 40, 10, {"number": 40}, {"number": 10}
    ),
    "date": _simple(
        '<DateTime name="c" toName="text" only="date" format="%d/%m/%Y"/>',
        "2024-05-01",
        "2023-05-01",
        {"datetime": "01/05/2024"},
        {"datetime": "01/05/2023"},
    ),
    "short text": _simple(
        '<TextArea name="c" toName="text" camvo_instructions="Who wrote it?"/>',
        "Ada Lovelace",
        "Lord Byron",
        {"text": ["Ada Lovelace"]},
        {"text": ["Lord Byron"]},
    ),
    "pairwise": _simple(
        '<Pairwise name="c" toName="text,other"/>',
        "left",
        "right",
        {"selected": "left"},
        {"selected": "right"},
        objects=TEXT + '<Text name="other" value="$other"/>',
        data={"text": SENTENCE, "other": "A quiet day."},
    ),
    "ranker": _simple(
        '<Ranker name="c" toName="text"/>',
        ["b", "a", "c"],
        ["c", "a", "b"],
        {"ranker": {"c": ["b", "a", "c"]}},
        {"ranker": {"c": ["c", "a", "b"]}},
        objects='<List name="text" value="$items" title="Hits"/>',
        data={"items": ITEMS},
    ),
    "labels": _simple(
        '<Labels name="c" toName="text"><Label value="Person" alias="PER"/><Label value="Place"/></Labels>',
        [_quote("Ann", "Person")],
        [_quote("Rome", "Place")],
        {**ANN, "labels": ["PER"]},
        {"start": 23, "end": 27, "text": "Rome", "labels": ["Place"]},
    ),
    "hypertext labels": _simple(
        '<HyperTextLabels name="c" toName="text"><Label value="Name"/></HyperTextLabels>',
        [_quote("Bob", "Name")],
        [_quote("Ann", "Name")],
        {
            "start": "",
            "end": "",
            "startOffset": 6,
            "endOffset": 9,
            "globalOffsets": {"start": 6, "end": 9},
            "text": "Bob",
            "hypertextlabels": ["Name"],
        },
        {
            "start": "/p[1]/text()[1]",
            "end": "/p[1]/text()[1]",
            "startOffset": 0,
            "endOffset": 3,
            "globalOffsets": {"start": 0, "end": 3},
            "text": "Ann",
            "hypertextlabels": ["Name"],
        },
        objects='<HyperText name="text" value="$page"/>',
        data={"page": "<p>Ann &amp; <b>Bob</b></p>"},
    ),
    "paragraph labels": _simple(
        '<ParagraphLabels name="c" toName="text"><Label value="Claim"/></ParagraphLabels>',
        [_quote("It never rains", "Claim")],
        [_quote("It rained", "Claim")],
        {
            "start": "1",
            "end": "1",
            "startOffset": 0,
            "endOffset": 14,
            "text": "It never rains",
            "paragraphlabels": ["Claim"],
        },
        {
            "start": "0",
            "end": "0",
            "startOffset": 0,
            "endOffset": 9,
            "text": "It rained",
            "paragraphlabels": ["Claim"],
        },
        objects='<Paragraphs name="text" value="$talk"/>',
        data={"talk": TALK},
    ),
    "choices per region": Tag(
        TEXT + '<Labels name="c" toName="text"><Label value="Person"/><Label value="Place"/></Labels>'
        '<Choices name="role" toName="text" perRegion="true"><Choice value="guest"/><Choice value="host"/>'
        "</Choices>",
        {"c": [_quote("Ann", "Person")], "role": [_quote("Ann", "guest")]},
        {"c": [_quote("Bob", "Person")], "role": [_quote("Bob", "host")]},
        ({**ANN, "labels": ["Person"]}, {**ANN, "choices": ["guest"]}),
        ({**BOB, "labels": ["Person"]}, {**BOB, "choices": ["host"]}),
    ),
    "image": _food(IMAGE, PHOTO),
    "rated image": _simple(
        '<Rating name="c" toName="text" maxRating="5"/>',
        4,
        1,
        {"rating": 4},
        {"rating": 1},
        objects=IMAGE,
        data=PHOTO,
    ),
    "image with a taxonomy": _simple(
        _taxonomy(),
        ["Animal / Cat", "Plant"],
        ["Animal / Dog"],
        {"taxonomy": [["Animal", "c"], ["Plant"]]},
        {"taxonomy": [["Animal", "Dog"]]},
        objects=IMAGE,
        data=PHOTO,
    ),
    "table": _food('<Table name="text" value="$facts"/>', {"facts": {"nights": 3, "City": "Rome"}}),
    "chat": _food('<Chat name="text" value="$chat"/>', {"chat": CHAT}),
}
"""Each tag by the name of its test."""
