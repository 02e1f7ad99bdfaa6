"""``camvo replay``: from a table of votes to rows, a report and a verdict on the target."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from backend.commands.replay.inputs import (
    TEXT,
    HumanLabels,
    Shuffle,
    VotesFile,
    embed_texts,
    oddities,
    read_embeddings,
    read_prices,
)
from backend.commands.replay.options import TableOptions
from backend.commands.replay.runs import (
    HIGHEST,
    LOWEST,
    MEDIAN,
    ReplayRun,
    ReplaySetting,
    Summary,
    student_note,
)
from backend.commands.replay.study import ReplayStudy, draw_report
from backend.commands.shared.output import progress_bar, say
from backend.errors import ReplayError
from backend.models.embedder import Embedder
from backend.settings.mistakes import did_you_mean
from camvo.errors import InvalidParameterError
from camvo.numerics.small import TIE, unknown_context, with_category
from camvo.policies.parameters import DEFAULT, ByLabel
from camvo.replays.measures import clairvoyant_bound, full_vote, full_vote_weights, model_accuracy
from camvo.replays.replay import VotesTable
from camvo.student import STUDENT
from camvo.typing import Array
from camvo.votes.labels import LABEL_VOTE, ErrorName, OrderedVote
from camvo.votes.numbers import read_number

_COLUMNS = (
    ("accuracy", "right\n%", 1, 100.0),
    ("relative_accuracy", "of full\n%", 1, 100.0),
    ("target_met", "met\n%", 0, 100.0),
    ("agreement", "agree\n%", 1, 100.0),
    ("cost", "cost\n$", 2, 1.0),
    ("cost_share", "of all\n%", 1, 100.0),
    ("mean_subset", "asked\n", 2, 1.0),
    ("ece", "ECE\n", 3, 1.0),
    ("calibrated_ece", "ECE\nshown", 3, 1.0),
    ("rounds_per_second", "items\n/s", 0, 1.0),
    ("within_one", "within\n1 %", 1, 100.0),
    ("mae", "MAE\n", 3, 1.0),
    ("kappa", "kappa\n", 3, 1.0),
)
"""Field, heading, decimals and factor. The JSON and the report have the other fields."""

_LEFT_OUT = ("rounds_per_second", "agreement", "mean_subset")
"""Fields left out, in this order, one for each further column, so that a line fits 80 characters."""

_ON_A_SCALE = ("within_one", "mae", "kappa")
"""Fields of ordered labels only."""

_SPREAD = (("right %", "accuracy"), ("% of the cost", "cost_share"))


def print_summaries(
    console: Console, summaries: Sequence[Summary], coordinates: Sequence[dict[str, float | None]] = ()
) -> None:
    """Print a table of the means, with half the 95% interval of accuracy if there are several shuffles."""
    asked = any(summary.agreement_asked is not None for summary in summaries)
    calibrated = any(summary.means["calibrated_ece"] is not None for summary in summaries)
    ordered = any(summary.means["mae"] is not None for summary in summaries)
    further = (len(coordinates[0]) if coordinates else 0) + asked + calibrated + len(_ON_A_SCALE) * ordered
    left_out = {
        *_LEFT_OUT[:further],
        *(() if calibrated else ("calibrated_ece",)),
        *(() if ordered else _ON_A_SCALE),
    }
    columns = [column for column in _COLUMNS if column[0] not in left_out]
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("policy\n", overflow="fold", min_width=len("baseline"))
    own = {"δ": "delta", "k_min": "k_min", **({"agree ≥": "agreement_asked"} if asked else {})}
    for name in (*(coordinates[0] if coordinates else ()), *own):
        table.add_column(f"{name}\n", justify="right", no_wrap=True)
    for _, heading, _, _ in columns:
        table.add_column(heading, justify="right", no_wrap=True)
    for number, summary in enumerate(summaries):
        before = coordinates[number].values() if coordinates else ()
        parameters = [
            _plain(value) for value in (*before, *(getattr(summary, name) for name in own.values()))
        ]
        measured = [_mean(summary, name, digits, scale) for name, _, digits, scale in columns]
        table.add_row(summary.policy, *parameters, *measured)
    console.print(table)


def _print_spread(console: Console, summaries: Sequence[Summary]) -> None:
    """Print the lowest, median and highest accuracy and cost over the shuffles, if there are several."""
    if summaries[0].shuffles < 2:
        return
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("over the shuffles\n", overflow="fold", min_width=len("baseline"))
    for name, _ in _SPREAD:
        for heading in (f"{name}\nlow", "\nhalf", "\nhigh"):
            table.add_column(heading, justify="right", no_wrap=True)
    for summary in summaries:
        cells = []
        for _, field in _SPREAD:
            quantiles = summary.quantiles[field]
            cells += [
                "" if quantiles is None else f"{100.0 * quantiles[position]:.1f}"
                for position in (LOWEST, MEDIAN, HIGHEST)
            ]
        table.add_row(summary.name, *cells)
    console.print()
    console.print(table)


def _print_results(console: Console, summaries: Sequence[Summary]) -> None:
    print_summaries(console, summaries)
    _print_spread(console, summaries)
    console.print()
    for line in (*_verdict(summaries), *student_note(summaries)):
        console.print(line, highlight=False, markup=False)


def _plain(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def _mean(summary: Summary, name: str, digits: int, scale: float) -> str:
    mean, interval = summary.means[name], summary.intervals[name]
    if mean is None:
        return ""
    text = f"{scale * mean:.{digits}f}"
    if name != "accuracy" or interval is None:
        return text
    return f"{text} ±{scale * (interval[1] - interval[0]) / 2.0:.{digits}f}"


_UNSAID = ("prices", "embeddings", "context")
"""Options that the JSON does not repeat."""


@dataclass(frozen=True, slots=True)
class TableReplay:
    """The replay of one table of votes."""

    study: ReplayStudy
    votes: Path
    options: TableOptions

    @property
    def _human_labels(self) -> HumanLabels:
        return HumanLabels.parse(self.options.human_labels)

    def run(self, console: Console, progress: Console) -> None:
        """Replay the table, write and draw what was asked for, and print the results."""
        options, human, folder = self.options, self._human_labels, self.study.options.report
        self.study.require_output(*([folder] if folder else []))
        if options.in_order and self.study.shuffles > 1:
            raise ReplayError(
                "the rows of the table have only one order", where="--in-order", fix="leave --shuffles out"
            )
        file = VotesFile.read(self.votes, options.delimiter, options.context)
        has_truth = bool((file.truth >= 0).any())
        prices = read_prices(options.prices, file.models, self.votes, has_truth=has_truth)
        settings = self.study.settings(file.models)
        self._require_known_labels(file)
        self._require_truth(file, human)
        table = self._table(file, prices, settings, progress)
        warnings = oddities(
            file,
            [one.k_min for one in settings if one.k_min is not None],
            ordered=options.ordered is not None,
        )
        for warning in warnings:
            say(progress, f"camvo: warning: {warning}")
        runs = self._runs(table, settings, human, progress)
        rows = [run.row for run in runs]
        summaries = Summary.of_rows(rows)
        self.study.write_json(
            [asdict(row) for row in rows],
            [asdict(summary) for summary in summaries],
            self._facts(table, warnings),
        )
        if folder is not None:
            draw_report(folder, table, runs, summaries, title=f"Replay of {self.votes.name}")
        _print_results(console, summaries)

    def _runs(
        self, table: VotesTable, settings: Sequence[ReplaySetting], human: HumanLabels, progress: Console
    ) -> list[ReplayRun]:
        options = self.options
        shuffles = {
            seed: Shuffle.draw(table.truth, seed, options.limit, human, in_order=options.in_order)
            for seed in self.study.seeds
        }
        items = sum(len(shuffle.order) for shuffle in shuffles.values()) * len(settings)
        with progress_bar(progress, "replaying", items, transient=True) as advance:
            return self.study.run(
                table, shuffles, settings, advance, student=options.student, complete=options.complete
            )

    def _table(
        self,
        file: VotesFile,
        prices: Mapping[str, float],
        settings: Sequence[ReplaySetting],
        progress: Console,
    ) -> VotesTable:
        """What is replayed; texts are embedded unless there are embeddings."""
        table = VotesTable(
            file.labels,
            prices,
            self._contexts(file, settings, progress),
            file.votes,
            file.truth,
            file.confidences if self.options.confidences else None,
            self._texts(file),
        )
        return table if self.options.ordered is None else _on_a_scale(table, self.options.ordered)

    def _require_truth(self, file: VotesFile, human: HumanLabels) -> None:
        """Refuse human labels of items without a known truth, and a policy that needs some."""
        if not human.share and "best-single" in self.study.policies:
            raise ReplayError(
                "learns from human labels alone",
                where="--policy best-single",
                fix="give --human-labels 0.05, or leave the policy out",
            )
        if human.share and not (file.truth >= 0).any():
            raise ReplayError(
                "needs the truth of some items",
                where=f"{self.votes}, --human-labels",
                fix="fill the column truth, or leave --human-labels out",
            )

    def _require_known_labels(self, file: VotesFile) -> None:
        """Refuse values by label about labels that the table does not have."""
        for name, value in self.study.parameters.items():
            named = value.keys() - {DEFAULT} if isinstance(value, ByLabel) else ()
            for label in sorted(set(named) - set(file.labels)):
                fix = did_you_mean(label, file.labels)
                raise ReplayError(f"the table has no label {label!r}", where=f"--{name}", fix=fix)

    def _contexts(self, file: VotesFile, settings: Sequence[ReplaySetting], progress: Console) -> Array:
        """The items' contexts, which are unknown if there is nothing to embed and no policy reads them."""
        is_blank = file.texts is None and self.options.embeddings is None
        if file.categories is not None:
            return _with_categories(None if is_blank else self._embeddings(file, progress), file.categories)
        if is_blank and not any(setting.policy.linear(LABEL_VOTE) for setting in settings):
            return np.tile(unknown_context(1), (len(file.truth), 1))
        return self._embeddings(file, progress)

    def _embeddings(self, file: VotesFile, progress: Console) -> Array:
        if self.options.embeddings is not None:
            return read_embeddings(self.options.embeddings, file)
        with progress_bar(progress, "embedding", len(file.truth), transient=True) as advance:
            return embed_texts(file, Embedder(), advance)

    def _texts(self, file: VotesFile) -> Sequence[str] | None:
        """The texts that the student reads; ``None`` without it."""
        if STUDENT in file.models:
            raise ReplayError(
                f"{STUDENT!r} is the name of the student", where=str(self.votes), fix="rename the column"
            )
        if self.options.student and file.texts is None:
            raise ReplayError(
                f"no column {TEXT!r} for the student", where=f"{self.votes}, --student", fix="add it"
            )
        return None if self.options.student is False else file.texts

    def _facts(self, table: VotesTable, warnings: Sequence[str]) -> dict[str, Any]:
        accuracies = model_accuracy(table.votes, table.truth).tolist()
        return {
            "file": str(self.votes),
            "items": len(table.truth),
            "items_with_truth": int((table.truth >= 0).sum()),
            "labels": list(table.labels),
            "dimension": table.contexts.shape[1],
            "prices": dict(table.prices),
            "full_cost": table.full_cost,
            "model_accuracy": {
                model: None if math.isnan(accuracy) else accuracy
                for model, accuracy in zip(table.prices, accuracies, strict=True)
            },
            "clairvoyant": _clairvoyant(table),
            "warnings": list(warnings),
            "options": {
                **{name: value for name, value in asdict(self.options).items() if name not in _UNSAID},
                "human_labels": self._human_labels.share,
                "human_labels_way": self._human_labels.way,
            },
        }


