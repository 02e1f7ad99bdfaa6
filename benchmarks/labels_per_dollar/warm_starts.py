"""Replay new projects with and without what earlier projects taught about the models.

    python benchmarks/labels_per_dollar/warm_starts.py [VOTES.csv …] [--items 300,1000] [--draws 6]
        [--first 0] [--earlier 1]

An earlier project has asked every model about 200 items. Made-up pools of seven models have two or four
labels. Models keep their skills from project to project up to a little or more noise, or the earlier project
misleads: skills are permuted or reversed, or the best model has broken since. Vote tables are divided into
projects by the beginning of ``item_id``, such as the language of a law, or the subject of a question.

Prints the percentage of right labels minus that of the vote of all weighted by true accuracies, the mean [the
worst], and the cost in percent of asking every model: without and with earlier projects. Then the difference
of right labels, with its standard error [the worst]. Prints Markdown.
"""

from __future__ import annotations

import argparse
import csv
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from comparison import table
from disasters import casts, plain_votes
from made_up.drawing import PRICES, drawn_truth, table_of, voted
from scipy.special import ndtr, ndtri

from backend.commands.replay import inputs
from camvo.joint.votes_fit import lesson_of
from camvo.policies.joint import Joint
from camvo.replays.replay import VotesTable, replay
from camvo.state.earlier import NOTHING_EARLIER, Earlier
from camvo.state.exploration import PatternCounts, VotePattern, named_labels
from camvo.typing import Array

_WINDOW = 12
_ROUNDS = 200
"""The rounds of an earlier project."""

_SKILLS = ndtri((0.84, 0.8, 0.77, 0.74, 0.72, 0.7, 0.66))
_FEWEST_ITEMS = 300

Projects = tuple[list[VotesTable], VotesTable]
"""Earlier projects, and the new one."""


def taught_by(votes: Sequence[VotesTable]) -> Earlier:
    """What projects teach that have asked every model about every item."""
    lessons = []
    for number, each in enumerate(votes):
        arms, named = tuple(sorted(each.prices)), named_labels(each.labels)
        rounds = Counter(VotePattern.of(arms, cast, everyone=True, labels=named) for cast in casts(each))
        evidence = PatternCounts(dict(rounds), rounds.total())
        lessons.append(lesson_of(str(number), evidence, arms, each.labels))
    return Earlier(tuple(lesson for lesson in lessons if lesson is not None))


def outcome(votes: VotesTable, earlier: Earlier) -> tuple[float, float]:
    """Points over the weighted vote, and the cost in percent, of one replay."""
    trace = replay(Joint(), votes, window=_WINDOW, student=False, earlier=earlier)
    right = [100.0 * float((said == votes.truth).mean()) for said in (trace.labels, plain_votes(votes)[1])]
    return right[0] - right[1], 100.0 * float(trace.costs.sum()) / (votes.full_cost * len(votes.truth))


def _drawn(rng: np.random.Generator, skills: Array, labels: int, items: int) -> VotesTable:
    truth = drawn_truth(rng, items, labels)
    votes = voted(rng, truth, ndtr(skills), labels, shared=0.45)
    votes[rng.random(votes.shape) < 0.01] = -1
    return table_of(votes, truth, rng.normal(size=(items, 2)), labels)


Change = Callable[[np.random.Generator, Array], Array]


def _noisy(spread: float) -> Change:
    return lambda rng, skills: skills + rng.normal(scale=spread, size=skills.size) + rng.normal(scale=0.3)


CHANGES: dict[str, Change] = {
    "nearly the same skills": _noisy(0.1),
    "other skills": _noisy(0.25),
    "skills permuted": lambda rng, skills: rng.permutation(skills),
    "skills reversed": lambda _, skills: 2.0 * skills.mean() - skills,
    "the best model broke": _noisy(0.1),
}
"""How an earlier project's skills, on the probit scale, come from those that the models have now."""


def made_up(name: str, labels: int, items: int, seed: int, earlier: int) -> Projects:
    """Draw earlier projects and a new one."""
    rng = np.random.default_rng([seed, items, labels])
    skills = rng.permutation(_SKILLS) + rng.normal(scale=0.1, size=len(PRICES))
    before = [_drawn(rng, CHANGES[name](rng, skills), labels, _ROUNDS) for _ in range(earlier)]
    if name == "the best model broke":
        skills[skills.argmax()] = ndtri(1.0 / labels + 0.02)
    return before, _drawn(rng, skills, labels, items)


def divided(path: Path, items: int, seeds: range, earlier: int) -> Iterator[Projects]:
    """Draw projects from the parts of a vote table."""
    file = inputs.VotesFile.read(path)
    prices = inputs.read_prices(None, file.models, path)
    with path.open(encoding="utf-8", newline="") as rows:
        parts = np.array([re.sub(r"_?\d+$", "", row["item_id"]) for row in csv.DictReader(rows)])
    known = {part: np.flatnonzero((parts == part) & (file.truth >= 0)) for part in np.unique(parts)}
    large = [part for part, of in known.items() if len(of) >= _FEWEST_ITEMS]
    for seed in seeds if len(large) > 1 else ():
        rng = np.random.default_rng([seed, items])
        new, *before = rng.permutation(large)[: earlier + 1]

        def project(part: str, most: int, rng: np.random.Generator = rng) -> VotesTable:
            chosen = rng.permutation(known[part])[:most]
            contexts = rng.normal(size=(len(chosen), 2))
            return VotesTable(file.labels, prices, contexts, file.votes[chosen], file.truth[chosen])

        yield [project(part, _ROUNDS) for part in before], project(new, items)


def _line(name: str, items: int, drawn: Iterator[Projects]) -> list[str]:
    both = [(outcome(new, NOTHING_EARLIER), outcome(new, taught_by(before))) for before, new in drawn]
    if not both:
        return [name, f"{items:,}", "too few parts"]
    found = np.array(both)
    gaps, costs = found.transpose(2, 1, 0)
    cells = [
        f"{gap.mean():+.2f} [{gap.min():+.1f}] at {cost.mean():.1f}%"
        for gap, cost in zip(gaps, costs, strict=True)
    ]
    gain = gaps[1] - gaps[0]
    error = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.nan
    return [name, f"{items:,}", *cells, f"{gain.mean():+.2f} ± {error:.2f} [{gain.min():+.1f}]"]


def _projects(given: argparse.Namespace, items: int) -> Iterator[tuple[str, Iterator[Projects]]]:
    """The drawn projects of each kind or table, by its name."""
    seeds = range(given.first, given.first + given.draws)
    for path in given.votes:
        yield path.stem, divided(path, items, seeds, given.earlier)
    for name in () if given.votes else CHANGES:
        for labels in (2, 4):
            drawn = (made_up(name, labels, items, seed, given.earlier) for seed in seeds)
            yield f"{name}, {labels} labels", drawn


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("votes", type=Path, nargs="*")
    parser.add_argument("--items", default="300,1000")
    parser.add_argument("--draws", type=int, default=6)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first draw")
    parser.add_argument("--earlier", type=int, default=1, help="how many earlier projects there are")
    given = parser.parse_args()
    heads = ["projects", "items", "without", "with", "difference"]
    print(table(heads, []), flush=True)
    for items in map(int, given.items.split(",")):
        for name, drawn in _projects(given, items):
            print(table(heads, [_line(name, items, drawn)]).splitlines()[-1], flush=True)


if __name__ == "__main__":
    main()
