"""The study of a replay, of whatever table: settings, runs, and the report.

Only drawing the report loads matplotlib.
"""

from __future__ import annotations

import json
import math
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
from dataclasses import dataclass
from importlib.util import find_spec
from multiprocessing.context import BaseContext
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

from markupsafe import Markup
from threadpoolctl import threadpool_limits

from backend.commands.replay.inputs import Shuffle, atomic_write, require_writable_file
from backend.commands.replay.options import PolicyParameters, SharedOptions
from backend.commands.replay.runs import ReplayRow, ReplayRun, ReplaySetting, Summary
from backend.commands.shared.output import Advance
from backend.errors import ReplayError
from backend.server.status.formats import templates
from camvo.errors import CamvoError, InvalidParameterError
from camvo.policies.parameters import CLASSES, ByLabel, declared_by
from camvo.replays.replay import VotesTable, calibrated_scores, has_student, replay
from camvo.state.state import State
from camvo.votes.labels import LABEL_VOTE

if TYPE_CHECKING:
    from backend.charts import Picture
    from backend.commands.replay.report_data import ReportData

_PAGE = "index.html"
_MARK = '<meta name="generator" content="camvo replay">'
_PICTURES = ("blocks", "calls", "cost-accuracy", "over-rounds", "reliability", "risk-coverage")
_OURS = (*(f"{name}.{kind}" for name in _PICTURES for kind in ("png", "svg")), _PAGE)
"""Every file that a report may have; the page comes last."""


def _require_replaceable(directory: Path) -> None:
    """Refuse a folder that a report must not be written to. Unrelated files in it are left alone."""
    try:
        if directory.exists() and not directory.is_dir():
            raise CamvoError("is not a folder", where=str(directory), fix="give --report another folder")
        existing = [name for name in _OURS if (directory / name).exists()]
        if existing and not _is_report(directory / _PAGE):
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
def _new_report_folder(directory: Path) -> Iterator[Path]:
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
    return page.is_file() and _MARK in page.read_text(encoding="utf-8", errors="replace")


def _unwritable(directory: Path, error: OSError) -> CamvoError:
    return CamvoError(
        f"the report cannot be written: {error.strerror or error}",
        where=str(directory),
        fix="give --report another folder",
    )


def draw_report(
    directory: Path,
    table: VotesTable,
    runs: Sequence[ReplayRun],
    summaries: Sequence[Summary],
    *,
    title: str = "CaMVo replay",
) -> None:
    """Write ``index.html`` and its pictures, each as PNG and SVG.

    The page needs no network, no scripts and no other file. The same replay gives the same bytes. Without
    truth, the parts that need it are left out.
    """
    from backend.commands.replay.report_data import ReportData  # noqa: PLC0415 - loads matplotlib

    data = ReportData.of(table, runs, summaries)
    with _new_report_folder(directory) as new:
        _write_page(new, data, title)


class _Figure(NamedTuple):
    picture: Picture
    element: Markup

    @property
    def width(self) -> float:
        """How much of the page's width it takes, in percent."""
        from backend.charts import WIDTH  # noqa: PLC0415 - loads matplotlib

        return float(round(100 * self.picture.figure.get_figwidth() / WIDTH, 1))


def _write_page(folder: Path, data: ReportData, title: str) -> None:
    """Draw every picture and write the page that shows them."""
    from backend.charts import style  # noqa: PLC0415 - loads matplotlib
    from backend.commands.replay.report_blocks import PICTURES  # noqa: PLC0415 - loads matplotlib

    with style():
        pictures = [picture for draw in PICTURES if (picture := draw(data)) is not None]
        figures = [_Figure(picture, _save(folder, picture)) for picture in pictures]
    page = templates("backend.commands", "resources").get_template("replay.html.j2")
    html = page.render(
        title=title,
        mark=Markup(_MARK),  # noqa: S704 - a constant
        data=data,
        columns=data.columns(),
        figures=figures,
    )
    (folder / _PAGE).write_text(html, encoding="utf-8")


def _save(folder: Path, picture: Picture) -> Markup:
    """Write the picture as PNG and SVG, and return what the page shows."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - slow to import

    from backend.charts import inline, svg  # noqa: PLC0415 - loads matplotlib

    document = svg(picture)
    (folder / f"{picture.name}.svg").write_text(document, encoding="utf-8")
    image = folder / f"{picture.name}.png"
    FigureCanvasAgg(picture.figure).print_png(image, metadata={"Software": None})  # type: ignore[no-untyped-call]
    return Markup(inline(document, picture.name, picture.alt))  # noqa: S704 - drawn text, escaped alt


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
        context = _starter()
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


def _starter() -> BaseContext:
    """How processes start: as forks of one that has imported all this, where the system has such."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


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
        parent.join()  # a daemon thread's wait, as long as the parent lives
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
    scored = items.aggregation == LABEL_VOTE and experiment.calibrate  # other scores are not calibrated
    calibrated = calibrated_scores(trace, items) if scored else None
    return ReplayRun(
        ReplayRow.of(setting, seed, items, trace, seconds, calibrated=calibrated, student=student),
        trace,
        shuffle.order,
    )


