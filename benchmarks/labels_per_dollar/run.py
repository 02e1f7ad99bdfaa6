"""Compare accuracy and cost of the policies on real and on synthetic tables of votes.

    python benchmarks/labels_per_dollar/run.py VOTES.csv … OUT/ --shuffles 10 [--embeddings FOLDER] [--jobs 2]

Writes one JSON file for each table and part to OUT. ``tables.py`` turns these files into the tables of
benchmarks/RESULTS.md. Rows that a file already holds are not computed again. The contexts are read from
FOLDER/<stem>.npy; without --embeddings, ``camvo replay``'s embedder computes them. Items are planned in
windows of 64, as on a busy server. The joint policy has its student where there are texts. A table needs at
least 2,000 items.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import learned_cascade
import made_up
import numpy as np
import policies
from records import CONFIRMED, RecordsFile, record, reordered

from backend.commands.replay import inputs
from backend.commands.replay.inputs import Shuffle
from backend.commands.replay.runs import ReplayRow, ReplayRun, ReplaySetting
from backend.models.embedder import Embedder
from camvo.policies.ensemble import Majority
from camvo.replays import measures
from camvo.replays.measures import clairvoyant_bound, fixed_sets, pareto_positions, set_accuracy
from camvo.replays.replay import VotesTable

SMALL = 300
DIMENSIONS = (32, 128)
"""Dimensions to which CaMVo's contexts are projected in small projects."""
EARLY = 2000
"""The 500 items with a human label are drawn from this many first items where the score is measured."""
FEW = 8
"""Dimensions of the contexts for policies that ignore them."""
OURS = 32
"""Dimensions of the contexts for the joint policy."""


def projected(table: VotesTable, dimension: int) -> VotesTable:
    """The table with its contexts projected by a random matrix."""
    rng = np.random.default_rng(dimension)
    matrix = rng.normal(size=(table.contexts.shape[1], dimension)) / np.sqrt(dimension)
    return replace(table, contexts=table.contexts @ matrix)


def shuffles(
    table: VotesTable, count: int, limit: int | None = None, human: bool = False
) -> dict[int, Shuffle]:
    """Seed → an order of the items; with ``human``, people label a random 5%."""
    orders = {}
    for seed in range(count):
        order = np.random.default_rng([seed, 0]).permutation(len(table.truth))[:limit]
        labelled = np.random.default_rng([seed, 7]).random(len(order)) < policies.LABELLED if human else None
        orders[seed] = Shuffle(order, labelled)
    return orders


def confirmed(table: VotesTable, count: int) -> dict[int, Shuffle]:
    """Seed → an order of the items; people label 500 random ones of its first 2,000."""
    orders = {}
    for seed, shuffle in shuffles(table, count).items():
        labelled = np.zeros(len(shuffle.order), dtype=np.bool_)
        labelled[np.random.default_rng([seed, 3]).permutation(EARLY)[:CONFIRMED]] = True
        orders[seed] = Shuffle(shuffle.order, labelled)
    return orders


def labelled_first(shuffle: Shuffle) -> Shuffle:
    """The same order, but with as many labelled items, at the beginning."""
    count = int(shuffle.human.sum())
    return Shuffle(shuffle.order, np.arange(len(shuffle.order)) < count)


def whole(table: VotesTable, file: RecordsFile, count: int, jobs: int) -> None:
    """Replay all policies on the whole table."""
    best = list(table.prices)[int((table.votes == table.truth[:, None]).mean(axis=0).argmax())]
    orders, labelled, ours = (
        shuffles(table, count),
        shuffles(table, count, human=True),
        projected(table, OURS),
    )
    file.replay(ours, orders, policies.joint(), jobs)
    file.replay(ours, labelled, policies.joint(labels="5% labels"), jobs)
    file.replay(ours, labelled, policies.joint(labels="5% labels, completed"), jobs, complete=True)
    file.replay(ours, confirmed(table, count), policies.joint((15.0,), "500 labels"), jobs)
    file.replay(ours, orders, policies.agreeing(), jobs)
    file.replay(ours, labelled, policies.agreeing(labels="5% labels"), jobs)
    file.replay(table, orders, policies.camvo(policies.DELTAS), jobs)
    # Rivals ask every model about the items that humans label, so these come first for them.
    first = {seed: labelled_first(shuffle) for seed, shuffle in labelled.items()}
    file.replay(table, first, policies.labelled_rivals(len(table.truth)), jobs)
    file.replay(projected(table, FEW), orders, policies.others(best), jobs)
    file.replay(table, orders, policies.ccamvo(), jobs)
    names = [f"learned cascade {threshold:g}" for threshold in policies.LEARNED_THRESHOLDS]
    if any(name not in file.content["rows"] for name in names):
        for name, records in zip(names, learned(table, first), strict=True):
            file.add(name, records)


def learned(table: VotesTable, labelled: Mapping[int, Shuffle]) -> Iterable[list[dict[str, Any]]]:
    """Replay the cascade with the learned scorer; one list of records for each threshold."""
    by_shuffle: list[list[dict[str, Any]]] = []
    for seed, shuffle in labelled.items():
        items = reordered(table, shuffle.order)
        traces = learned_cascade.cascades(items, int(shuffle.human.sum()), policies.LEARNED_THRESHOLDS)
        setting = ReplaySetting("learned cascade", None, None, None, Majority())
        by_shuffle.append(
            [
                record(ReplayRun(ReplayRow.of(setting, seed, items, trace, 1.0), trace, shuffle.order), table)
                for trace in traces
            ]
        )
    return [list(records) for records in zip(*by_shuffle, strict=True)]


