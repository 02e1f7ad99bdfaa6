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

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

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
    (folder / "camvo.yaml").write_text("models: []")  # somebody's own, which the demo must not use
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
    left += sorted(path.name for path in folder.iterdir() if path.name not in {"tmp", "camvo.yaml"})
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


def outcomes(printed: str) -> dict[str, tuple[float, float, int]]:
    """Way of labelling the digits → right labels in %, cost in dollars, share of the whole cost in %."""
    rows = re.findall(r"^(\S.*?) +([\d.]+)% right +\$([\d.]+) +(\d+)% of the cost", printed, re.MULTILINE)
    return {name: (float(right), float(cost), int(share)) for name, right, cost, share in rows}


def classifiers(printed: str) -> list[tuple[str, int, float, float]]:
    """Name, training images, share of right votes in %, price of 1,000 in dollars of every classifier."""
    rows = re.findall(r"^(\w+) +(\d+) +([\d.]+)% +([\d.]+) *$", printed, re.MULTILINE)
    return [(name, int(images), float(right), float(price)) for name, images, right, price in rows]


def shape(line: str) -> str:
    """A line without its digits."""
    return re.sub(r"\d+", "0", line).rstrip()


def test_the_demo_ends_by_itself_without_an_error(demo: Ended) -> None:
    assert (demo.code, demo.errors) == (0, "")


def test_it_prints_some_predictions_with_probabilities(demo: Ended) -> None:
    shown = predictions(demo.printed)
    assert len(shown) == 6
    assert all(0 < score <= 1 for _, _, score in shown)


def test_most_of_the_texts_are_labelled_right(demo: Ended) -> None:
    assert number(r"(\d+) of 60 labels are right", demo.printed) >= 45


def test_eight_classifiers_of_different_quality_and_price_vote(demo: Ended) -> None:
    shown = classifiers(demo.printed)
    assert len(shown) == 8
    right, prices = [each[2] for each in shown], [each[3] for each in shown]
    assert max(right) - min(right) > 20
    assert max(prices) > 10 * min(prices)


def test_everyone_costs_what_all_classifiers_cost(demo: Ended) -> None:
    prices = [price for *_, price in classifiers(demo.printed)]
    right, cost, share = outcomes(demo.printed)["asking everyone"]
    assert (cost, share) == (pytest.approx(1.5 * sum(prices), abs=0.01), 100)
    assert right > 90


def test_the_best_single_one_is_the_best_of_the_table(demo: Ended) -> None:
    *_, right, price = max(classifiers(demo.printed), key=lambda each: each[2])
    found = outcomes(demo.printed)["the best single one"]
    assert found[:2] == (right, pytest.approx(1.5 * price, abs=0.01))


def test_camvo_is_nearly_as_often_right_as_everyone_for_less_than_half_the_cost(demo: Ended) -> None:
    ways = outcomes(demo.printed)
    assert ways["CaMVo"][0] >= ways["asking everyone"][0] - 2.5
    assert ways["CaMVo"][2] < 50


def test_each_share_of_the_cost_is_that_of_its_own_dollars(demo: Ended) -> None:
    ways = outcomes(demo.printed)
    for _, cost, share in ways.values():
        assert share == pytest.approx(100 * cost / ways["asking everyone"][1], abs=0.6)


def test_the_labels_of_twenty_digits_mend_some_and_narrow_the_interval(demo: Ended) -> None:
    found = outcomes(demo.printed)["CaMVo"][0]
    reviewed = number(r"you label 20 ([\d.]+)% right", demo.printed)
    wrong = number(r"lowest scores first: (\d+) were wrong", demo.printed)
    mended, broken = (number(rf"(\d+) to {way}", demo.printed) for way in ("right", "wrong"))
    assert wrong > 0
    assert reviewed == pytest.approx(found + 100 * (wrong + mended - broken) / 1500, abs=0.11)
    low, high = (number(pattern, demo.printed) for pattern in (r"labels: (\d+)% to", r"to (\d+)%, now"))
    new_low, new_high = (number(pattern, demo.printed) for pattern in (r"now (\d+)% to", r"to (\d+)% \("))
    assert new_high - new_low < high - low
    assert new_low <= found <= new_high


def test_it_says_that_prices_are_nominal(demo: Ended) -> None:
    assert "Prices are nominal." in demo.printed


def test_it_prints_what_the_readme_shows(demo: Ended) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    [block] = re.findall(r"^```\n(✓ .*?)^```", readme, re.DOTALL | re.MULTILINE)
    printed = {shape(line) for line in demo.printed.splitlines()}
    assert [line for line in block.splitlines() if shape(line) not in printed] == []


def test_no_line_is_wider_than_the_terminal(demo: Ended) -> None:
    assert max(map(len, demo.printed.splitlines())) <= 80


@pytest.mark.parametrize("run", ["undisturbed", "interrupted"])
def test_it_leaves_no_process_and_no_file_behind(run: str, runs: dict[str, Ended]) -> None:
    assert (runs[run].processes, runs[run].left) == ([], [])


def test_ctrl_c_ends_it_quietly(runs: dict[str, Ended]) -> None:
    interrupted = runs["interrupted"]
    assert "Traceback" not in interrupted.printed + interrupted.errors
    assert interrupted.printed.rstrip().endswith("stopped")
    assert "right  $" not in interrupted.printed
