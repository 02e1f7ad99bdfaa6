"""Ratings by the joint policy, against the medians of all votes.

    python benchmarks/ratings.py [votes.csv ...] [--shuffles 3] [--labels 0,30,100] [--errors exact,absolute]
    python benchmarks/ratings.py --made-up [--draws 2]
    python benchmarks/ratings.py --ends [--draws 2] [--noise 0.12] [--errors absolute] [--labels 0,30]
    python benchmarks/ratings.py --silent [--draws 2] [--errors exact,absolute]

A table has the columns ``item_id`` and ``truth``, and one for each model; its prices lie beside it, as JSON
with ``usd_per_million_input_tokens``. The labels are numbers. People label the first items of a shuffle, and
the measures are those of all others. Prints Markdown: exact, within one, MAE and quadratic kappa; in brackets
what is gained over the plain median (MAE: in percent of it), with the worst shuffle; and the cost in percent
of asking everyone. Beside the joint policy stand the plain median, the median weighted by true accuracies,
and the policy ``camvo``, which ratings had before. ``--ends`` takes scales of five and ten labels with few
models, and also counts how many unanimous votes were answered with another label. ``--silent`` blanks votes
of made-up tables of 1,500 ratings, and prints what each set of silent models costs: run it on two versions.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

import camvo
from camvo.replays.measures import full_vote_weights, scale_median, scale_quality
from camvo.replays.replay import VotesTable, replay
from camvo.typing import Array
from camvo.votes.labels import ErrorName

_WINDOW, _STEPS, _ITEMS = 64, 5, 1500
_PRICES = (0.1, 0.2, 0.4, 0.7, 1.0, 2.5, 4.0)
_NOISE, _SHARED = 0.8, 0.4
"""The spread of a model's error in steps, and the part of it that all models share."""


