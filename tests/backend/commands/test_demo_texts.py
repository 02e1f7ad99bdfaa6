from __future__ import annotations

import json
from collections import Counter
from importlib.resources import files

import pytest

from backend.models.embedded_voters import _VOTERS
from backend.models.embedder import Embedder
from backend.questions import TaskQuestion, parse_label_config

TEXTS: dict[str, list[dict[str, str]]] = json.loads(
    (files("backend.commands") / "resources" / "demo_texts.json").read_text(encoding="utf-8")
)
kinds = pytest.mark.parametrize("kind", ["sentiment", "topic"])


def question(kind: str) -> TaskQuestion:
    xml = files("label_config").joinpath(f"{kind}.xml").read_text(encoding="utf-8")
    return parse_label_config(xml).questions[0].about({"text": "words"})


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return Embedder()


@kinds
def test_there_are_thirty_texts_and_no_two_are_alike(kind: str) -> None:
    assert len({entry["text"] for entry in TEXTS[kind]}) == len(TEXTS[kind]) == 30


@kinds
def test_every_gold_label_is_one_of_the_config_and_all_are_there(kind: str) -> None:
    assert {entry["gold"] for entry in TEXTS[kind]} == set(question(kind).options)


@kinds
def test_gold_labels_are_balanced(kind: str) -> None:
    counts = Counter(entry["gold"] for entry in TEXTS[kind]).values()
    assert max(counts) - min(counts) <= 1


def accuracies(kind: str, embedder: Embedder) -> dict[str, float]:
    """Share of right answers of every voter, and of their plain majority."""
    labels = question(kind).config.control.answer_format.labels
    right: Counter[str] = Counter()
    for entry in TEXTS[kind]:
        votes = {}
        for name, voter in _VOTERS.items():
            phrases = voter.phrases(entry["text"], labels)
            vectors = dict(zip(phrases, embedder.embed(phrases), strict=True))
            votes[name] = voter.choose(entry["text"], labels, vectors)
        votes["majority"] = Counter(votes.values()).most_common(1)[0][0]
        right.update(name for name, vote in votes.items() if vote == entry["gold"])
    return {name: right[name] / len(TEXTS[kind]) for name in (*_VOTERS, "majority")}


@pytest.mark.parametrize(("kind", "least"), [("sentiment", 0.7), ("topic", 0.85)])
def test_the_majority_of_the_embedded_voters_is_much_better_than_chance(
    kind: str, least: float, embedder: Embedder
) -> None:
    assert accuracies(kind, embedder)["majority"] >= least


@kinds
def test_the_embedded_voters_differ_in_quality(kind: str, embedder: Embedder) -> None:
    single = [share for name, share in accuracies(kind, embedder).items() if name != "majority"]
    assert max(single) - min(single) >= 0.15