def _clairvoyant(table: VotesTable) -> dict[str, Any]:
    """Return the cheapest prefixes of models that are right, and that have the full vote's label."""
    count, costs = len(table.labels), np.array(list(table.prices.values()))
    weights = full_vote_weights(table.votes, table.truth)
    targets = {"truth": table.truth, "full_vote": full_vote(table.votes, table.truth, count)}
    bounds = {
        name: clairvoyant_bound(table.votes, weights, costs, labels, count)
        for name, labels in targets.items()
    }
    return {name: bound and asdict(bound) for name, bound in bounds.items()}


def _on_a_scale(table: VotesTable, error: ErrorName) -> VotesTable:
    """Return the table with its labels, which are numbers, as a scale."""
    try:
        values = {label: read_number(label) for label in table.labels}
    except InvalidParameterError as problem:
        raise ReplayError(
            "a label is not a number", where="--ordered", fix="write numbers, as 1 for the lowest label"
        ) from problem
    scale = tuple(sorted(table.labels, key=values.__getitem__))
    try:
        vote = OrderedVote(scale, error)
    except InvalidParameterError as problem:
        raise ReplayError(problem.message, where="--ordered", fix="leave --ordered out") from problem
    places = np.array([scale.index(label) for label in table.labels])
    votes, truth = (np.where(each < 0, each, places[each]) for each in (table.votes, table.truth))
    return replace(table, labels=scale, votes=votes, truth=truth, aggregation=vote)


