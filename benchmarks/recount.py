"""Measure what counting the kept votes again gains: right labels before and after human labels.

    python benchmarks/recount.py [VOTES.csv …] [--items 2000] [--shuffles 2] [--ask-more 0.05]

Each table is predicted first, item by item, without human labels. Then people label a random 2%, 5% and 10%
of the items, and the votes of all other items are counted again. Printed for the items that nobody labelled:
the percentage of right labels as first predicted and after each recount, and how far the mean score lies
above it. Prices are read from the JSON file beside the table. Without a table, seven made-up models vote, of
which three copy one another. The policies ignore contexts.

With ``--ask-more``, models that were left out are then asked about items that nobody labelled, as
``camvo predict --recount --ask-more`` does, for at most that share of what all predictions have cost.
"""

from __future__ import annotations

import argparse
import heapq
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import camvo
from backend.commands.replay.inputs import VotesFile, read_prices
from camvo.policies.past_rounds import FurtherPolicy, FurtherValue, PastRound, further_policy, recount
from camvo.policies.policy import Policy
from camvo.questions import Task
from camvo.replays.replay import VotesTable
from camvo.scores.scorer import FinishedRound, Scorer
from camvo.votes.aggregation import Decision

POLICIES: dict[str, Policy] = {
    "joint": camvo.Joint(),
    "joint, everyone asked": camvo.Joint(worth=1000.0),
    "camvo": camvo.CaMVo(),
    "ccamvo": camvo.CCaMVo(),
    "baseline": camvo.Baseline(),
}
SHARES = (0.0, 0.02, 0.05, 0.1)
CONTEXT = np.array([1.0, 0.0])


@dataclass(frozen=True)
class Item:
    """A predicted item."""

    task: Task
    votes: Mapping[str, str | None]
    first: Decision
    truth: str
    every: Mapping[str, str | None]


def predict(
    labels: tuple[str, ...],
    prices: Mapping[str, float],
    rows: list[tuple[dict[str, str | None], str]],
    policy: Policy,
) -> tuple[camvo.Question, list[Item]]:
    """Predict the items one after another, as the server does, without human labels."""
    question = camvo.Question(labels, prices=prices, dimension=2, policy=policy)
    items = []
    for votes, truth in rows:
        task = question.task(CONTEXT)
        while arms := task.ask():
            task.add({arm: votes[arm] for arm in arms})
        if any(vote is not None for vote in task.votes.values()):
            task.learn()
            items.append(Item(task, task.votes, task.decision, truth, votes))
    return question, items


def counted(
    question: camvo.Question, policy: Policy, votes: Sequence[Mapping[str, str | None]]
) -> list[Decision]:
    """Count votes by what the question has learnt by now."""
    labels, prices = tuple(question.labels), question.prices
    again = [recount(policy, question.state, PastRound(CONTEXT, cast, labels, prices)) for cast in votes]
    return [decision for decision in again if decision is not None]


def without_their_answers(
    question: camvo.Question, policy: Policy, items: list[Item], answered: Sequence[int]
) -> dict[int, str]:
    """Answered item → the label that counting gives it without its own answer, a fifth at a time.

    The server calibrates a recount's scores on these, as ``backend/recounting/recounter.py`` says.
    """
    labels: dict[int, str] = {}
    for fold in (answered[part::5] for part in range(5)):
        for at in fold:
            items[at].task.withdraw()
            items[at].task.learn()
        decisions = counted(question, policy, [items[at].votes for at in fold])
        labels |= dict(zip(fold, (decision.label for decision in decisions), strict=True))
        for at in fold:
            items[at].task.learn(human=items[at].truth)
    return labels


def scorer_of(
    items: list[Item], relabelled: Mapping[int, str], labels: tuple[str, ...], arms: list[str]
) -> Scorer:
    """The scorer by all votes and the human labels so far, which say how right the new labels are."""
    rounds = []
    for at, item in enumerate(items):
        label = relabelled.get(at, item.first.label)
        right = float(label == item.truth) if at in relabelled else None
        rounds.append(FinishedRound(item.votes, label, right))
    return Scorer.fit(rounds, arms, labels)


def measure(decisions: list[Decision], items: list[Item], scorer: Scorer) -> tuple[float, float]:
    """The percentage of right labels, and how many points the mean score lies above it."""
    right = np.mean([decision.label == item.truth for decision, item in zip(decisions, items, strict=True)])
    cast = [{arm: vote for arm, vote in item.votes.items() if vote is not None} for item in items]
    scores = [scorer.score_decision(*pair) for pair in zip(cast, decisions, strict=True)]
    return 100.0 * float(right), 100.0 * float(np.mean(scores) - right)


