"""Measure what it is worth to let one price decide between models and people, beside the best fixed mix.

    python benchmarks/human_price.py [VOTES.csv …] [--items 1000] [--shuffles 1] [--worth 0.3]

Each table is predicted first, without human labels, by the default policy at a worth in dollars. Then people
label items, 25 or more at a time, and in between all other votes are counted again, as the server does. The
total value is the number of right labels × worth − dollars, of models and of people; an item that somebody
has labelled is right. The ways are:

- one price: the next dollar goes where it puts most labels right, to a further vote, or to a label, by what
  it corrects and what it teaches; until neither is worth its price;
- a fixed share of the items, the lowest scores first, for every share on a grid. The best one is found
  afterwards, for each price of a label, which nobody can do in practice;
- PAC labels (arXiv 2506.10908): a random sample of 150 labels bounds the error below each threshold of the
  score with 95%; people label everything above the largest threshold whose error is at most ε. The best ε of
  a grid is found afterwards, too.

``--asking`` says what asking every model once costs, in dollars.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from recount import CONTEXT, Item, predict, scorer_of, tables
from scipy import stats

import camvo
from camvo.policies.joint import Joint
from camvo.policies.past_rounds import PastRound, further_policy, recount
from camvo.replays.replay import VotesTable
from camvo.scores import reviews
from camvo.scores.reviews import TaughtBefore
from camvo.typing import Array
from camvo.votes.aggregation import Decision

PRICES = (0.03, 0.06, 0.12)
SHARES = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)
ERRORS = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2)
SAMPLE = 150
BATCH = 25


@dataclass
class Project:
    """A table after its predictions: items, what is known of them now, and what was paid, in $."""

    labels: tuple[str, ...]
    prices: dict[str, float]
    policy: Joint
    question: camvo.Question
    items: list[Item]
    every: list[dict[str, str | None]]
    usd: float
    votes: list[dict[str, str | None]] = field(default_factory=list)
    labelled: list[int] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    scores: Array = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def predicted(cls, table: VotesTable, items: int, seed: int, worth: float, asking: float) -> Project:
        labels, arms = tuple(table.labels), list(table.prices)
        total = sum(table.prices.values())
        prices = {arm: asking * price / total for arm, price in table.prices.items()}
        chosen = np.random.default_rng(seed).permutation(np.flatnonzero(table.truth >= 0))[:items]
        rows = []
        for at in chosen:
            votes = {
                arm: labels[vote] if vote >= 0 else None
                for arm, vote in zip(arms, table.votes[at], strict=True)
            }
            if any(vote is not None for vote in votes.values()):
                rows.append((votes, labels[table.truth[at]]))
        policy = Joint(worth_usd=worth)
        question, found = predict(labels, prices, rows, policy)
        every = [votes for votes, _ in rows]
        paid = sum(prices[arm] for item in found for arm in item.votes)
        project = cls(labels, prices, policy, question, found, every, paid)
        project.votes = [dict(item.votes) for item in found]
        project.count()
        return project

    def count(self) -> None:
        """Count all votes again by what is known now, and score the labels."""
        again = [
            recount(self.policy, self.question.state, PastRound(CONTEXT, votes, self.labels, self.prices))
            for votes in self.votes
        ]
        self.decisions = [decision for decision in again if decision is not None]
        scorer = scorer_of(self.items, set(self.labelled), self.labels, list(self.prices))
        cast = [{arm: vote for arm, vote in votes.items() if vote is not None} for votes in self.votes]
        pairs = zip(cast, self.decisions, strict=True)
        self.scores = np.array([scorer.score_decision(*pair) for pair in pairs])

    def label(self, items: Sequence[int]) -> None:
        """People label items; what they say teaches."""
        for at in items:
            self.items[at].task.learn(human=self.items[at].truth)
        self.labelled += items

    @property
    def open(self) -> list[int]:
        done = set(self.labelled)
        return [at for at in range(len(self.items)) if at not in done]

    def right(self) -> int:
        """How many labels are right, people's own among them."""
        return len(self.labelled) + sum(self.decisions[at].label == self.items[at].truth for at in self.open)


