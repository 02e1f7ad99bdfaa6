from __future__ import annotations

import io
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from rich.console import Console

from backend.commands.shared import output
from backend.commands.shared.output import _EVERY, progress_bar


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Seconds pass only where a test says so."""
    monkeypatch.setattr(output, "time", SimpleNamespace(monotonic=lambda: CLOCK.now))
    yield
    CLOCK.now = 0.0


CLOCK = SimpleNamespace(now=0.0)


def printed(steps: list[tuple[float, int]], *, terminal: bool = False) -> str:
    """What is printed if so many seconds pass before each of these numbers of items."""
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=80)
    with progress_bar(console, "replaying", 2000) as advance:
        for seconds, items in steps:
            CLOCK.now += seconds
            advance(items)
    return stream.getvalue()


def test_a_redirected_command_says_how_far_it_is_every_so_often() -> None:
    assert printed([(_EVERY, 500), (1.0, 10), (_EVERY, 490)]).splitlines() == [
        "replaying: 500 of 2,000 (25%), about 45 s left",
        "replaying: 1,000 of 2,000 (50%), about 31 s left",
    ]


def test_a_redirected_command_that_is_quick_says_nothing() -> None:
    assert printed([(0.1, 1000), (0.1, 1000)]) == ""


def test_nothing_done_yet_is_no_progress() -> None:
    assert printed([(_EVERY, 0)]) == ""


def test_a_terminal_has_a_bar_and_no_lines() -> None:
    assert "about" not in printed([(_EVERY, 2000)], terminal=True)


def test_a_note_is_shown_beside_the_numbers() -> None:
    stream = io.StringIO()
    console = Console(file=stream, width=80)
    note = lambda done, total: f"${done} of ${total}"  # noqa: E731
    with progress_bar(console, "tasks", 4, note=note) as advance:
        CLOCK.now = _EVERY
        advance(1)
    assert stream.getvalue() == "tasks: 1 of 4 (25%), about 45 s left, $1 of $4\n"


def test_the_time_left_is_known_from_the_first_item_on() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=120)
    with progress_bar(console, "tasks", 4) as advance:
        advance(1)
    assert "left" in stream.getvalue()
