"""The study that a replay of a table and one of synthetic data have in common: settings, runs and output."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from backend.commands.replay.inputs import (
    Shuffle,
    atomic_write,
    require_writable_file,
    require_writable_folder,
)
from backend.commands.replay.policies import ReplaySetting
from backend.commands.shared.output import Advance
from backend.errors import ReplayError
from camvo.errors import CamvoError, InvalidParameterError
from camvo.numerics.small import TIE
from camvo.replays import measures
from camvo.replays.replay import Trace, VotesTable, calibrated_scores, has_student, replay
from camvo.state.state import State
from camvo.typing import Array

BLOCK = 500
"""Rounds of a block; the last block of a run may have fewer."""


Point: TypeAlias = tuple[str, float | None, int | None, float | None]
"""Policy, δ, k_min and required agreement: what identifies a setting."""

AVERAGED: Final = (
    "accuracy",
    "full_accuracy",
    "relative_accuracy",
    "target_met",
    "agreement",
    "cost",
    "cost_share",
    "mean_subset",
    "ece",
    "calibrated_ece",
    "aurc",
    "rounds_per_second",
)
"""The fields of a row that are averaged. The mean of ``target_met`` is the share of runs that met it."""

QUANTILES: Final = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
"""The quantiles over the runs of a setting, linear between neighbouring runs."""

LOWEST, MEDIAN, HIGHEST = 0, 3, 6
"""Positions in :data:`QUANTILES`."""


@dataclass(frozen=True, slots=True)
class ReplayRow:
    """The measures of one run of one policy; docs/replay.md defines each field.

    ``None`` means unknown or absent: measures of accuracy without truth, parameters that the policy lacks,
    and ``calibrated_ece`` without ``--calibrate``. ``cost`` is per item, in the unit of the prices.
    """

    policy: str
    delta: float | None
    k_min: int | None
    agreement_asked: float | None
    seed: int
    accuracy: float | None
    full_accuracy: float | None
    relative_accuracy: float | None
    target_met: bool | None
    agreement: float | None
    cost: float
    cost_share: float | None
    mean_subset: float
    ece: float | None
    calibrated_ece: float | None
    aurc: float | None
    rounds_per_second: float
    calls: dict[str, int]
    per_label: dict[str, dict[str, float | int | None]]
    series: dict[str, Sequence[float | None]]
    student: bool = False

    @property
    def point(self) -> Point:
        """What identifies the setting."""
        return self.policy, self.delta, self.k_min, self.agreement_asked

    @classmethod
    def of(
        cls,
        setting: ReplaySetting,
        seed: int,
        table: VotesTable,
        trace: Trace,
        seconds: float,
        *,
        calibrated: Array | None = None,
        student: bool = False,
    ) -> ReplayRow:
        """Measure a trace whose items are in the order of the table."""
        count = len(table.labels)
        full = measures.full_vote(table.votes, table.truth, count)
        accuracy = measures.accuracy(trace.labels, table.truth)
        full_accuracy = measures.accuracy(full, table.truth)
        met = None
        if setting.delta is not None and accuracy is not None and full_accuracy is not None:
            met = accuracy >= setting.delta * full_accuracy - TIE
        cost, asked = float(trace.costs.mean()), trace.asked.sum(axis=0)
        qualities = measures.quality_by_label(trace.labels, table.truth, count)
        return cls(
            policy=setting.name,
            delta=setting.delta,
            k_min=setting.k_min,
            agreement_asked=setting.agreement,
            seed=seed,
            accuracy=accuracy,
            full_accuracy=full_accuracy,
            relative_accuracy=accuracy / full_accuracy if accuracy is not None and full_accuracy else None,
            target_met=met,
            agreement=measures.full_vote_agreement(trace.labels, full),
            cost=cost,
            cost_share=cost / table.full_cost if table.full_cost else None,
            mean_subset=float(asked.sum() / len(trace.labels)),
            ece=measures.calibration_error(trace.labels, trace.scores, table.truth),
            calibrated_ece=None
            if calibrated is None
            else measures.calibration_error(trace.labels, calibrated, table.truth),
            aurc=measures.risk_coverage_area(trace.labels, trace.scores, table.truth),
            rounds_per_second=len(trace.labels) / seconds,
            calls={model: int(calls) for model, calls in zip(table.prices, asked, strict=True)},
            per_label={
                label: asdict(quality) for label, quality in zip(table.labels, qualities, strict=True)
            },
            series=_series_of(table, trace, full),
            student=student,
        )


def _series_of(table: VotesTable, trace: Trace, full: NDArray[np.int64]) -> dict[str, Sequence[float | None]]:
    """Measure each block of a run separately."""
    n = len(trace.labels)
    blocks = [slice(start, min(start + BLOCK, n)) for start in range(0, n, BLOCK)]
    return {
        "rounds": [block.stop for block in blocks],
        "accuracy": [measures.accuracy(trace.labels[block], table.truth[block]) for block in blocks],
        "agreement": [measures.full_vote_agreement(trace.labels[block], full[block]) for block in blocks],
        "cost": [float(trace.costs[block].mean()) for block in blocks],
    }


@dataclass(frozen=True, slots=True, eq=False)
class ReplayRun:
    """A row with its trace; ``order[i]`` is the position in the table of the trace's item i."""

    row: ReplayRow
    trace: Trace
    order: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Summary:
    """The means of one setting's runs.

    Attributes:
        policy: its name.
        delta: δ, or ``None`` if the policy has none.
        k_min: k_min, or ``None`` if the policy has none.
        agreement_asked: the required agreement, or ``None`` if the policy has none.
        shuffles: the number of runs.
        means: field of :data:`AVERAGED` → mean; ``None`` if a run has no value.
        intervals: field → the mean's 95% interval by Student's t; ``None`` also with a single run.
        quantiles: field → its :data:`QUANTILES` over the runs; ``None`` where there is no mean.
        student: whether the student voted too.
    """

    policy: str
    delta: float | None
    k_min: int | None
    agreement_asked: float | None
    shuffles: int
    means: dict[str, float | None]
    intervals: dict[str, tuple[float, float] | None]
    quantiles: dict[str, list[float] | None]
    student: bool = False

    @property
    def point(self) -> Point:
        """What identifies the setting."""
        return self.policy, self.delta, self.k_min, self.agreement_asked

    @property
    def name(self) -> str:
        """The policy with the parameters that it has."""
        parameters = {"δ": self.delta, "k_min": self.k_min, "agreement": self.agreement_asked}
        words = [f"{name} = {value:g}" for name, value in parameters.items() if value is not None]
        return f"{self.policy} with {' and '.join(words)}" if words else self.policy

    @classmethod
    def of_rows(cls, rows: Sequence[ReplayRow]) -> list[Summary]:
        """Average the rows of each setting, in the order of their first row."""
        groups: dict[Point, list[ReplayRow]] = {}
        for row in rows:
            groups.setdefault(row.point, []).append(row)
        summaries = []
        for setting, group in groups.items():
            means: dict[str, float | None] = {}
            intervals: dict[str, tuple[float, float] | None] = {}
            quantiles: dict[str, list[float] | None] = {}
            for name in AVERAGED:
                values = [getattr(row, name) for row in group]
                known = None not in values
                means[name], intervals[name] = measures.mean_interval(values) if known else (None, None)
                quantiles[name] = (
                    np.quantile(np.asarray(values, float), QUANTILES).tolist() if known else None
                )
            summaries.append(cls(*setting, len(group), means, intervals, quantiles, group[0].student))
        return summaries