def fixed_shares(project: Project) -> dict[float, int]:
    """Share → right labels after people have labelled so many items, the lowest scores first."""
    right = {}
    for share in SHARES:
        wanted = round(share * len(project.items))
        while len(project.labelled) < wanted:
            size = min(max(BATCH, len(project.labelled) // 4), wanted - len(project.labelled))
            project.label(sorted(project.open, key=lambda at: (project.scores[at], at))[:size])
            project.count()
        right[share] = project.right()
    return right


def one_price(project: Project, price: float, worth: float) -> tuple[float, int, float]:
    """Let one price decide; return the total value, the human labels, and the $ for further votes."""
    bought, seen = 0.0, TaughtBefore()
    first = [item.first.label for item in project.items]
    before = project.scores.copy()
    while True:
        bought += _further_votes(project, worth)
        candidates = project.open
        if not candidates:
            break
        wrong = 1.0 - project.scores[candidates]
        lesson = reviews.teaches(float(wrong.sum()), len(project.labelled), seen)
        doubt = np.array(
            [
                reviews.dispute(
                    project.votes[at], project.decisions[at].label, project.scores[at], len(project.prices)
                )
                for at in candidates
            ]
        )
        gain = wrong + lesson * doubt / max(float(doubt.mean()), 1e-9)
        worthwhile = np.flatnonzero(gain * worth > price)
        if not len(worthwhile):
            break
        size = max(BATCH, len(project.labelled) // 4)
        best = worthwhile[np.argsort(-gain[worthwhile], kind="stable")][:size]
        chosen = [candidates[at] for at in best]
        if project.labelled:
            seen = _seen(seen, project, chosen, first, before)
        project.label(chosen)
        project.count()
    dollars = project.usd + bought + price * len(project.labelled)
    return project.right() * worth - dollars, len(project.labelled), bought


def _seen(
    seen: TaughtBefore, project: Project, chosen: Sequence[int], first: Sequence[str], before: Array
) -> TaughtBefore:
    """What labels have taught, seen on the items that people label next."""
    truth = [project.items[at].truth for at in chosen]
    was = np.array([first[at] == label for at, label in zip(chosen, truth, strict=True)])
    now = np.array([project.decisions[at].label == label for at, label in zip(chosen, truth, strict=True)])
    count, new = seen.wrong, float((1.0 - before[list(chosen)]).sum())
    labels = (seen.labels * count + len(project.labelled) * new) / (count + new)
    return replace(
        seen,
        labels=labels,
        wrong=count + new,
        gained=seen.gained + float(now.sum()) - float(was.sum()),
        moved=seen.moved + float((now != was).sum()),
    )


def _further_votes(project: Project, worth: float) -> float:
    """Ask models that were left out while a vote is worth its price; return what that costs, in $."""
    further = further_policy(project.policy)
    assert further is not None
    state, full, usd = project.question.state, sum(project.prices.values()), 0.0

    def worthwhile(at: int) -> tuple[str, ...]:
        past = PastRound(CONTEXT, project.votes[at], project.labels, project.prices)
        found = further.further_votes(state, past)
        return found.arms if found.break_even * worth / full >= 1.0 else ()

    for at in project.open:
        while arms := worthwhile(at):
            for arm in arms:
                project.votes[at][arm] = project.every[at][arm]
                usd += project.prices[arm]
    if usd:
        project.count()
    return usd


def pac_labels(project: Project, seed: int) -> dict[float, tuple[int, int]]:
    """ε → right labels and human labels, by the thresholds of PAC labels on the label-free scores."""
    sample = np.random.default_rng(seed).permutation(len(project.items))[:SAMPLE]
    wrong = np.array(
        [
            decision.label != item.truth
            for decision, item in zip(project.decisions, project.items, strict=True)
        ]
    )
    doubt = 1.0 - project.scores
    thresholds = np.unique(doubt[sample])
    found = {}
    for error in ERRORS:
        largest = -np.inf
        for threshold in thresholds:
            errors = int((wrong[sample] & (doubt[sample] <= threshold)).sum())
            if stats.beta.ppf(0.95, errors + 1, SAMPLE - errors) > error:
                break
            largest = threshold
        people = (doubt > largest) | np.isin(np.arange(len(doubt)), sample)
        found[error] = int(people.sum() + (~wrong & ~people).sum()), int(people.sum())
    return found


def lines(name: str, table: VotesTable, options: argparse.Namespace) -> Iterator[str]:
    for seed in range(options.shuffles):
        arguments = (table, options.items, seed, options.worth, options.asking)
        project = Project.predicted(*arguments)
        models, pac = project.usd, pac_labels(project, seed)
        alone = project.right() * options.worth - models
        shares, count = fixed_shares(project), len(project.items)
        for price in PRICES:
            value, people, bought = one_price(Project.predicted(*arguments), price, options.worth)
            mixes = {
                share: right * options.worth - models - price * round(share * count)
                for share, right in shares.items()
            }
            best = max(mixes, key=lambda share: mixes[share])
            bounds = {
                error: right * options.worth - models - price * asked for error, (right, asked) in pac.items()
            }
            epsilon = max(bounds, key=lambda error: bounds[error])
            yield (
                f"{name}, shuffle {seed}, {count} items, ${price:.2f} a label: models alone {alone:.2f};"
                f" one price {value - alone:+.2f} with {people} labels, ${bought:.3f} for further votes;"
                f" best fixed share {best:.0%}: {mixes[best] - alone:+.2f}; 5%: {mixes[0.05] - alone:+.2f};"
                f" PAC labels, ε = {epsilon}: {bounds[epsilon] - alone:+.2f} with {pac[epsilon][1]} labels"
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tables", nargs="*", type=Path)
    parser.add_argument("--items", type=int, default=1000)
    parser.add_argument("--shuffles", type=int, default=1)
    parser.add_argument("--worth", type=float, default=0.3)
    parser.add_argument("--asking", type=float, default=0.003)
    options = parser.parse_args()
    for name, table in tables(options.tables, options.items):
        for line in lines(name, table, options):
            print(line, flush=True)


if __name__ == "__main__":
    main()
