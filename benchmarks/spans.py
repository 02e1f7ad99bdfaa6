"""Spans by the joint policy, against the vote of all models and against the policy ``camvo``.

    python benchmarks/spans.py [--texts 800] [--draws 3] [--labels 0,50] [--kinds related,…]

All texts are made up: a Poisson number of spans with one of three labels, models that miss hard ones more
often, and errors of their own. In the kind ``related`` two models share a third of their misses and most of
their false spans; in ``lures`` all models mark the same false places, weak ones more often; in ``bad five``
three good models stand beside five that share false spans; in ``careful`` nobody marks a false span; in
``empty`` there is nothing to mark, and one model marks everything.

Prints Markdown: F₁ of the answers in percent, as a gain over the vote of all models that counts them alike
[worst draw], the mean score less F₁, and the cost in percent of asking everyone. People label random texts.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

import camvo
from camvo.policies.named import policy_by_name
from camvo.votes.aggregation import Ballot
from camvo.votes.spans import Span, SpanVote, write_spans

LABELS = ("city", "date", "name")
_VOTE = SpanVote()


@dataclass(frozen=True)
class Model:
    """How one model marks a text.

    Attributes:
        price: what a call costs.
        found: the log-odds with which it finds a span of middling difficulty.
        made_up: the number of spans that it makes up, for each span of the text.
        lured: how often it marks a place that misleads models.
        family: the models of one family miss the same spans; 0 for a model of its own.
    """

    price: float
    found: float
    made_up: float
    lured: float
    family: int = 0


def _seven(*, lured: float = 0.0, made_up: float = 1.0) -> dict[str, Model]:
    found = (3.4, 3.2, 2.6, 2.2, 2.0, 0.9)
    prices = (10.0, 5.0, 2.0, 1.0, 0.5, 0.2)
    return {
        f"m{at}": Model(price, odds, made_up * (0.03 + 0.02 * at), lured * (0.1 + 0.08 * at))
        for at, (odds, price) in enumerate(zip(found, prices, strict=True))
    }


def _related() -> dict[str, Model]:
    models = _seven()
    for name in ("m3", "m4"):
        own = models[name]
        models[name] = Model(own.price, own.found, own.made_up, 0.6, family=1)
    return models


def _bad_five() -> dict[str, Model]:
    good = {f"good{at}": Model(price, 2.6, 0.02, 0.0) for at, price in enumerate((9.0, 7.0, 5.0))}
    bad = {f"bad{at}": Model(price, 0.3, 0.1, 0.8) for at, price in enumerate((1.0, 1.0, 1.0, 0.5, 0.5))}
    return good | bad


def _empty() -> dict[str, Model]:
    return {
        "m0": Model(9.0, 3.0, 0.0, 0.0),
        "m1": Model(3.0, 2.0, 0.0, 0.0),
        "all": Model(1.0, 2.0, 0.0, 1.0),
    }


KINDS: Mapping[str, tuple[Mapping[str, Model], float]] = {
    "related": (_related(), 1.0),
    "lures": (_seven(lured=1.0), 1.0),
    "bad five": (_bad_five(), 1.0),
    "careful": (_seven(made_up=0.0), 1.0),
    "empty": (_empty(), 0.0),
}
"""Kind → its models, and by how much the number of spans is multiplied."""

Text = tuple[str, Mapping[str, str]]
"""The spans of a text, and each model's vote."""


def texts(kind: str, spans: float, seed: int) -> Iterator[Text]:
    """Texts of a kind with this mean number of spans."""
    models, times = KINDS[kind]
    rng = np.random.default_rng(seed)
    while True:
        truth = _spans(rng, int(rng.poisson(spans * times)), 0)
        lures = _spans(rng, int(rng.poisson(0.3 * spans)), 10_000)
        hard = rng.normal(size=len(truth))
        in_family = rng.normal(size=(len(truth), 2))
        luring = rng.random(size=(len(lures), 2))
        yield (
            write_spans(truth),
            {
                name: write_spans(_marked(rng, model, truth, hard, in_family, lures, luring, spans))
                for name, model in models.items()
            },
        )


