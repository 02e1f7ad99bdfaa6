"""The report of a replay, drawn once for most of these facts."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import fields, replace
from itertools import combinations
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree, html
from matplotlib.text import Text
from PIL import Image

from backend.charts import Picture, name_points, new_figure
from backend.commands.replay.options import SharedOptions
from backend.commands.replay.report_blocks import PICTURES, _spread
from backend.commands.replay.report_data import ReportData, SettingRuns
from backend.commands.replay.runs import _QUANTILES, Point, ReplayRow, ReplayRun, ReplaySetting, Summary
from backend.commands.replay.study import ReplayStudy, draw_report
from camvo.errors import CamvoError, InvalidParameterError
from camvo.policies.camvo import CaMVo
from camvo.policies.ensemble import Majority, Random, Single
from camvo.policies.joint import Joint
from camvo.policies.policy import Policy
from camvo.policies.rivals import Cascade
from camvo.replays.measures import clairvoyant_bound, full_vote_weights
from camvo.replays.replay import Trace, VotesTable, replay

LABELS = ("<b>good</b>", "bad & ugly", "<script>alert(1)</script>")
PRICES = {"large $x$ model": 5.0, "provider/small": 0.5, "<i>middle</i>": 2.0}
POLICIES = {
    ("camvo", 0.9, 1, None): CaMVo(delta=0.9, k_min=1),
    ("camvo", 0.97, 3, None): CaMVo(delta=0.97, k_min=3),
    ("joint", None, None, 0.98): Joint(agreement=0.98),
    ("majority", None, None, None): Majority(),
    ("single:provider/small", None, None, None): Single(model="provider/small"),
    ("cascade:0.9", None, None, None): Cascade(threshold=0.9),
    ("random:0.5", None, None, None): Random(share=0.5),
}
WITH_TRUTH = {"calls", "cost-accuracy", "over-rounds", "reliability", "risk-coverage"}
WITHOUT_TRUTH = {"calls", "cost-accuracy", "over-rounds"}
TITLE = "Votes of <b>Tuesday</b>"
_NOT_AVERAGED = {"policy", "delta", "k_min", "agreement_asked", "seed", "calls", "per_label", "series"}


def drawn_table(known: bool = True, items: int = 150) -> VotesTable:
    rng = np.random.default_rng(2)
    truth = rng.integers(0, 3, items)
    right = rng.random((items, 3)) < (0.9, 0.6, 0.75)
    votes = np.where(right, truth[:, None], rng.integers(-1, 3, (items, 3)))
    truth = truth if known else np.full(items, -1)
    return VotesTable(LABELS, PRICES, rng.normal(size=(items, 4)), votes, truth)


def row_of(key: Point, seed: int, trace: Trace, table: VotesTable) -> ReplayRow:
    known = bool((table.truth >= 0).any())
    accuracy = float(np.mean(trace.labels == table.truth)) if known else None
    quality = {"precision": accuracy, "recall": None, "f1": 0.5, "support": 50}
    return ReplayRow(
        *key,
        seed,
        accuracy=accuracy,
        full_accuracy=0.9 if known else None,
        relative_accuracy=accuracy and accuracy / 0.9,
        target_met=None if key[1] is None or accuracy is None else accuracy >= key[1] * 0.9,
        agreement=0.8 + seed / 100,
        cost=float(trace.costs.mean()),
        cost_share=float(trace.costs.mean() / table.full_cost),
        mean_subset=float(trace.asked.sum(axis=1).mean()),
        ece=0.125 if known else None,
        calibrated_ece=None,
        aurc=0.25 if known else None,
        rounds_per_second=1234.0,
        calls=dict(zip(table.prices, trace.asked.sum(axis=0).tolist(), strict=True)),
        per_label=dict.fromkeys(table.labels, quality) if known else {},
        series=ReplayRow.of(ReplaySetting(*key[:1], *key[1:], Majority()), seed, table, trace, 1.0).series,
    )


def replayed(
    table: VotesTable, shuffles: int, policies: Mapping[Point, Policy] = POLICIES
) -> tuple[VotesTable, list[ReplayRun], list[Summary]]:
    runs, summaries = [], []
    for key, policy in policies.items():
        mine = []
        for seed in range(shuffles):
            order = np.random.default_rng(seed).permutation(len(table.truth))
            shuffled = replace(
                table, contexts=table.contexts[order], votes=table.votes[order], truth=table.truth[order]
            )
            trace = replay(policy, shuffled)
            mine.append(ReplayRun(row_of(key, seed, trace, shuffled), trace, order))
        means, intervals, quantiles = {}, {}, {}
        for name in {field.name for field in fields(ReplayRow)} - _NOT_AVERAGED:
            values = [getattr(run.row, name) for run in mine]
            mean = None if None in values else float(np.mean(values))
            means[name] = mean
            intervals[name] = None if mean is None or shuffles == 1 else (mean - 0.0625, mean + 0.0625)
            quantiles[name] = (
                None if mean is None else np.quantile(np.array(values, float), _QUANTILES).tolist()
            )
        runs += mine
        summaries.append(Summary(*key, shuffles, means, intervals, quantiles))
    return table, runs, summaries


@pytest.fixture(scope="module")
def replay_of_two() -> tuple[VotesTable, list[ReplayRun], list[Summary]]:
    return replayed(drawn_table(), 2)


@pytest.fixture(scope="module")
def truthless() -> tuple[VotesTable, list[ReplayRun], list[Summary]]:
    return replayed(drawn_table(known=False), 1)


@pytest.fixture(scope="module")
def report(replay_of_two, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("reports") / "not" / "there yet"
    before = dict(matplotlib.rcParams)
    draw_report(folder, *replay_of_two, title=TITLE)
    assert dict(matplotlib.rcParams) == before
    return folder


@pytest.fixture(scope="module")
def truthless_report(truthless, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("truthless")
    draw_report(folder, *truthless)
    return folder


@pytest.fixture(scope="module")
def page(report: Path) -> html.HtmlElement:
    return html.parse(str(report / "index.html")).getroot()


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def files(pictures: set[str]) -> set[str]:
    return {f"{name}.{kind}" for name in pictures for kind in ("png", "svg")} | {"index.html"}


def texts(page: html.HtmlElement, path: str) -> list[str]:
    return [" ".join(element.text_content().split()) for element in page.xpath(path)]


def test_every_picture_is_there_as_png_and_svg(report):
    assert names(report) == files(WITH_TRUTH)


@pytest.mark.parametrize("name", sorted(WITH_TRUTH))
def test_a_picture_has_ink_on_it(report, name):
    with Image.open(report / f"{name}.png") as image:
        assert image.size[1] > 200
        assert len(image.convert("RGB").getcolors(2**24)) > 20
    assert len(etree.parse(str(report / f"{name}.svg")).findall(".//{*}path")) > 20


def test_the_page_needs_no_script_and_no_other_file(page):
    assert page.xpath("//script | //link | //img | //iframe | //@src | //@*[starts-with(name(), 'on')]") == []
    assert all(str(link).startswith("#") for link in page.xpath("//@*[contains(name(), 'href')]"))


def test_no_two_elements_of_the_page_have_one_id(page):
    ids = page.xpath("//@id")
    assert len(ids) == len(set(ids))


def test_every_reference_of_a_picture_is_to_something_in_the_page(report, page):
    text = (report / "index.html").read_text(encoding="utf-8")
    wanted = set(re.findall(r'(?:href="|url\()#([^")]+)', text))
    assert wanted
    assert wanted <= set(page.xpath("//@id"))


def test_every_picture_of_the_page_says_what_it_shows(page):
    pictures = page.xpath("//figure//svg")
    assert len(pictures) == len(WITH_TRUTH)
    assert all(picture.get("role") == "img" and len(picture.get("aria-label")) > 40 for picture in pictures)
    assert all(len(caption) > 100 for caption in texts(page, "//figure/figcaption"))


def test_every_heading_of_a_table_says_what_it_heads(page):
    headings = page.xpath("//th")
    assert headings
    assert {heading.get("scope") for heading in headings} == {"row", "col"}


def test_the_pictures_take_the_colours_of_the_page(report):
    text = (report / "index.html").read_text(encoding="utf-8")
    assert "prefers-color-scheme: dark" in text
    drawn = text[text.index("<figure>") :]
    assert "var(--ink, #1f2328)" in drawn
    assert "#1f2328" not in drawn.replace("var(--ink, #1f2328)", "")


def test_markup_in_names_is_shown_and_not_obeyed(page):
    assert texts(page, "//h1 | //title") == [TITLE, TITLE]
    assert page.xpath("//b | //i") == []
    assert set(texts(page, "//details//tbody/tr/th")) == set(LABELS)
    assert "<i>middle</i>" in texts(page, "//thead//th")


def test_the_summary_has_a_row_for_each_setting(page):
    assert texts(page, "(//table)[1]/tbody/tr/th") == [
        "CaMVo δ = 0.9, k ≥ 1",
        "CaMVo δ = 0.97, k ≥ 3",
        "Joint agreement ≥ 0.98",
        "Majority",
        "provider/small alone",
        "Cascade, score ≥ 0.9",
        "Random, 0.5 of the models",
    ]


def test_the_summary_shows_means_and_intervals(page, replay_of_two):
    cells = dict(
        zip(
            texts(page, "(//table)[1]/thead//th[position() > 1]"),
            texts(page, "(//table)[1]/tbody/tr[1]/td"),
            strict=True,
        )
    )
    rows = [run.row for run in replay_of_two[1][:2]]
    accuracy, cost = np.mean([row.accuracy for row in rows]), np.mean([row.cost for row in rows])
    assert cells["accuracy"] == f"{accuracy:.1%} {100 * accuracy - 6.25:.1f}–{accuracy + 0.0625:.1%}"
    assert cells["agreement with full vote"] == "80.5% 74.2–86.8%"
    assert cells["cost per item"].startswith(f"${cost:.3g}")
    assert cells["target met"] == f"{sum(row.target_met for row in rows)} of 2"
    assert cells["rounds per second"].startswith("1,234")


def test_the_page_says_what_the_clairvoyant_would_have_reached(page, replay_of_two):
    votes, truth = replay_of_two[0].votes, replay_of_two[0].truth
    bound = clairvoyant_bound(
        votes, full_vote_weights(votes, truth), np.array(list(PRICES.values())), truth, 3
    )
    said = f"right in {bound.reached:.1%} at a cost of {bound.cost:.3g}."
    assert any(said in text for text in texts(page, "//figcaption"))


def test_an_interval_does_not_leave_what_is_possible():
    wild = {"accuracy": (-0.5, 1.5), "cost": (-1.0, 3.0)}
    setting = SettingRuns(Summary("camvo", 0.9, 1, None, 2, {"accuracy": 0.5, "cost": 1.0}, wild, {}), ())
    assert setting.interval("accuracy") == (0.0, 1.0)
    assert setting.interval("cost") == (0.0, 3.0)
    assert setting.interval("ece") is None


def test_the_calls_of_each_model_are_in_a_table(page, replay_of_two):
    table = page.xpath("//table[starts-with(normalize-space(caption), 'Calls')]")[0]
    heads = texts(table, "./thead//th[position() > 1]")
    shown = dict(zip(heads, texts(table, "./tbody/tr[1]/td"), strict=True))
    rows = [run.row for run in replay_of_two[1][:2]]
    assert shown == {model: f"{np.mean([row.calls[model] for row in rows]):,.0f}" for model in PRICES}


def test_a_division_of_nothing_by_nothing_is_a_dash(page):
    assert texts(page, "(//details)[1]//tbody/tr[1]/td")[1:] == ["–", "50.0%", "50"]


def test_each_target_names_who_met_it_at_the_least_cost(replay_of_two):
    data = ReportData.of(*replay_of_two)
    first = data.settings[0]
    dearer = replace(first.summary, k_min=2, means=first.summary.means | {"cost_share": 0.99})
    cheaper = replace(first.summary, k_min=3, means=first.summary.means | {"cost_share": 0.01})
    met = [replace(run, row=replace(run.row, relative_accuracy=0.9)) for run in first.runs]
    once = [met[0], replace(met[1], row=replace(met[1].row, relative_accuracy=0.89))]
    chosen = replace(data, settings=(SettingRuns(dearer, tuple(met)), SettingRuns(cheaper, tuple(once))))
    assert [sentence.partition(": ")[2] for sentence in chosen.target_findings()] == [
        f"CaMVo, δ = 0.9, k ≥ 2, with {first.mean('accuracy'):.1%} at 99.0% of the full vote’s cost."
    ]
    nobody = replace(data, settings=(SettingRuns(cheaper, tuple(once)),))
    assert [sentence.partition(": ")[2] for sentence in nobody.target_findings()] == ["none."]
    other = SettingRuns(replace(cheaper, policy="majority", delta=None, k_min=None), tuple(met))
    named = replace(data, settings=(*chosen.settings, other)).target_findings()
    assert [sentence.partition(": ")[2].partition(",")[0] for sentence in named] == ["Majority"]


def drawn(name: str, data: ReportData) -> Picture | None:
    """One of the pictures."""
    pictures = (draw(data) for draw in PICTURES)
    return next((picture for picture in pictures if picture is not None and picture.name == name), None)


def test_a_run_of_several_blocks_has_their_series_drawn():
    table = drawn_table(items=1100)
    quick = {key: policy for key, policy in POLICIES.items() if key[0] in ("majority", "random:0.5")}
    data = ReportData.of(*replayed(table, 2, quick))
    picture = drawn("blocks", data)
    assert [axes.get_ylabel() for axes in picture.figure.axes] == [
        "accuracy",
        "agreement",
        "cost, share of all",
    ]
    line = picture.figure.axes[0].lines[0]
    series = [run.row.series for run in data.settings[0].runs]
    assert line.get_xdata().tolist() == [500, 1000, 1100]
    assert "the 500 rounds up to it, the last one of the 100 that are left." in picture.caption[0]
    assert line.get_ydata() == pytest.approx(np.mean([one["accuracy"] for one in series], axis=0))


def test_a_run_of_one_block_has_no_series_drawn(replay_of_two):
    assert drawn("blocks", ReportData.of(*replay_of_two)) is None


def test_without_truth_only_cost_and_agreement_are_reported(truthless_report):
    assert names(truthless_report) == files(WITHOUT_TRUTH)
    page = html.parse(str(truthless_report / "index.html")).getroot()
    assert texts(page, "(//table)[1]/thead//th") == [
        "setting",
        "agreement with full vote",
        "cost per item",
        "share of full cost",
        "models asked",
        "rounds per second",
    ]
    assert "No right label is known" in page.text_content()
    assert page.xpath("//details") == []


def test_an_earlier_report_is_replaced_to_the_byte_and_nothing_else(
    truthless, truthless_report, report, tmp_path
):
    shutil.copytree(report, tmp_path / "report")
    (tmp_path / "report" / "rows.json").write_text("somebody else's")
    draw_report(tmp_path / "report", *truthless)
    assert names(tmp_path / "report") == files(WITHOUT_TRUTH) | {"rows.json"}
    for name in files(WITHOUT_TRUTH):
        assert (tmp_path / "report" / name).read_bytes() == (truthless_report / name).read_bytes()


@pytest.mark.parametrize("there", ["report", "report/index.html", "report/calls.png"])
def test_what_is_not_a_report_is_not_replaced(there, truthless, tmp_path):
    (tmp_path / there).parent.mkdir(exist_ok=True)
    (tmp_path / there).write_text("dear to somebody")
    with pytest.raises(CamvoError, match="report"):
        draw_report(tmp_path / "report", *truthless)
    assert (tmp_path / there).read_text() == "dear to somebody"
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / there]


def test_a_report_that_fails_leaves_nothing_behind(truthless, tmp_path):
    table, runs, summaries = truthless
    broken = [replace(run, trace=replace(run.trace, costs=np.zeros((2, 2)))) for run in runs]
    with pytest.raises(ValueError, match="broadcast"):
        draw_report(tmp_path / "report", table, broken, summaries)
    assert names(tmp_path) == set()


def test_a_summary_without_a_run_is_refused(truthless, tmp_path):
    table, runs, summaries = truthless
    with pytest.raises(InvalidParameterError):
        draw_report(tmp_path / "report", table, runs[1:], summaries)
    assert names(tmp_path) == set()


def test_a_missing_matplotlib_is_said_before_the_replay(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    given = dict.fromkeys(field.name for field in fields(ReplayStudy))
    study = ReplayStudy(**given | {"options": SharedOptions()})
    with pytest.raises(CamvoError, match=re.escape('pip install "camvo[server]"')):
        study.require_output(tmp_path)


def test_matplotlib_is_loaded_only_to_draw_and_pyplot_never():
    program = """