def facts(table: VotesTable) -> dict[str, Any]:
    """Facts that need no replay: the bounds and the best fixed sets, in points and shares of cost."""
    count, costs = len(table.labels), np.array(list(table.prices.values()))
    weights = measures.full_vote_weights(table.votes, table.truth)
    full = measures.full_vote(table.votes, table.truth, count)
    base = measures.accuracy(full, table.truth)
    sets = fixed_sets(len(costs), np.random.default_rng(0))
    worth = set_accuracy(sets, table.votes, weights, table.truth, count)
    bounds = {}
    for name, answers in {"truth": table.truth, "full vote": full}.items():
        bound = clairvoyant_bound(table.votes, weights, costs, answers, count)
        bounds[name] = {"reached": bound.reached, "cost_share": bound.cost / costs.sum()}
    return {
        "items": len(table.truth),
        "labels": count,
        "full_accuracy": base,
        "clairvoyant": bounds,
        "fixed_sets": [
            {
                "models": int(sets[best].sum()),
                "cost_share": sets[best] @ costs / costs.sum(),
                "points": 100 * (worth[best] - base),
            }
            for best in pareto_positions(sets @ costs, worth)
        ],
    }


def small(table: VotesTable, file: RecordsFile, count: int, jobs: int) -> None:
    """Replay the first 300 items of each order, as a project of that size."""
    orders = shuffles(table, count, SMALL)
    labelled = shuffles(table, count, SMALL, human=True)
    file.replay(table, orders, policies.joint((15.0,)), jobs)
    file.replay(table, labelled, policies.joint((15.0,), "15 labels"), jobs)
    file.replay(table, orders, policies.agreeing((0.99,)), jobs)
    few = policies.camvo({3: policies.FEW_DELTAS})
    for dimension in (*DIMENSIONS, table.contexts.shape[1]):
        narrow = table if dimension == table.contexts.shape[1] else projected(table, dimension)
        file.replay(narrow, orders, {f"{name}, d {dimension}": policy for name, policy in few.items()}, jobs)
    file.replay(projected(table, FEW), orders, {"majority": Majority()}, jobs)


def carry_over(out: Path, draws: int, jobs: int) -> None:
    """Replay synthetic tables, on which no parameter was chosen."""
    for number, kind in enumerate(made_up.KINDS.values()):
        tables = [with_texts(made_up.drawn(kind, seed)) for seed in range(draws)]
        file = RecordsFile(
            out / f"made-up-{number:02d}.json",
            name=kind.name,
            items=kind.items,
            labels=kind.labels,
            correlation=correlation(tables),
        )
        joined = replace(
            tables[0],
            contexts=np.concatenate([table.contexts for table in tables]),
            votes=np.concatenate([table.votes for table in tables]),
            truth=np.concatenate([table.truth for table in tables]),
            texts=None if tables[0].texts is None else [text for table in tables for text in table.texts],
        )
        orders, labelled = {}, {}
        for seed in range(draws):
            order = np.arange(seed * kind.items, (seed + 1) * kind.items)
            orders[seed] = Shuffle(order)
            human = np.random.default_rng([seed, 7]).random(kind.items) < policies.LABELLED
            labelled[seed] = Shuffle(order, human)
        file.replay(joined, orders, policies.joint((15.0,)), jobs)
        file.replay(joined, labelled, policies.joint((15.0,), "5% labels"), jobs)
        file.replay(joined, orders, policies.agreeing((0.99,)), jobs)
        file.replay(joined, orders, policies.camvo({3: policies.FEW_DELTAS}), jobs)
        first = {seed: labelled_first(shuffle) for seed, shuffle in labelled.items()}
        file.replay(joined, first, policies.labelled_rivals(kind.items), jobs)


def with_texts(drawn: made_up.MadeUp) -> VotesTable:
    """The drawn table, with the texts that the kind has: the student reads them."""
    return replace(drawn.table, texts=drawn.texts)


def correlation(tables: Iterable[VotesTable]) -> float:
    """The correlation of two models' correctness: median over pairs, mean over draws."""
    medians = []
    for table in tables:
        right = (table.votes == table.truth[:, None]).astype(float)
        cast = np.ma.masked_array(right, table.votes < 0)
        pairs = np.ma.corrcoef(cast, rowvar=False)[np.triu_indices(right.shape[1], 1)]
        medians.append(np.median(pairs.filled(np.nan)))
    return float(np.mean(medians))


def tables(paths: Iterable[Path], embeddings: Path | None) -> Iterator[tuple[str, VotesTable]]:
    for path in paths:
        votes = inputs.VotesFile.read(path)
        costs = inputs.read_prices(None, votes.models, path)
        stored = embeddings and embeddings / f"{path.stem}.npy"
        embedded = (
            inputs.read_embeddings(stored, votes) if stored else inputs.embed_texts(votes, Embedder(), int)
        )
        yield (
            path.stem,
            VotesTable(votes.labels, costs, embedded, votes.votes, votes.truth, texts=votes.texts),
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("votes", type=Path, nargs="*")
    parser.add_argument("out", type=Path)
    parser.add_argument("--embeddings", type=Path)
    parser.add_argument("--shuffles", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for stem, table in tables(options.votes, options.embeddings):
        small(table, RecordsFile(options.out / f"{stem}-small.json"), 4 * options.shuffles, options.jobs)
        whole(
            table,
            RecordsFile(options.out / f"{stem}-whole.json", **facts(table)),
            options.shuffles,
            options.jobs,
        )
    carry_over(options.out, max(options.shuffles // 2, 2), options.jobs)


if __name__ == "__main__":
    main()
