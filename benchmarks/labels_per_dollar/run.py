"""How many right labels a dollar buys, with which policy, on real tables of votes and on made-up ones.

    python benchmarks/labels_per_dollar/run.py VOTES.csv … OUT/ --shuffles 10 [--embeddings FOLDER] [--jobs 2]

Writes one JSON file for each table and part to OUT, which ``tables.py`` turns into the tables of
docs/results.md. What is in a file already is not computed again. Contexts are FOLDER/<stem>.npy, or the texts
embedded as by ``camvo replay``. Everything is planned in windows of 64 items, as a busy server does.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import learned_cascade
import made_up
import numpy as np
import policies
from records import CONFIRMED, Kept, record, reordered

from backend.commands.replay import contexts, prices, votes_file
from backend.commands.replay.grid import Shuffle
from backend.commands.replay.policies import ReplaySetting
from backend.commands.replay.results import ReplayRun, row_of
from backend.models.embedder.embedder import Embedder
from camvo.policies.baselines import Majority
from camvo.replays import measures
from camvo.replays.clairvoyant import clairvoyant
from camvo.replays.frontier import fixed_sets, frontier, set_accuracy
from camvo.replays.votes_table import VotesTable

SMALL = 300
DIMENSIONS = (32, 128)
"""To which CaMVo's contexts are projected in small projects."""
EARLY = 2000
"""Of so many items, the 500 are drawn that have a human label where the score is looked at."""
FEW = 8
"""Dimensions that are left to policies that look at no context."""
OURS = 32
"""The same for sequential and stacked voting."""


def projected(table: VotesTable, dimension: int) -> VotesTable:
    """The table with its contexts projected at random."""
    rng = np.random.default_rng(dimension)
    matrix = rng.normal(size=(table.contexts.shape[1], dimension)) / np.sqrt(dimension)
    return replace(table, contexts=table.contexts @ matrix)


def shuffles(
    table: VotesTable, count: int, limit: int | None = None, human: bool = False
) -> dict[int, Shuffle]:
    """The orders of the items; humans label the first of them."""
    found = {}
    for seed in range(count):
        order = np.random.default_rng([seed, 0]).permutation(len(table.truth))[:limit]
        labelled = np.arange(len(order)) < round(policies.LABELLED * len(order)) if human else None
        found[seed] = Shuffle(order, labelled)
    return found


def confirmed(table: VotesTable, count: int) -> dict[int, Shuffle]:
    """The orders of the items; humans label 500 of the first 2,000, at random."""
    found = {}
    for seed, shuffle in shuffles(table, count).items():
        labelled = np.zeros(len(shuffle.order), dtype=np.bool_)
        labelled[np.random.default_rng([seed, 3]).permutation(EARLY)[:CONFIRMED]] = True
        found[seed] = Shuffle(shuffle.order, labelled)
    return found


def whole(table: VotesTable, kept: Kept, count: int, jobs: int) -> None:
    """All policies on the whole table."""
    best = list(table.prices)[int((table.votes == table.truth[:, None]).mean(axis=0).argmax())]
    orders, labelled = shuffles(table, count), shuffles(table, count, human=True)
    kept.replay(projected(table, OURS), orders, policies.sequential(policies.AGREEMENTS), jobs)
    kept.replay(projected(table, OURS), labelled, policies.taught(policies.AGREEMENTS[3], "5% labels"), jobs)
    kept.replay(projected(table, OURS), confirmed(table, count), policies.taught((0.99,), "500 labels"), jobs)
    kept.replay(projected(table, OURS), labelled, policies.stacked(len(table.truth), policies.WORTHS), jobs)
    kept.replay(table, orders, policies.camvo(policies.DELTAS), jobs)
    kept.replay(projected(table, FEW), orders, policies.others(best), jobs)
    kept.replay(table, orders, policies.ccamvo(), jobs)
    names = [f"learned cascade {threshold:g}" for threshold in policies.LEARNED_THRESHOLDS]
    if any(name not in kept.content["rows"] for name in names):
        for name, records in zip(names, learned(table, labelled), strict=True):
            kept.add(name, records)


def learned(table: VotesTable, labelled: Mapping[int, Shuffle]) -> Iterable[list[dict[str, Any]]]:
    """The cascade with the learned scorer, at each threshold."""
    found: list[list[dict[str, Any]]] = []
    for seed, shuffle in labelled.items():
        items = reordered(table, shuffle.order)
        traces = learned_cascade.cascades(items, int(shuffle.human.sum()), policies.LEARNED_THRESHOLDS)
        setting = ReplaySetting("learned cascade", None, None, None, Majority())
        found.append(
            [
                record(ReplayRun(row_of(setting, seed, items, trace, 1.0), trace, shuffle.order), table)
                for trace in traces
            ]
        )
    return [list(records) for records in zip(*found, strict=True)]