import sys, backend.commands.replay.table
print("matplotlib" in sys.modules)
import backend.commands.replay.report_blocks
print("matplotlib" in sys.modules, "matplotlib.pyplot" in sys.modules)
"""
    environment = {"PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.split() == ["False", "True", "False"]


def test_what_came_so_far_is_counted_in_the_order_of_the_run():
    truth = np.array([0, -1, 1])
    table = VotesTable(("a", "b"), {"x": 1.0, "y": 3.0}, np.zeros((3, 1)), np.zeros((3, 2), np.int64), truth)
    order = np.array([2, 1, 0])
    trace = Trace(
        np.array([0, 0, 0]), np.ones(3), np.array([4.0, 0.0, 2.0]), np.ones((3, 2), np.bool_), np.zeros(3),
        np.zeros(3, np.int64), np.full(3, -1),
    )  # fmt: skip
    summary = Summary("camvo", None, None, None, 1, {}, {}, {})
    run = ReplayRun(
        row_of(("camvo", None, None, None), 0, trace, replace(table, truth=truth[order])), trace, order
    )
    data = ReportData.of(table, [run], [summary])
    accuracy, cost = drawn("over-rounds", data).figure.axes
    assert accuracy.lines[0].get_ydata().tolist() == [0.0, 0.0, 0.5]
    assert cost.lines[0].get_ydata().tolist() == [1.0, 0.5, 0.5]


def test_many_settings_are_all_drawn_differently(replay_of_two):
    table, (run, *_), _ = replay_of_two
    keys = [
        ("camvo", delta, k_min, None)
        for delta in (0.8, 0.85, 0.9, 0.95, 0.97, 0.98, 0.99)
        for k_min in (1, 3, 5)
    ]
    runs = [
        replace(run, row=replace(run.row, policy=policy, delta=delta, k_min=k_min, agreement_asked=agreement))
        for policy, delta, k_min, agreement in keys
    ]
    data = ReportData.of(table, runs, [Summary(*key, 1, {}, {}, {}) for key in keys])
    chosen = [setting.style for setting in data.settings]
    assert len({(style.colour, style.dashes) for style in chosen}) == len(keys)
    assert len({(style.colour, style.marker) for style in chosen}) == len(keys)


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=8).map(sorted), st.floats(0.1, 20))
def test_names_of_lines_are_moved_apart_and_no_farther(positions, gap):
    moved = _spread(np.array(positions), gap)
    assert (np.diff(moved) >= gap - 1e-6).all()
    assert moved.mean() == pytest.approx(np.mean(positions), abs=1e-6)
    if (np.diff(positions) >= gap).all():
        assert moved == pytest.approx(positions)


def test_names_of_close_points_do_not_lie_on_each_other():
    figure = new_figure(8, 5)
    axes = figure.add_subplot(xlim=(0, 1), ylim=(0, 1))
    points = np.random.default_rng(0).normal(0.5, 0.01, (7, 2))
    name_points(axes, points, [f"model number {k}" for k in range(7)], points[:1], [points[:2]])
    figure.draw_without_rendering()
    boxes = [Text.get_window_extent(name) for name in axes.texts]
    assert len(boxes) == 7
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    assert all(axes.bbox.x0 <= box.x0 and box.x1 <= axes.bbox.x1 for box in boxes)