_DIMENSION = 384
"""The dimension of contexts that contain only categories: that of the default embedder."""


def _with_categories(contexts: Array | None, categories: Sequence[str]) -> Array:
    """Contexts with each item's category, as the server makes them of ``camvo_context``, shape (n, d).

    A table without texts has no contexts; its items then have only their categories.
    """
    if contexts is None:
        contexts = np.zeros((len(categories), _DIMENSION))
    rows = zip(contexts, categories, strict=True)
    return np.array([with_category(context, category) for context, category in rows])


def _verdict(summaries: Sequence[Summary]) -> list[str]:
    """Print the full vote's accuracy, the settings that meet the targets, and the best buys."""
    full = summaries[0].means["full_accuracy"]
    if full is None:
        return [
            "No item's truth is known, so neither is the target. Agreement is with the vote of all models"
            " with equal weights.",
            *_best_buys(summaries, "agreement"),
        ]
    return [
        f"The full vote, with all models weighted by their true accuracy, is {full:.1%} right.",
        *_targets(summaries),
        *_best_buys(summaries, "accuracy"),
    ]


def _targets(summaries: Sequence[Summary]) -> list[str]:
    """Say how many settings met their own target, and for each δ the cheapest of all that reach as much."""
    with_target = [summary for summary in summaries if summary.means["target_met"] is not None]
    if not with_target:
        return []
    meeting = sum(summary.means["target_met"] == 1.0 for summary in with_target)
    sentences = [f"{meeting} of {len(with_target)} settings met their target in every shuffle."]
    for delta in sorted({summary.delta for summary in with_target if summary.delta is not None}):
        enough = [summary for summary in summaries if _least(summary) >= delta - TIE]
        if not enough:
            nearest = max(summaries, key=_least)
            sentences.append(
                f"Nothing has {delta:.3g} of the full vote's accuracy in every shuffle. {nearest.name}"
                f" comes nearest, with {_least(nearest):.1%} of it in the worst shuffle."
            )
            continue
        cheapest = min(enough, key=lambda summary: (_mean_of(summary, "cost"), -_least(summary)))
        sentences.append(
            f"The cheapest with {delta:.3g} of the full vote's accuracy in every shuffle is"
            f" {_bought(cheapest, 'accuracy')}."
        )
    return sentences


