"""``camvo demo`` run to its end, and a second run interrupted with Ctrl-C."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest
from server_process import PATIENCE, child

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

COMMAND = [sys.executable, "-m", "backend.cli", "demo"]


@dataclass(frozen=True)
class Ended:
    """A demo that has ended: what it printed and left behind."""

    code: int
    printed: str
    errors: str
    left: list[str]
    processes: list[int]


def _start(folder: Path) -> subprocess.Popen[str]:
    (folder / "tmp").mkdir()
    return subprocess.Popen(  # noqa: S603 - our own
        COMMAND,
        cwd=folder,
        env=child(TMPDIR=str(folder / "tmp"), COLUMNS="80", PYTHONUNBUFFERED="1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _finish(demo: subprocess.Popen[str], folder: Path, printed: str = "") -> Ended:
    out, errors = demo.communicate(timeout=2 * PATIENCE)
    left = sorted(path.name for path in (folder / "tmp").glob("camvo*"))  # torch leaves a folder of its own
    left += sorted(path.name for path in folder.iterdir() if path.name != "tmp")
    group = [p.pid for p in psutil.process_iter() if _group(p.pid) == demo.pid]
    return Ended(demo.returncode, printed + out, errors, left, group)


def _group(process: int) -> int | None:
    try:
        return os.getpgid(process)
    except ProcessLookupError:
        return None


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ended]:
    """Two runs in parallel: one undisturbed, one interrupted as soon as it prints predictions."""
    whole, broken = tmp_path_factory.mktemp("whole"), tmp_path_factory.mktemp("broken")
    with ThreadPoolExecutor() as people:
        undisturbed = people.submit(lambda: _finish(_start(whole), whole))
        interrupted = people.submit(lambda: _interrupt(_start(broken), broken))
        return {"undisturbed": undisturbed.result(), "interrupted": interrupted.result()}


def _interrupt(process: subprocess.Popen[str], folder: Path) -> Ended:
    """Send Ctrl-C to the whole group, as a terminal does."""
    watchdog = threading.Timer(PATIENCE, process.kill)
    watchdog.start()
    printed = ""
    assert process.stdout is not None
    while not re.search(r"^[✓✗] ", printed, re.MULTILINE) and (line := process.stdout.readline()):
        printed += line
    watchdog.cancel()
    os.killpg(process.pid, signal.SIGINT)
    return _finish(process, folder, printed)


@pytest.fixture
def demo(runs: dict[str, Ended]) -> Ended:
    return runs["undisturbed"]


def number(pattern: str, text: str) -> float:
    """The number that the pattern's group matches, which must occur once; line breaks do not matter."""
    matches = re.findall(pattern, " ".join(text.split()))
    assert len(matches) == 1, (pattern, matches)
    return float(matches[0].replace(",", ""))


def predictions(printed: str) -> list[tuple[str, str, float]]:
    """(mark, label, score) of every prediction."""
    lines = re.findall(r"^([✓✗]) (\S+)\s+(\d\.\d\d)  \S", printed, re.MULTILINE)
    return [(mark, label, float(score)) for mark, label, score in lines]


def curve(printed: str) -> list[tuple[int, int, int, float]]:
    """First item, last item, cost share in %, accuracy in % of every row of the replay."""
    rows = re.findall(r"^\s*(\d+)–(\d+)\s+(\d+)%\s+█*\s+([\d.]+)%", printed, re.MULTILINE)
    return [(int(first), int(last), int(share), float(right)) for first, last, share, right in rows]


def test_the_demo_ends_by_itself_without_an_error(demo: Ended) -> None:
    assert (demo.code, demo.errors) == (0, "")


def test_it_prints_sixty_predictions_with_probabilities(demo: Ended) -> None:
    shown = predictions(demo.printed)
    assert len(shown) == 60
    assert all(0 < score <= 1 for _, _, score in shown)
    assert {label for _, label, _ in shown} == {
        *("Positive", "Negative"),
        *("World", "Sports", "Business", "Science/Technology"),
    }