_LOOK = 0.2
"""Seconds between two looks at the processes' progress."""


@dataclass(frozen=True, slots=True, eq=False)
class Experiment:
    """The input that all runs share."""

    table: VotesTable
    shuffles: Mapping[int, Shuffle]
    lambda_l: float = 1.0
    window: int = 1
    calibrate: bool = False
    student: bool | None = None
    complete: bool = False

    def replay(self, settings: Sequence[ReplaySetting], jobs: int, advance: Advance) -> Iterator[ReplayRun]:
        """Replay every setting on every shuffle; yield the runs in this order for any number of jobs.

        Each process uses one BLAS thread: splitting a sum over threads changes its rounding, and the
        processes share the cores.
        """
        cases = [(setting, seed) for setting in settings for seed in self.shuffles]
        if jobs == 1 or len(cases) == 1:
            with threadpool_limits(1):
                for setting, seed in cases:
                    yield _run(self, setting, seed, advance)
            return
        others = set(multiprocessing.active_children())
        context = multiprocessing.get_context("spawn")
        done: Synchronized[int] = context.Value("q", 0)
        pool = ProcessPoolExecutor(
            min(jobs, len(cases)), context, initializer=_Process.start, initargs=(self, done)
        )
        try:
            futures = [pool.submit(_Process.run, setting, seed) for setting, seed in cases]
            yield from _in_order(futures, done, advance)
        except BrokenProcessPool as error:
            raise ReplayError(
                "a process was killed, perhaps for lack of memory", where="--jobs", fix="use fewer jobs"
            ) from error
        except BaseException:  # after Ctrl-C nobody wants to wait for the cases in progress
            for process in set(multiprocessing.active_children()) - others:
                process.terminate()
            raise
        finally:
            pool.shutdown(cancel_futures=True)


