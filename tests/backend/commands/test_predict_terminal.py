"""``camvo predict`` on the terminal: dollars while it runs, totals, exit codes, Ctrl-C."""

from __future__ import annotations

import io
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from rich.console import Console

from backend.commands.bulk import predicting
from backend.commands.bulk.predict_command import _run_on_terminal
from backend.commands.bulk.predicting import Tally, _watching
from backend.commands.shared.backend_client import Progress
from backend.commands.shared.output import Advance
from backend.errors import BackendError


@dataclass
class Run:
    """A run that does what a test says."""

    do: Callable[[Advance, Tally], None]
    tally: Tally = field(default_factory=Tally)
    batch: int = 50

    def __call__(self, advance: Advance) -> Tally:
        self.do(advance, self.tally)
        return self.tally


def shown(do: Callable[[Advance, Tally], None], tasks: int = 10) -> tuple[int, str]:
    stream = io.StringIO()
    code = _run_on_terminal(Console(file=stream, width=200), Run(do), tasks)  # type: ignore[arg-type]
    return code, stream.getvalue()


def test_the_totals_have_dollars_and_time() -> None:
    def do(advance: Advance, tally: Tally) -> None:
        tally.created, tally.spent_usd = 10, 0.0000572

    assert shown(do) == (
        0,
        "10 predictions stored, 0 replaced, 0 tasks left unchanged\n$0.0000572 spent in 0 s\n",
    )


@pytest.mark.parametrize(
    ("left", "code"),
    [
        (Tally(failed=Counter(no_vote=1)), 1),
        (Tally(undecided=1), 1),
        (Tally(too_large=1), 1),
        (Tally(refused=1), 1),
        (Tally(blind=1), 0),
        (Tally(unchanged=10), 0),
    ],
)
def test_the_exit_code_says_whether_tasks_are_left(left: Tally, code: int) -> None:
    def do(advance: Advance, tally: Tally) -> None:
        for name in ("failed", "undecided", "too_large", "refused", "blind", "unchanged"):
            setattr(tally, name, getattr(left, name))

    assert shown(do)[0] == code


def test_ctrl_c_says_what_is_done_and_what_happens_next() -> None:
    def do(advance: Advance, tally: Tally) -> None:
        tally.created = 3
        raise KeyboardInterrupt

    stream = io.StringIO()
    with pytest.raises(KeyboardInterrupt):
        _run_on_terminal(Console(file=stream, width=200), Run(do), 10)  # type: ignore[arg-type]
    text = stream.getvalue()
    assert text.startswith("3 predictions stored")
    assert "50 at most" in text
    assert "Run the same command again" in text


def test_an_error_comes_after_the_totals_and_how_to_continue() -> None:
    def do(advance: Advance, tally: Tally) -> None:
        raise BackendError("gone")

    stream = io.StringIO()
    with pytest.raises(BackendError):
        _run_on_terminal(Console(file=stream, width=200), Run(do), 10)  # type: ignore[arg-type]
    assert "0 predictions stored" in stream.getvalue()
    assert "Run the same command again" in stream.getvalue()


def test_money_spent_on_tasks_under_way_is_not_taken_for_the_price_of_those_that_are_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("backend.commands.shared.output._EVERY", 0.0)

    def do(advance: Advance, tally: Tally) -> None:
        tally.unchanged = 4
        advance(4)
        tally.spent_usd = 0.02
        advance(1)

    assert "to come" not in shown(do)[1]
    assert "$0.0200 spent" in shown(do)[1]


@pytest.mark.parametrize(
    ("asked", "done", "said"),
    [
        (50, 60, "$0.5000 spent, about $9.40 to come"),
        (10, 990, "$0.5000 spent, about $0.50 to come"),
        (1, 900, "$0.5000 spent"),
        (10, 1000, "$0.5000 spent"),
    ],
)
def test_what_is_to_come_has_the_mean_price_once_enough_tasks_were_asked_about(
    monkeypatch: pytest.MonkeyPatch, asked: int, done: int, said: str
) -> None:
    monkeypatch.setattr("backend.commands.shared.output._EVERY", 0.0)

    def do(advance: Advance, tally: Tally) -> None:
        tally.spent_usd, tally.usd_asked, tally.asked = 0.5, 0.5, asked
        advance(done)

    assert f"left, {said}\n" in shown(do, 1000)[1]


class Watched:
    """A server whose project decides a task between two looks."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int | None, int | None]] = []
        self.looked = threading.Event()

    def progress(
        self, project_key: str, first: int = 0, last: int | None = None, after: int | None = None
    ) -> Progress:
        self.asked.append((first, last, after))
        if len(self.asked) > 2:
            self.looked.set()
        return Progress(len(self.asked) - 1, 41, 0.5)


def test_the_server_is_watched_while_a_request_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predicting, "_EVERY", 0.001)
    server, seen = Watched(), list[Progress]()
    with _watching(server, "1.1", range(5, 8), seen.append):
        assert server.looked.wait(30)
    assert server.asked[:2] == [(0, None, None), (5, 7, 41)]
    assert [progress.tasks for progress in seen[:2]] == [1, 2]


def test_a_server_that_cannot_be_watched_does_not_stop_the_run() -> None:
    class Gone(Watched):
        def progress(self, *_: object, **__: object) -> Progress:
            raise BackendError("gone")

    done = False
    with _watching(Gone(), "1.1", range(1), lambda progress: None):
        done = True
    assert done