def _unbeaten(summaries: Sequence[Summary], measure: str) -> list[Summary]:
    """Return the settings that no other beats, cheapest first.

    A setting is beaten by one that costs no more, is no worse, and is not the same in both. Of several that
    are the same in both, the first is returned.
    """
    known = [summary for summary in summaries if summary.means[measure] is not None]
    ranked = sorted(known, key=lambda summary: (_mean_of(summary, "cost"), -_mean_of(summary, measure)))
    best: list[Summary] = []
    for summary in ranked:
        if not best or _mean_of(summary, measure) > _mean_of(best[-1], measure) + TIE:
            best.append(summary)
    return best


def _best_buys(summaries: Sequence[Summary], measure: str) -> list[str]:
    best = _unbeaten(summaries, measure)
    if len(summaries) == 1 or not best:
        return []
    word = "right" if measure == "accuracy" else "in agreement"
    if len(best) == 1:
        return [f"The best buy is {_bought(best[0], measure)}: no other is cheaper or more often {word}."]
    left = len(summaries) - len(best)
    rest = "the other" if left == 1 else f"each of the other {left}"
    others = f" (one of them costs no more than {rest}, and is no less often {word})"
    return [
        f"The best buys, cheapest first{others if left else ''}:",
        *(f"  {_bought(summary, measure)}" for summary in best),
    ]


def _bought(summary: Summary, measure: str) -> str:
    share, cost = summary.means["cost_share"], _mean_of(summary, "cost")
    price = f"${cost:.3g} an item" if share is None else f"{share:.1%} of the cost of asking every model"
    word = "right" if measure == "accuracy" else "in agreement"
    return f"{summary.name}: {_mean_of(summary, measure):.1%} {word} at {price}"


def _least(summary: Summary) -> float:
    """The lowest relative accuracy of any shuffle; 0 if it is unknown."""
    quantiles = summary.quantiles["relative_accuracy"]
    return 0.0 if quantiles is None else quantiles[LOWEST]


def _mean_of(summary: Summary, name: str) -> float:
    return summary.means[name] or 0.0