class _Process:
    """The state and the entry points of one worker process."""

    experiment: ClassVar[Experiment]
    done: ClassVar[Synchronized[int]]

    @classmethod
    def start(cls, experiment: Experiment, done: Synchronized[int]) -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # otherwise the pool continues with the next case
        threading.Thread(target=_end_with_parent, daemon=True).start()
        threadpool_limits(1)
        cls.experiment, cls.done = experiment, done

    @classmethod
    def run(cls, setting: ReplaySetting, seed: int) -> ReplayRun:
        return _run(cls.experiment, setting, seed, cls.count)

    @classmethod
    def count(cls, items: int) -> None:
        with cls.done.get_lock():
            cls.done.value += items


def _end_with_parent() -> None:
    """End this process when its parent dies; otherwise it would wait forever after its case."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _in_order(
    futures: Sequence[Future[ReplayRun]], done: Synchronized[int], advance: Advance
) -> Iterator[ReplayRun]:
    reported = 0
    for future in futures:
        running = True
        while running:
            running = bool(wait([future], _LOOK).not_done)
            reported, before = done.value, reported
            advance(reported - before)
        yield future.result()


def _run(experiment: Experiment, setting: ReplaySetting, seed: int, advance: Advance) -> ReplayRun:
    table, shuffle = experiment.table, experiment.shuffles[seed]
    items = table.take(shuffle.order)
    student = has_student(setting.policy, items, experiment.student)
    started = time.perf_counter()
    trace = replay(
        setting.policy,
        items,
        lambda_l=experiment.lambda_l,
        window=experiment.window,
        human=shuffle.human,
        reviewed=shuffle.reviewed,
        progress=advance,
        student=student,
        complete=experiment.complete,
    )
    seconds = time.perf_counter() - started
    calibrated = calibrated_scores(trace, items) if experiment.calibrate else None
    return ReplayRun(
        ReplayRow.of(setting, seed, items, trace, seconds, calibrated=calibrated, student=student),
        trace,
        shuffle.order,
    )


PAGE = "index.html"
MARK = '<meta name="generator" content="camvo replay">'
_PICTURES = ("blocks", "calls", "cost-accuracy", "over-rounds", "reliability", "risk-coverage")
_OURS = (*(f"{name}.{kind}" for name in _PICTURES for kind in ("png", "svg")), PAGE)
"""Every file that a report may have; the page comes last."""


def _require_replaceable(directory: Path) -> None:
    """Refuse a folder that a report must not be written to. Unrelated files in it are left alone."""
    try:
        if directory.exists() and not directory.is_dir():
            raise CamvoError("is not a folder", where=str(directory), fix="give --report another folder")
        existing = [name for name in _OURS if (directory / name).exists()]
        if existing and not _is_report(directory / PAGE):
            raise CamvoError(
                f"has a file {existing[0]} that is not from a report",
                where=str(directory),
                fix="give --report another folder",
            )
    except OSError as error:
        raise _unwritable(directory, error) from error


def _require_drawable(directory: Path) -> None:
    """Check that a report can be drawn into a folder, before hours of work."""
    if find_spec("matplotlib") is None:
        raise CamvoError("a report needs matplotlib", where="--report", fix='pip install "camvo[server]"')
    _require_replaceable(directory)


@contextmanager
def new_report_folder(directory: Path) -> Iterator[Path]:
    """Open a temporary folder that becomes the report when the block ends, or is dropped if it fails.

    A new report appears as a whole. In an existing folder, its files replace those of an earlier report one
    by one, the page last; pictures that the new report lacks are removed.
    """
    _require_replaceable(directory)
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        near = directory if directory.exists() else directory.parent
        with tempfile.TemporaryDirectory(dir=near, prefix=".camvo-report-") as folder:
            new = Path(folder) / "report"
            new.mkdir()
            yield new
            _place(new, directory)
    except OSError as error:
        raise _unwritable(directory, error) from error


def _place(new: Path, directory: Path) -> None:
    if not directory.exists():
        new.rename(directory)
        return
    for name in _OURS:
        if (new / name).exists():
            os.replace(new / name, directory / name)
        else:
            (directory / name).unlink(missing_ok=True)


def _is_report(page: Path) -> bool:
    return page.is_file() and MARK in page.read_text(encoding="utf-8", errors="replace")


def _unwritable(directory: Path, error: OSError) -> CamvoError:
    return CamvoError(
        f"the report cannot be written: {error.strerror or error}",
        where=str(directory),
        fix="give --report another folder",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayStudy:
    """The options that do not describe the data; their help texts explain them."""

    policies: Sequence[str]
    deltas: Sequence[float]
    k_mins: Sequence[int]
    agreements: Sequence[float]
    parameters: Mapping[str, object]
    lambda_l: float
    window: int
    calibrate: bool
    shuffles: int
    seed: int
    jobs: int
    json: Path | None
    report: Path | None

    @property
    def seeds(self) -> range:
        """The seeds of the shuffles."""
        return range(self.seed, self.seed + self.shuffles)

    def settings(self, models: Sequence[str]) -> list[ReplaySetting]:
        """Return every policy with each δ and k_min, or each agreement, that it takes."""
        try:
            State(1, self.lambda_l)
        except InvalidParameterError as error:
            raise ReplayError(error.message, where="--lambda-l") from error
        return ReplaySetting.every(
            self.policies, self.deltas, self.k_mins, self.agreements, self.parameters, models=models
        )

    def require_output(self, *reports: Path) -> None:
        """Check that the JSON file and these report folders can be written, before hours of work."""
        if self.json is not None:
            require_writable_file(self.json, "--json")
        for folder in reports:
            require_writable_folder(folder, "--report")
            _require_drawable(folder)

    def run(
        self,
        table: VotesTable,
        shuffles: Mapping[int, Shuffle],
        settings: Sequence[ReplaySetting],
        advance: Advance,
        *,
        student: bool | None = None,
        complete: bool = False,
    ) -> list[ReplayRun]:
        """Replay every setting on every shuffle of the table (:class:`Experiment`)."""
        experiment = Experiment(
            table, shuffles, self.lambda_l, self.window, self.calibrate, student, complete
        )
        return list(experiment.replay(settings, self.jobs, advance))

    def write_json(
        self, rows: Sequence[Mapping[str, Any]], means: Sequence[Mapping[str, Any]], table: Mapping[str, Any]
    ) -> None:
        """Write the JSON of docs/replay.md if ``--json`` was given; unknown values are ``null``."""
        if self.json is None:
            return
        lists = {
            "policies": list(self.policies),
            "deltas": list(self.deltas),
            "k_mins": list(self.k_mins),
            "agreements": list(self.agreements),
        }
        numbers = {
            "lambda_l": self.lambda_l,
            "window": self.window,
            "calibrate": self.calibrate,
            "shuffles": self.shuffles,
            "seed": self.seed,
        }
        options = {**lists, **self.parameters, **numbers, **table["options"]}
        content = {"rows": rows, "means": means, "table": {**table, "options": options}}
        with atomic_write(self.json) as stream:
            stream.write(json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False).encode("utf-8"))
            stream.write(b"\n")


def verdict(summaries: Sequence[Summary]) -> list[str]:
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


def student_note(summaries: Sequence[Summary]) -> list[str]:
    """Print the settings in which the student voted; nothing if there are none."""
    beside = list(dict.fromkeys(summary.policy for summary in summaries if summary.student))
    return [f"The student voted too, for nothing, with {' and '.join(beside)}."] if beside else []


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
        cheapest = min(enough, key=lambda summary: (_mean(summary, "cost"), -_least(summary)))
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
    ranked = sorted(known, key=lambda summary: (_mean(summary, "cost"), -_mean(summary, measure)))
    best: list[Summary] = []
    for summary in ranked:
        if not best or _mean(summary, measure) > _mean(best[-1], measure) + TIE:
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
    others = f" (one of them costs no more than each of the other {left}, and is no less often {word})"
    return [
        f"The best buys, cheapest first{others if left else ''}:",
        *(f"  {_bought(summary, measure)}" for summary in best),
    ]


def _bought(summary: Summary, measure: str) -> str:
    share, cost = summary.means["cost_share"], _mean(summary, "cost")
    price = f"${cost:.3g} an item" if share is None else f"{share:.1%} of the cost of asking every model"
    word = "right" if measure == "accuracy" else "in agreement"
    return f"{summary.name}: {_mean(summary, measure):.1%} {word} at {price}"


def _least(summary: Summary) -> float:
    """The lowest relative accuracy of any shuffle; 0 if it is unknown."""
    quantiles = summary.quantiles["relative_accuracy"]
    return 0.0 if quantiles is None else quantiles[LOWEST]


def _mean(summary: Summary, name: str) -> float:
    return summary.means[name] or 0.0