def _spans(rng: np.random.Generator, count: int, at: int) -> list[Span]:
    found = []
    for _ in range(count):
        start = at + int(rng.integers(3, 40))
        at = start + int(rng.integers(3, 15))
        found.append(Span(start, at, LABELS[rng.integers(3)]))
    return found


def _marked(  # noqa: PLR0917 - a text, and all that makes models err on it
    rng: np.random.Generator,
    model: Model,
    truth: Sequence[Span],
    hard: np.ndarray,
    in_family: np.ndarray,
    lures: Sequence[Span],
    luring: np.ndarray,
    spans: float,
) -> list[Span]:
    own = in_family[:, 1] if model.family else rng.normal(size=len(truth))
    marked = []
    for at, span in enumerate(truth):
        if model.found + 1.4 * hard[at] + 1.4 * own[at] < 0.0:
            continue
        wider = int(rng.integers(1, 3)) * int(rng.random() < 0.25 / (1.0 + model.found))
        marked.append(Span(span.start, span.end + wider, span.label))
    lured = luring[:, 1] if model.family else rng.random(size=len(lures))
    marked += [lure for lure, draw in zip(lures, lured, strict=True) if draw < model.lured]
    return marked + _spans(rng, int(rng.poisson(model.made_up * spans)), int(rng.integers(20_000, 90_000)))


def vote_of_all(votes: Mapping[str, str]) -> str:
    """The vote of all models, which counts them alike."""
    alike = dict.fromkeys(votes, 1.0)
    return _VOTE.aggregate(Ballot(votes, alike, alike, dict.fromkeys(votes, 0.8)), LABELS)[0]


def run(  # noqa: PLR0917 - what is measured
    kind: str, policy: str, spans: float, count: int, seed: int, labels: int
) -> np.ndarray:
    """F₁, that of the vote of all, the mean score and the cost of one draw, shape (4,)."""
    prices = {name: model.price for name, model in KINDS[kind][0].items()}
    question = camvo.Question(
        LABELS, prices=prices, dimension=1, policy=policy_by_name(policy, {}), aggregation=_VOTE
    )
    labelled = set(np.random.default_rng([seed, 1]).permutation(count)[:labels].tolist())
    measured = np.zeros((count, 4))
    for number, (truth, votes) in zip(range(count), texts(kind, spans, seed), strict=False):
        task, paid = question.task(np.ones(1)), 0.0
        while models := task.ask():
            task.add({model: votes[model] for model in models})
            paid += sum(prices[model] for model in models)
        decision = task.decide()
        task.learn(**({"human": truth} if number in labelled else {}))
        right, all_right = _VOTE.reward(decision.label, truth), _VOTE.reward(vote_of_all(votes), truth)
        measured[number] = right, all_right, decision.score, paid / sum(prices.values())
    return 100.0 * measured.mean(axis=0)


def row(kind: str, policy: str, spans: float, options: argparse.Namespace, labels: int) -> str:
    """A row of the table."""
    draws = np.array([run(kind, policy, spans, options.texts, seed, labels) for seed in range(options.draws)])
    right, alike, score, cost = draws.T
    gain = right - alike
    asked = f"`{policy}`{f', {labels} labels' if labels else ''}"
    return (
        f"| {kind}, {spans:g} spans | {asked} | {right.mean():.1f} |"
        f" {gain.mean():+.1f} [{gain.min():+.1f}] | {(score - right).mean():+.1f} | {cost.mean():.1f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", type=int, default=800)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--labels", default="0,50")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--spans", default="1,3,8", help="mean numbers of spans in a text")
    options = parser.parse_args()
    print("| texts | policy | F₁ | over the vote of all | score less F₁ | cost |\n|---|---|---|---|---|---|")
    for kind in options.kinds.split(","):
        for spans in map(float, options.spans.split(",")):
            for labels in map(int, options.labels.split(",")):
                print(row(kind, "joint", spans, options, labels), flush=True)
            print(row(kind, "camvo", spans, options, 0), flush=True)


if __name__ == "__main__":
    main()
