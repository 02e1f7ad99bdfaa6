"""Replay every setting on every shuffle, in this process or in several."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.sharedctypes import Synchronized
from typing import ClassVar

from threadpoolctl import threadpool_limits

from backend.commands.progress import Advance
from backend.commands.replay.inputs.orders import Shuffle
from backend.commands.replay.policies import ReplaySetting
from backend.commands.replay.results import ReplayRun, row_of
from backend.errors import ReplayError
from camvo.replays.calibrated_scores import calibrated_scores
from camvo.replays.replay import replay
from camvo.replays.texts.student_arm import has_student
from camvo.replays.votes_table import VotesTable

_LOOK = 0.2
"""Seconds between two looks at the processes' progress."""


@dataclass(frozen=True, slots=True, eq=False)
class Experiment:
    """The input that all runs share.

    Attributes:
        table: the votes.
        shuffles: seed → shuffle.
        lambda_l: λ_L of the state.
        window: items that are planned on the same state.
        calibrate: whether to compute the scores that the server would have returned, too.
        student: whether the student votes too; ``None`` for what each policy has by default.
        complete: whether the models that were left out are asked about items that a human labels.
    """

    table: VotesTable
    shuffles: Mapping[int, Shuffle]
    lambda_l: float = 1.0
    window: int = 1
    calibrate: bool = False
    student: bool | None = None
    complete: bool = False


def replay_all(
    experiment: Experiment, settings: Sequence[ReplaySetting], jobs: int, advance: Advance
) -> Iterator[ReplayRun]:
    """Replay every setting on every shuffle; yield the runs in this order for any number of jobs.

    Each process uses one BLAS thread: splitting a sum over threads changes its rounding, and the processes
    share the cores.

    Args:
        experiment: the input that the runs share; it is sent to each process once.
        settings: the policies.
        jobs: the number of processes; 1 means this one.
        advance: called with the number of items replayed since the last call.
    """
    cases = [(setting, seed) for setting in settings for seed in experiment.shuffles]
    if jobs == 1 or len(cases) == 1:
        with threadpool_limits(1):
            for setting, seed in cases:
                yield _run(experiment, setting, seed, advance)
        return
    others = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")
    done: Synchronized[int] = context.Value("q", 0)
    pool = ProcessPoolExecutor(
        min(jobs, len(cases)), context, initializer=_Process.start, initargs=(experiment, done)
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
    """End this process when its parent dies; otherwise it would wait for ever after its case."""
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
        row_of(setting, seed, items, trace, seconds, calibrated=calibrated, student=student),
        trace,
        shuffle.order,
    )