def test_it_says_which_models_were_asked_for_each_prediction(demo: Ended) -> None:
    asked = re.findall(r"^  asked (?:all (\d)|(\d): (.+))$", demo.printed, re.MULTILINE)
    assert len(asked) == 60
    for everyone, count, names in asked:
        assert everyone == "7" or int(count) == len(names.split(", ")) >= 3


def test_the_accuracy_is_that_of_the_marks_and_better_than_chance(demo: Ended) -> None:
    right = number(r"accuracy (\d+) of 60 gold labels", demo.printed)
    assert right == sum(mark == "✓" for mark, _, _ in predictions(demo.printed))
    assert right >= 45


def test_the_cost_share_is_that_of_its_own_dollars(demo: Ended) -> None:
    share = number(r"cost (\d+)% of asking every model every time", demo.printed)
    paid, full = number(r"\(\$([\d.]+) of", demo.printed), number(r"of \$([\d.]+), nominal\)", demo.printed)
    assert share == pytest.approx(100 * paid / full, abs=0.6)
    assert 20 < share <= 100  # the first 36 tasks of a project ask every model


def test_the_calls_of_each_model_are_those_of_the_lines_above(demo: Ended) -> None:
    calls = dict(re.findall(r"([a-z-]+) (\d+)(?:,|\s*60 tasks)", _calls(demo.printed)))
    expected = dict.fromkeys(calls, 0)
    for everyone, names in re.findall(r"^  asked (?:(all 7)|\d: (.+))$", demo.printed, re.MULTILINE):
        for name in calls if everyone else names.split(", "):
            expected[name] += 1
    assert {name: int(count) for name, count in calls.items()} == expected
    assert len(calls) == 7


def _calls(printed: str) -> str:
    flat = " ".join(printed.split())
    return flat[flat.index(" calls ") : flat.index("60 tasks are too few") + len("60 tasks")]


def test_human_answers_change_what_models_earned(demo: Ended) -> None:
    rows = re.findall(r"^([a-z-]+) +(\d+) +(\d\.\d\d) +(\d\.\d\d) *$", demo.printed, re.MULTILINE)
    assert len(rows) == 2 * 7
    assert any(before != after for _, _, before, after in rows)


def test_it_says_that_prices_are_nominal_and_settings_the_defaults(demo: Ended) -> None:
    flat = " ".join(demo.printed.split())
    assert "prices are nominal" in flat
    assert "All settings are the defaults." in flat
    assert "60 tasks are too few to learn much" in flat


def test_the_replay_covers_every_item_once(demo: Ended) -> None:
    rows = curve(demo.printed)
    assert [first for first, *_ in rows] == [1, *(last + 1 for _, last, *_ in rows[:-1])]
    assert rows[-1][1] >= 2000


def test_cost_falls_in_the_replay_while_accuracy_holds(demo: Ended) -> None:
    rows = curve(demo.printed)
    assert rows[-1][2] <= rows[0][2] - 15
    full = number(r"which is ([\d.]+)% right\.", demo.printed)
    assert rows[-1][3] >= 0.97 * full


def test_the_replays_sum_is_that_of_its_rows(demo: Ended) -> None:
    rows = curve(demo.printed)
    items = rows[-1][1]
    cost = sum((last - first + 1) * share for first, last, share, _ in rows) / items
    right = sum((last - first + 1) * accuracy for first, last, _, accuracy in rows) / items
    assert number(r"right at (\d+)% of the cost", demo.printed) == pytest.approx(cost, abs=1.1)
    assert number(r"CaMVo: ([\d.]+)% right", demo.printed) == pytest.approx(right, abs=0.11)


def test_no_line_is_wider_than_the_terminal(demo: Ended) -> None:
    assert max(map(len, demo.printed.splitlines())) <= 80


@pytest.mark.parametrize("run", ["undisturbed", "interrupted"])
def test_it_leaves_no_process_and_no_file_behind(run: str, runs: dict[str, Ended]) -> None:
    assert (runs[run].processes, runs[run].left) == ([], [])


def test_ctrl_c_ends_it_quietly(runs: dict[str, Ended]) -> None:
    interrupted = runs["interrupted"]
    assert "Traceback" not in interrupted.printed + interrupted.errors
    assert interrupted.printed.rstrip().endswith("stopped")
    assert 0 < len(predictions(interrupted.printed)) < 60