def tables(paths: Sequence[Path], number: int) -> Iterator[tuple[str, VotesTable]]:
    """The tables to predict, by name."""
    for path in paths:
        file = VotesFile.read(path)
        prices = read_prices(None, file.models, path)
        yield (
            path.stem,
            VotesTable(file.labels, prices, np.ones((len(file.truth), 2)), file.votes, file.truth),
        )
    if not paths:
        sys.path.insert(0, str(Path(__file__).parent / "labels_per_dollar"))
        from made_up.families import copying

        for labels in (2, 4):
            yield f"copies, {labels} labels", copying(labels)(np.random.default_rng(0), 3 * number).table


def asked_more(
    question: camvo.Question, further: FurtherPolicy, items: list[Item], budget: float
) -> tuple[list[dict[str, str | None]], float]:
    """The items' votes after further votes for at most ``budget``, and what these cost."""
    prices, labels, spent = question.prices, tuple(question.labels), 0.0
    full = sum(prices.values())
    votes = [dict(item.votes) for item in items]

    def further(at: int) -> FurtherValue:
        return further.further_votes(question.state, PastRound(CONTEXT, votes[at], labels, prices))

    best = [(-further(at).break_even, at) for at in range(len(votes))]
    heapq.heapify(best)
    while best:
        even, at = heapq.heappop(best)
        arms = further(at).arms
        price = sum(prices[arm] for arm in arms)
        if not arms or -even * further.worth_of(full) / full < 1.0 or spent + price > budget:
            break
        spent += price
        votes[at] |= {arm: items[at].every[arm] for arm in arms}
        heapq.heappush(best, (-further(at).break_even, at))
    return votes, spent


def run(
    table: VotesTable, policy: Policy, number: int, shuffle: int, more: float
) -> list[tuple[float, float, float, float, float, float]]:
    """For each share of human labels: right before and after, and the score's excess before and after.

    Then right after further votes for ``more`` of what was paid, and what these cost, in percent of that.
    """
    labels, prices, arms = tuple(table.labels), table.prices, list(table.prices)
    rng = np.random.default_rng(shuffle)
    rows = [
        (
            {
                arm: labels[vote] if vote >= 0 else None
                for arm, vote in zip(arms, table.votes[at], strict=True)
            },
            labels[table.truth[at]],
        )
        for at in rng.permutation(len(table.truth))[:number]
    ]
    question, items = predict(labels, prices, rows, policy)
    paid = sum(prices[arm] for item in items for arm in item.votes)
    in_order = rng.permutation(len(items)).tolist()
    label_free, result = scorer_of(items, {}, labels, arms), []
    taught = 0
    for share in SHARES:
        count = round(share * len(items))
        for at in in_order[taught:count]:
            items[at].task.learn(human=items[at].truth)
        taught = count
        left = [items[at] for at in sorted(in_order[count:])]
        again = counted(question, policy, [item.votes for item in left])
        relabelled = without_their_answers(question, policy, items, in_order[:count])
        scorer = scorer_of(items, relabelled, labels, arms)
        before = measure([item.first for item in left], left, label_free)
        after = measure(again, left, scorer)
        further, spent = after[0], 0.0
        if more and (further := further_policy(policy)) is not None:
            votes, spent = asked_more(question, further, left, more * paid)
            asked = counted(question, policy, votes)
            further = 100.0 * float(
                np.mean([decision.label == item.truth for decision, item in zip(asked, left, strict=True)])
            )
        result.append((before[0], after[0], before[1], after[1], further, 100.0 * spent / paid))
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tables", nargs="*", type=Path)
    parser.add_argument("--items", type=int, default=2000)
    parser.add_argument("--shuffles", type=int, default=2)
    parser.add_argument("--policy", choices=POLICIES, default="joint")
    parser.add_argument("--ask-more", type=float, default=0.0)
    arguments = parser.parse_args()
    print(
        "table, human labels: right before → after (gain of each shuffle); mean score minus right, likewise"
    )
    for name, table in tables(arguments.tables, arguments.items):
        runs = np.array(
            [
                run(table, POLICIES[arguments.policy], arguments.items, shuffle, arguments.ask_more)
                for shuffle in range(arguments.shuffles)
            ]
        )
        for share, by_shuffle in zip(SHARES, runs.transpose(1, 0, 2), strict=True):
            mean = by_shuffle.mean(axis=0)
            gains = ", ".join(f"{after - before:+.2f}" for before, after, *_ in by_shuffle)
            print(
                f"{name}, {share:.0%}: {mean[0]:.2f} → {mean[1]:.2f} ({gains});"
                f" {mean[2]:+.1f} → {mean[3]:+.1f}; asked more {mean[4]:.2f} for {mean[5]:.1f}%",
                flush=True,
            )


if __name__ == "__main__":
    main()