def facts(table: VotesTable) -> dict[str, Any]:
    """What is known without replaying: the bounds and the best fixed sets, in points and shares of cost."""
    count, costs = len(table.labels), np.array(list(table.prices.values()))
    weights = measures.full_weights(table.votes, table.truth)
    full = measures.full_vote(table.votes, table.truth, count)
    base = measures.accuracy(full, table.truth)
    sets = fixed_sets(len(costs), np.random.default_rng(0))
    worth = set_accuracy(sets, table.votes, weights, table.truth, count)
    bounds = {}
    for name, answers in {"truth": table.truth, "full vote": full}.items():
        bound = clairvoyant(table.votes, weights, costs, answers, count)
        bounds[name] = {"reached": bound.reached, "cost_share": bound.cost / costs.sum()}
    return {
        "items": len(table.truth),
        "labels": count,
        "full_accuracy": base,
        "clairvoyant": bounds,
        "fixed_sets": [
            {
                "models": int(sets[one].sum()),
                "cost_share": sets[one] @ costs / costs.sum(),
                "points": 100 * (worth[one] - base),
            }
            for one in frontier(sets @ costs, worth)
        ],
    }


def small(table: VotesTable, kept: Kept, count: int, jobs: int) -> None:
    """The first 300 items of each order, as if there were no others."""
    orders = shuffles(table, count, SMALL)
    kept.replay(table, orders, policies.sequential({3: (1.0, 0.99)}), jobs)
    kept.replay(table, shuffles(table, count, SMALL, human=True), policies.taught((0.99,), "15 labels"), jobs)
    kept.replay(table, shuffles(table, count, SMALL, human=True), policies.stacked(SMALL, (75.0,)), jobs)
    few = policies.camvo({3: policies.FEW_DELTAS})
    for dimension in (*DIMENSIONS, table.contexts.shape[1]):
        narrow = table if dimension == table.contexts.shape[1] else projected(table, dimension)
        kept.replay(narrow, orders, {f"{name}, d {dimension}": one for name, one in few.items()}, jobs)
    kept.replay(projected(table, FEW), orders, {"majority": Majority()}, jobs)


def carry_over(out: Path, draws: int, jobs: int) -> None:
    """Tables that no parameter was chosen on."""
    for number, kind in enumerate(made_up.KINDS):
        tables = [made_up.drawn(kind, seed) for seed in range(draws)]
        kept = Kept(out / f"made-up-{number:02d}.json", **asdict(kind), correlation=correlation(tables))
        joined = replace(
            tables[0],
            contexts=np.concatenate([one.contexts for one in tables]),
            votes=np.concatenate([one.votes for one in tables]),
            truth=np.concatenate([one.truth for one in tables]),
        )
        orders, labelled = {}, {}
        for seed in range(draws):
            order = np.arange(seed * kind.items, (seed + 1) * kind.items)
            orders[seed] = Shuffle(order)
            labelled[seed] = Shuffle(order, np.arange(kind.items) < round(policies.LABELLED * kind.items))
        kept.replay(joined, orders, policies.sequential({3: (0.99,)}), jobs)
        kept.replay(joined, labelled, policies.taught((0.99,), "5% labels"), jobs)
        kept.replay(joined, labelled, policies.stacked(kind.items, (75.0,)), jobs)
        kept.replay(joined, orders, policies.camvo({3: policies.FEW_DELTAS}), jobs)


def correlation(tables: Iterable[VotesTable]) -> float:
    """Of two models' being right, the median over pairs; mean over the draws."""
    found = []
    for table in tables:
        right = (table.votes == table.truth[:, None]).astype(float)
        cast = np.ma.masked_array(right, table.votes < 0)
        pairs = np.ma.corrcoef(cast, rowvar=False)[np.triu_indices(right.shape[1], 1)]
        found.append(np.median(pairs.filled(np.nan)))
    return float(np.mean(found))


def tables(paths: Iterable[Path], embeddings: Path | None) -> Iterator[tuple[str, VotesTable]]:
    for path in paths:
        file = votes_file.read_votes(path)
        costs = prices.read_prices(None, file.models, path)
        given = embeddings and embeddings / f"{path.stem}.npy"
        texts = (
            contexts.read_embeddings(given, file) if given else contexts.embed_texts(file, Embedder(), int)
        )
        yield path.stem, VotesTable(file.labels, costs, texts, file.votes, file.truth)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("votes", type=Path, nargs="*")
    parser.add_argument("out", type=Path)
    parser.add_argument("--embeddings", type=Path)
    parser.add_argument("--shuffles", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for stem, table in tables(given.votes, given.embeddings):
        small(table, Kept(given.out / f"{stem}-small.json"), 4 * given.shuffles, given.jobs)
        whole(table, Kept(given.out / f"{stem}-whole.json", **facts(table)), given.shuffles, given.jobs)
    carry_over(given.out, max(given.shuffles // 2, 2), given.jobs)


if __name__ == "__main__":
    main()