def read(path: Path) -> VotesTable:
    """The votes of a file, with exact errors."""
    with path.open(newline="", encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    labels = tuple(sorted({row[1] for row in rows}, key=float))
    place = {label: number for number, label in enumerate(labels)}
    votes = np.array([[place.get(vote, -1) for vote in row[2:]] for row in rows], dtype=np.int64)
    truth = np.array([place[row[1]] for row in rows], dtype=np.int64)
    prices = json.loads(path.with_suffix(".json").read_text())["usd_per_million_input_tokens"]
    return _table(labels, {model: prices[model] for model in head[2:]}, votes, truth)


def _table(
    labels: tuple[str, ...], prices: Mapping[str, float], votes: np.ndarray, truth: np.ndarray
) -> VotesTable:
    contexts, vote = np.ones((len(truth), 1)), camvo.OrderedVote(labels)
    return VotesTable(labels, prices, contexts, votes, truth, aggregation=vote)


def _halved(truth: Array) -> Array:
    """Four of seven models use the middle of the scale only."""
    middle = (_STEPS - 1) / 2.0
    return middle + np.array([0.5] * 4 + [1.0] * 3) * (truth[:, None] - middle)


def _turned(truth: Array) -> Array:
    """One model reads the scale backwards."""
    middle = (_STEPS - 1) / 2.0
    return middle + np.array([-1.0] + [1.0] * 6) * (truth[:, None] - middle)


_EVEN = np.ones(7)
KINDS: Mapping[str, tuple[Callable[[Array], Array], Array]] = {
    "plain": (lambda truth: truth[:, None] * _EVEN, _EVEN),
    "some biased": (lambda truth: truth[:, None] + np.array([1.3, -1.3, 1.0, 0.0, 0.0, 0.0, 0.0]), _EVEN),
    "all one too high": (lambda truth: truth[:, None] + _EVEN, _EVEN),
    "spread": (lambda truth: truth[:, None] * _EVEN, np.array([0.4, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0])),
    "compressed": (_halved, _EVEN),
    "one reversed": (_turned, _EVEN),
    "bimodal": (lambda truth: truth[:, None] * _EVEN, _EVEN),
    "skewed": (lambda truth: truth[:, None] * _EVEN, _EVEN),
}
"""Kind → where the models see an item, given its place on the scale, and the spreads of their errors."""


def made_up(kind: str, seed: int) -> VotesTable:
    """Ratings from 1 to 5 by seven models, whose errors have a part in common."""
    rng = np.random.default_rng([seed, *kind.encode()])
    if kind == "bimodal":
        low = rng.random(_ITEMS) < 0.5
        place = np.where(low, rng.normal(0.3, 0.5, _ITEMS), rng.normal(3.7, 0.5, _ITEMS))
    elif kind == "skewed":
        place = 4.0 * (1.0 - rng.beta(1.2, 4.0, _ITEMS))
    else:
        place = rng.uniform(-0.5, 4.5, _ITEMS)
    place = np.clip(place, -0.49, 4.49)
    seen, spreads = KINDS[kind]
    own = _NOISE * spreads * np.exp(rng.normal(0.0, 0.35, 7))
    errors = rng.normal(0.0, _NOISE * _SHARED, (_ITEMS, 1)) + rng.normal(size=(_ITEMS, 7)) * own
    votes = np.clip(np.rint(seen(place) + errors), 0, 4).astype(np.int64)
    prices = dict(zip("abcdefg", rng.permutation(_PRICES).tolist(), strict=True))
    return _table(tuple("12345"), prices, votes, np.rint(place).astype(np.int64))


def _measures(labels: np.ndarray, table: VotesTable, among: np.ndarray) -> list[float]:
    quality = scale_quality(labels[among], table.truth[among])
    assert quality is not None
    exact = float((labels == table.truth)[among].mean())
    return [exact, quality.within_one, quality.absolute, quality.kappa or 0.0]


def _medians(table: VotesTable) -> Iterator[tuple[str, np.ndarray]]:
    count, models = len(table.labels), table.votes.shape[1]
    yield "median of all", scale_median(table.votes, np.ones(models), count)
    yield (
        "weighted median of all",
        scale_median(table.votes, full_vote_weights(table.votes, table.truth), count),
    )


def _runs(
    tables: list[VotesTable], policy: camvo.Policy, error: ErrorName, labels: int
) -> Iterator[tuple[list[float], list[float], float]]:
    """The measures of a policy and of the plain median, and the policy's cost, for each table."""
    for table in tables:
        aggregation = camvo.OrderedVote(table.labels, error)
        known = np.arange(len(table.truth)) < labels
        one = VotesTable(
            table.labels, table.prices, table.contexts, table.votes, table.truth, aggregation=aggregation
        )
        trace = replay(policy, one, human=known, window=_WINDOW)
        _, median = next(_medians(table))
        cost = float(trace.costs.mean()) / table.full_cost
        yield _measures(trace.labels, table, ~known), _measures(median, table, ~known), cost


def _line(name: str, runs: list[tuple[list[float], list[float], float]]) -> str:
    ours, plain = np.array([run[0] for run in runs]), np.array([run[1] for run in runs])
    gained, saved = 100.0 * (ours - plain), 100.0 * (ours[:, 2] / plain[:, 2] - 1.0)
    exact, within, absolute, kappa = ours.mean(axis=0)
    cells = [
        f"{100.0 * exact:.1f} ({gained[:, 0].mean():+.1f} [{gained[:, 0].min():+.1f}])",
        f"{100.0 * within:.1f}",
        f"{absolute:.3f} ({saved.mean():+.1f}% [{saved.max():+.1f}%])",
        f"{kappa:.3f}",
        f"{100.0 * float(np.mean([run[2] for run in runs])):.1f}",
    ]
    return f"| {name} | {' | '.join(cells)} |"


def report(name: str, tables: list[VotesTable], labels: list[int], errors: list[ErrorName]) -> None:
    """Print the table of one set of shuffles or draws."""
    print(f"\n**{name}**\n\n| | exact | within one | MAE | kappa | cost |\n|---|---|---|---|---|---|")
    every = np.full(len(tables[0].truth), True)
    for number, (median, _) in enumerate(_medians(tables[0])):
        medians = [[*_medians(table)] for table in tables]
        runs = [
            (_measures(each[number][1], table, every), _measures(each[0][1], table, every), 1.0)
            for table, each in zip(tables, medians, strict=True)
        ]
        print(_line(median, runs), flush=True)
    before = camvo.CaMVo(delta=0.95)
    print(_line("camvo, no labels", [*_runs(tables, before, "absolute", 0)]), flush=True)
    for error in errors:
        for count in labels:
            runs = [*_runs(tables, camvo.Joint(), error, count)]
            print(_line(f"joint, {error}, {count} labels", runs), flush=True)


_END_ITEMS = 300
SHAPES: Mapping[str, Callable[[np.random.Generator, float, int], Array]] = {
    "uniform": lambda rng, length, items: rng.uniform(-0.5, length + 0.5, items),
    "skewed": lambda rng, length, items: length * (1.0 - rng.beta(1.2, 4.0, items)),
    "ends": lambda rng, length, items: (
        length * (rng.choice([0.05, 0.95], items) + rng.normal(0.0, 0.12, items))
    ),
    "middle": lambda rng, length, items: rng.normal(0.5 * length, 0.15 * length, items),
    "shy": lambda rng, length, items: rng.uniform(-0.5, length + 0.5, items),
}
"""Where items lie on a scale. With ``shy`` people avoid the ends, and models do not."""


def made_up_scale(  # noqa: PLR0917 - what a table is made of
    shape: str, steps: int, models: int, noise: float, seed: int, items: int = _END_ITEMS
) -> VotesTable:
    """Ratings on a scale of ``steps`` labels; the noise is a share of its length."""
    rng = np.random.default_rng([seed, steps, models, *shape.encode()])
    length = steps - 1.0
    place = np.clip(SHAPES[shape](rng, length, items), -0.49, length + 0.49)
    truth = place if shape != "shy" else length / 2.0 + 0.8 * (place - length / 2.0)
    own = noise * length * np.exp(rng.normal(0.0, 0.35, models))
    errors = rng.normal(0.0, noise * length * _SHARED, (items, 1))
    errors = errors + rng.normal(size=(items, models)) * own
    votes = np.clip(np.rint(place[:, None] + errors), 0, length).astype(np.int64)
    prices = dict(zip("abcdefg", rng.permutation(_PRICES)[:models].tolist(), strict=False))
    labels = tuple(str(number + 1) for number in range(steps))
    return _table(labels, prices, votes, np.rint(truth).astype(np.int64))


def ends(draws: int, noise: float, error: ErrorName, labels: int) -> None:
    """Print one line: the means over all scales against the median of all, and the worst."""
    lines = []
    for steps, models, shape, seed in itertools.product((5, 10), (2, 3, 5), SHAPES, range(draws)):
        table = made_up_scale(shape, steps, models, noise, seed)
        table = replace(table, aggregation=camvo.OrderedVote(table.labels, error))
        human = np.arange(_END_ITEMS) < labels
        trace = replay(camvo.Joint(), table, human=human, window=_WINDOW)
        _, median = next(_medians(table))
        ours, plain = _measures(trace.labels, table, ~human), _measures(median, table, ~human)
        alike = (table.votes == table.votes[:, :1]).all(axis=1) & ~human
        moved = float((trace.labels != table.votes[:, 0])[alike].mean()) if alike.any() else 0.0
        cost = float(trace.costs.mean()) / table.full_cost
        lines.append((ours[0] - plain[0], ours[2] / plain[2] - 1.0, cost, moved))
    exact, absolute, cost, moved = 100.0 * np.array(lines).T
    print(
        f"| {error}, {labels} labels | {exact.mean():+.1f} [{exact.min():+.1f}], {absolute.mean():+.1f}%"
        f" [{absolute.max():+.0f}%], {cost.mean():.1f}, {moved.mean():.1f}% |",
        flush=True,
    )


_SCALES = ((3, 6, 0.3), (5, 4, 0.15), (10, 3, 0.12))
"""The labels and models of tables with silent models, and their noise."""

SILENT: Mapping[str, tuple[slice, float]] = {
    "nobody": (slice(0), 0.0),
    "cheapest 50%": (slice(0, 1), 0.5),
    "dearest 50%": (slice(-1, None), 0.5),
    "dearest 80%": (slice(-1, None), 0.8),
    "two cheapest 50%": (slice(0, 2), 0.5),
    "two dearest 50%": (slice(-2, None), 0.5),
    "everybody 20%": (slice(None), 0.2),
}
"""Which models, by price, give no vote, and how often."""


def silenced(table: VotesTable, models: slice, share: float, seed: int) -> VotesTable:
    """The table without some votes of some models, by price."""
    rng, votes = np.random.default_rng([seed, 7]), table.votes.copy()
    for column in np.argsort([*table.prices.values()])[models]:
        votes[rng.random(len(votes)) < share, column] = -1
    return replace(table, votes=votes)


def silent(who: str, draws: int, error: ErrorName) -> None:
    """Print one line: the means over all scales."""
    runs = []
    for (steps, models, noise), shape, seed in itertools.product(
        _SCALES, ("uniform", "skewed", "middle"), range(draws)
    ):
        table = silenced(made_up_scale(shape, steps, models, noise, seed, _ITEMS), *SILENT[who], seed)
        runs += _runs([table], camvo.Joint(), error, 0)
    exact, _, absolute, _ = np.mean([ours for ours, _, _ in runs], axis=0)
    cost = 100.0 * float(np.mean([cost for _, _, cost in runs]))
    print(f"| {who}, {error} | {100.0 * exact:.1f} | {absolute:.3f} | {cost:.1f} |", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("votes", nargs="*", type=Path)
    parser.add_argument("--made-up", action="store_true")
    parser.add_argument("--ends", action="store_true")
    parser.add_argument("--silent", action="store_true")
    parser.add_argument("--noise", type=float, default=0.12)
    parser.add_argument("--shuffles", type=int, default=3)
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--labels", default="0,30,100")
    parser.add_argument("--errors", default="exact,absolute")
    options = parser.parse_args()
    labels = [int(count) for count in options.labels.split(",")]
    errors = options.errors.split(",")
    for path in options.votes:
        table = read(path)
        orders = (np.random.default_rng(seed) for seed in range(options.shuffles))
        report(path.stem, [table.take(rng.permutation(len(table.truth))) for rng in orders], labels, errors)
    for error, count in itertools.product(errors, labels if options.ends else ()):
        ends(options.draws, options.noise, error, count)
    for error, who in itertools.product(errors, SILENT if options.silent else ()):
        silent(who, options.draws, error)
    for kind in KINDS if options.made_up else ():
        report(kind, [made_up(kind, seed) for seed in range(options.draws)], labels, errors)


if __name__ == "__main__":
    main()
