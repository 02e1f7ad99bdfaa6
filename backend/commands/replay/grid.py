"""Every policy over every shuffle, one after the other or in several processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from multiprocessing.sharedctypes import Synchronized
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from backend.commands.replay.policies import Setting
from backend.commands.replay.results import Run, row_of
from backend.errors import ReplayError
from camvo.replays.replay import replay
from camvo.replays.rescored import rescored
from camvo.replays.votes_table import VotesTable

_LOOK = 0.2
"""Seconds between two looks at how far the processes are."""

Progress: TypeAlias = Callable[[int], object]


@dataclass(frozen=True, slots=True, eq=False)
class Shuffle:
    """The items of a run by position in the table, in the order they come, and who has a human label."""

    order: NDArray[np.int64]
    human: NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Experiment:
    """What the runs share.

    Attributes:
        table: the votes.
        shuffles: seed → shuffle.
        lambda_l: λ_L of the state.
        window: items that are planned on the same state.
        calibrate: whether the scores that the server would have shown are computed as well.
    """

    table: VotesTable
    shuffles: Mapping[int, Shuffle]
    lambda_l: float = 1.0
    window: int = 1
    calibrate: bool = False


def shuffled(truth: NDArray[np.int64], seed: int, limit: int | None, human_labels: float) -> Shuffle:
    """A random order of the items that the seed alone decides, and who of them has a human label.

    Args:
        truth: of the table, shape (n,); −1 where it is not known.
        seed: what decides the order and, apart from it, the human labels.
        limit: how many of the first items in that order are replayed; all, when ``None``.
        human_labels: the share of these items, as far as their truth is known, that a human labels.
    """
    order = np.random.default_rng([seed, 0]).permutation(len(truth))[:limit]
    if not human_labels:
        return Shuffle(order)
    (known,) = np.nonzero(truth[order] >= 0)
    chosen = np.random.default_rng([seed, 1]).permutation(known)[: round(human_labels * len(known))]
    return Shuffle(order, np.isin(np.arange(len(order)), chosen))


def runs(experiment: Experiment, settings: Sequence[Setting], jobs: int, progress: Progress) -> Iterator[Run]:
    """Every setting on every shuffle, in this order whatever ``jobs`` is.

    One BLAS thread each: a sum that is split over threads is another sum, and the processes share the cores.

    Args:
        experiment: what the runs share; it goes to each process once.
        settings: the policies.
        jobs: how many processes; 1 stays in this one.
        progress: called with the number of items that were done since the last call.
    """
    cases = [(setting, seed) for setting in settings for seed in experiment.shuffles]
    if jobs == 1 or len(cases) == 1:
        with threadpool_limits(1):
            for setting, seed in cases:
                yield _run(experiment, setting, seed, progress)
        return
    others = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")
    done: Synchronized[int] = context.Value("q", 0)
    pool = ProcessPoolExecutor(
        min(jobs, len(cases)), context, initializer=_Process.start, initargs=(experiment, done)
    )
    try:
        futures = [pool.submit(_Process.run, setting, seed) for setting, seed in cases]
        yield from _in_order(futures, done, progress)
    except BrokenProcessPool as error:
        raise ReplayError("one of the processes was killed", where="--jobs", fix="out of memory?") from error
    except BaseException:  # whoever interrupts does not want to wait for the cases under way
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


class _Process:
    """What one of the processes works with."""

    experiment: ClassVar[Experiment]
    done: ClassVar[Synchronized[int]]

    @classmethod
    def start(cls, experiment: Experiment, done: Synchronized[int]) -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # the pool would go on with the next case
        threading.Thread(target=_end_with_parent, daemon=True).start()
        threadpool_limits(1)
        cls.experiment, cls.done = experiment, done

    @classmethod
    def run(cls, setting: Setting, seed: int) -> Run:
        return _run(cls.experiment, setting, seed, cls.count)

    @classmethod
    def count(cls, items: int) -> None:
        with cls.done.get_lock():
            cls.done.value += items


def _end_with_parent() -> None:
    """A process whose parent was killed would work on its case and then wait for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _in_order(futures: Sequence[Future[Run]], done: Synchronized[int], progress: Progress) -> Iterator[Run]:
    told = 0
    for future in futures:
        running = True
        while running:
            running = bool(wait([future], _LOOK).not_done)
            told, before = done.value, told
            progress(told - before)
        yield future.result()


def _run(experiment: Experiment, setting: Setting, seed: int, progress: Progress) -> Run:
    table, shuffle = experiment.table, experiment.shuffles[seed]
    items = replace(
        table,
        contexts=table.contexts[shuffle.order],
        votes=table.votes[shuffle.order],
        truth=table.truth[shuffle.order],
    )
    started = time.perf_counter()
    trace = replay(
        setting.policy,
        items,
        lambda_l=experiment.lambda_l,
        window=experiment.window,
        human=shuffle.human,
        progress=progress,
    )
    seconds = time.perf_counter() - started
    calibrated = rescored(trace, items, shuffle.human) if experiment.calibrate else None
    return Run(row_of(setting, seed, items, trace, seconds, calibrated=calibrated), trace, shuffle.order)