_Number = TypeVar("_Number", int, float)


def numbers(text: str, option: str, kind: type[_Number]) -> list[_Number]:
    """Parse a comma-separated list of finite numbers."""
    what, example = ("whole numbers", "1,3") if kind is int else ("numbers", "0.9,0.95")
    try:
        parsed = [kind(part) for part in text.split(",")]
    except ValueError as error:
        raise ReplayError(
            f"{text!r} is not a list of {what}", where=option, fix=f"give e.g. {example}"
        ) from error
    if not all(map(math.isfinite, parsed)):
        raise ReplayError(
            f"{text!r} has a value that is not finite", where=option, fix=f"give e.g. {example}"
        )
    return parsed


def _value_by_label(text: str, option: str) -> float | ByLabel:
    """Parse a finite number, or numbers by label: ``Fraud=50,default=10``.

    >>> _value_by_label("Fraud=50,default=10", "--worth")
    {'Fraud': 50.0, 'default': 10.0}
    """
    if "=" not in text:
        return numbers(text.replace(",", " "), option, float)[0]
    found = ByLabel()
    for part in text.split(","):
        label, _, value = part.rpartition("=")
        if not label.strip():
            raise ReplayError(f"{part!r} names no label", where=option, fix="give e.g. Fraud=50,default=10")
        (found[label.strip()],) = numbers(value, option, float)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayStudy:
    """The options that do not describe the data; their help texts explain them."""

    policies: Sequence[str]
    deltas: Sequence[float]
    k_mins: Sequence[int]
    agreements: Sequence[float]
    parameters: Mapping[str, object]
    shuffles: int
    options: SharedOptions

    @classmethod
    def of(
        cls, options: SharedOptions, *, policies: Sequence[str], parameters: PolicyParameters, shuffles: int
    ) -> ReplayStudy:
        """The study that the options of the command describe."""
        of_labels = {name for name, each in declared_by(CLASSES).items() if each.about.by_label}
        others = {
            name: _value_by_label(str(value), f"--{name}") if name in of_labels else value
            for name, value in parameters.items()
        }
        delta, k_min, agreement = (others.pop(name) for name in ("delta", "k_min", "agreement"))
        return cls(
            policies=policies,
            deltas=numbers(str(delta), "--delta", float),
            k_mins=numbers(str(k_min), "--k-min", int),
            agreements=[] if agreement is None else numbers(str(agreement), "--agreement", float),
            parameters=others,
            shuffles=shuffles,
            options=options,
        )

    @property
    def seeds(self) -> range:
        """The seeds of the shuffles."""
        return range(self.options.seed, self.options.seed + self.shuffles)

    def settings(self, models: Sequence[str]) -> list[ReplaySetting]:
        """Return every policy with each δ and k_min, or each agreement, that it takes."""
        try:
            State(1, self.options.lambda_l)
        except InvalidParameterError as error:
            raise ReplayError(error.message, where="--lambda-l") from error
        return ReplaySetting.every(
            self.policies, self.deltas, self.k_mins, self.agreements, self.parameters, models=models
        )

    def require_output(self, *reports: Path) -> None:
        """Check that the JSON file and these report folders can be written, before hours of work."""
        if self.options.json is not None:
            require_writable_file(self.options.json, "--json")
        for folder in reports:
            _require_writable_folder(folder, "--report")
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
            table,
            shuffles,
            self.options.lambda_l,
            self.options.window,
            self.options.calibrate,
            student,
            complete,
        )
        return list(experiment.replay(settings, self.options.jobs, advance))

    def write_json(
        self, rows: Sequence[Mapping[str, Any]], means: Sequence[Mapping[str, Any]], table: Mapping[str, Any]
    ) -> None:
        """Write the JSON of docs/replay.md if ``--json`` was given; unknown values are ``null``."""
        if self.options.json is None:
            return
        lists = {
            "policies": list(self.policies),
            "deltas": list(self.deltas),
            "k_mins": list(self.k_mins),
            "agreements": list(self.agreements),
        }
        of_runs = {
            "lambda_l": self.options.lambda_l,
            "window": self.options.window,
            "calibrate": self.options.calibrate,
            "shuffles": self.shuffles,
            "seed": self.options.seed,
        }
        options = {**lists, **self.parameters, **of_runs, **table["options"]}
        content = {"rows": rows, "means": means, "table": {**table, "options": options}}
        with atomic_write(self.options.json) as stream:
            stream.write(json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False).encode("utf-8"))
            stream.write(b"\n")


def _require_writable_folder(path: Path, what: str) -> None:
    """Check that a folder can be written to, or created together with its parents."""
    nearest = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        raise ReplayError(
            f"{nearest} is not a folder that can be written to",
            where=f"{what} {path}",
            fix="give another folder",
        )
