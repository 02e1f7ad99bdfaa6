"""``camvo label`` in shards and in parts: several outputs that together are that of one run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import migrated
import pyarrow.parquet
import pytest
from command_line import called
from labelling import PLAIN, LabelFolder
from object_store import ObjectStore
from rich.console import Console
from whole_backend import prompt_of

from backend.annotation.annotator import Annotator
from backend.commands.bulk.labelling import Labelling, RunCounts, Spending
from backend.commands.label.engines import (
    _PartLabeller,
    _PartOutcome,
    _run_parts,
    _Work,
    label_in_parts,
)
from backend.commands.shared.options import LabelOptions
from backend.datasets.sinks import parts_folder
from backend.datasets.tasks import Part, Shard
from backend.errors import ConfigError, DatasetError
from backend.ledger import Ledger, projects
from backend.server.status.missing import Ending, Missing
from backend.testing import Reply

TEXTS = [f"{word} {number}" for number in range(12) for word in ("lovely", "gloomy")]


def moods(body: dict[str, Any]) -> Reply:
    return Reply.says({"label": "Sad" if "gloomy" in prompt_of(body) else "Glad"})


def label_here(work: _Work, parts: Sequence[Part], console: Console) -> Iterator[_PartOutcome]:
    with _PartLabeller(work, console) as labeller:
        yield from map(labeller.label, parts)


def label_parts(
    folder: LabelFolder, engine: Callable[..., Any] = label_here, out: str = "", **options: Any
) -> tuple[RunCounts, list[_PartOutcome], Missing]:
    """Label ``in.csv`` into the folder ``out``, or into another one."""
    return _run_parts(
        folder.path / "in.csv",
        parts_folder(out or str(folder.path / "out")),
        LabelOptions(**{**PLAIN, **options}),
        folder.environment,
        folder.console,
        engine,
    )


def rows_of(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.glob("*.parquet"))
    return [row for file in files for row in pyarrow.parquet.read_table(file).to_pylist()]


def test_shards_together_write_what_one_run_writes_and_buy_each_answer_once(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, moods) as folder:
        folder.table(*TEXTS, "lovely 1")
        labels = []
        for number in (1, 2, 3):
            folder.label(out=f"{number}.csv", shard=Shard(number, 3))
            labels += [(row["text"], row["camvo_label"]) for row in folder.rows(f"{number}.csv")]
        assert folder.server.count() == 2 * len(TEXTS)
        folder.label()
        assert folder.server.count() == 2 * len(TEXTS)
        assert sorted(labels) == sorted((row["text"], row["camvo_label"]) for row in folder.rows())


def test_a_shard_that_is_run_again_looks_up_its_own_rows_alone(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, moods) as folder:
        folder.table(*TEXTS)
        first = folder.label(shard=Shard(2, 3))
        again = folder.label(shard=Shard(2, 3))
        assert 0 < first.counts.tasks < len(TEXTS)
        assert (again.counts.labelled_before, again.counts.labelled) == (first.counts.tasks, 0)


def test_a_budget_lasts_for_the_tasks_of_all_shards(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, moods) as folder:
        folder.table(*TEXTS)
        folder.label(shard=Shard(1, 3))
        with folder.ledger.read() as connection:
            stored = projects.get(connection, "in")
        assert stored is not None
        assert stored.task_number == len(TEXTS)


def test_parts_together_are_the_rows_in_their_order_with_costs_that_add_up(tmp_path: Path) -> None:
    texts = [f"{word} {number}" for number in range(60) for word in ("lovely", "gloomy")]
    with LabelFolder(tmp_path, moods, concurrency=8) as folder:
        folder.table(*texts, "lovely 1")
        counts, errors, _ = label_parts(folder)
        rows = rows_of(tmp_path / "out")
        assert not errors
        assert len(list((tmp_path / "out").iterdir())) == 2
        assert [row["text"] for row in rows] == [*texts, "lovely 1"]
        assert [row["camvo_label"] == "Sad" for row in rows] == ["gloomy" in row["text"] for row in rows]
        assert folder.server.count() == 2 * len(texts)
        paid = [row["camvo_cost_usd"] for row in rows]
        assert paid[-1] == 0.0
        assert sum(paid) == pytest.approx(2 * len(texts) * (10 * 1.0 + 2 * 2.0) / 1e6)
        assert (counts.rows, counts.left) == (121, 0)


def test_parts_are_labelled_in_a_random_order_that_is_the_same_in_every_run(tmp_path: Path) -> None:
    orders = []

    def engine(work: _Work, parts: Sequence[Part], console: Console) -> Iterator[_PartOutcome]:
        orders.append([part.number for part in parts])
        return (_PartOutcome(part.number) for part in parts)

    with LabelFolder(tmp_path, moods) as folder:
        folder.table(*(f"lovely {number}" for number in range(1000)))
        label_parts(folder, engine, yes=True)
        label_parts(folder, engine, yes=True)
    assert orders[0] == orders[1]
    assert sorted(orders[0]) == list(range(10)) != orders[0]


def test_parts_in_a_bucket_are_those_in_a_folder_and_a_run_again_replaces_them(tmp_path: Path) -> None:
    address = "s3://bucket/labels/"
    with LabelFolder(tmp_path, moods, concurrency=8) as folder, ObjectStore() as store:
        folder.table(*(f"lovely {number}" for number in range(102)))
        label_parts(folder)
        label_parts(folder, out=address)
        local = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
        assert len(local) == 2
        assert store.objects() == local
        folder.table(*(f"lovely {number}" for number in range(90)))
        label_parts(folder, out=address)
        assert list(store.objects()) == ["part-00000.parquet"]
        first = store.objects()
        label_parts(folder, out=address)
        assert store.objects() == first
        assert folder.server.count() == 204


def test_a_bucket_that_is_missing_or_refuses_is_named_before_anything_is_spent(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, moods) as folder, ObjectStore() as store:
        folder.table("lovely")
        with pytest.raises(DatasetError, match="no such bucket"):
            label_parts(folder, out="s3://missing/labels")
        store.refuses = lambda method, query: method == "PUT"
        with pytest.raises(DatasetError, match="refuses these credentials"):
            label_parts(folder, out="s3://bucket/labels")
        assert folder.server.count() == 0


def test_a_part_that_cannot_be_sent_is_named_and_the_same_command_sends_it_for_nothing(
    tmp_path: Path,
) -> None:
    with LabelFolder(tmp_path, moods) as folder, ObjectStore() as store:
        folder.table("lovely", "gloomy")

        def refused(work: _Work, parts: Sequence[Part], console: Console) -> Iterator[_PartOutcome]:
            store.refuses = lambda method, query: method == "PUT"
            yield from label_here(work, parts, console)

        counts, errors, _ = label_parts(folder, refused, out="s3://bucket/labels")
        assert [error.code for error in errors] == ["dataset_invalid"]
        assert (counts.labelled, counts.left) == (2, 0)
        assert store.objects() == {}
        store.refuses = lambda method, query: False
        label_parts(folder, out="s3://bucket/labels")
        assert list(store.objects()) == ["part-00000.parquet"]
        assert folder.server.count() == 4


def test_actors_are_sent_the_credentials_of_a_bucket_and_not_those_that_nothing_needs(tmp_path: Path) -> None:
    sent = []

    def keys(work: _Work, parts: Sequence[Part], console: Console) -> Iterator[_PartOutcome]:
        sent.append(work.keys())
        return iter(())

    with LabelFolder(tmp_path, moods) as folder, ObjectStore():
        folder.table("lovely")
        label_parts(folder, keys)
        label_parts(folder, keys, out="s3://bucket/labels")
    without, bucket = sent
    assert set(without) == {"OPENAI_API_KEY"}
    assert set(bucket) - set(without) == {
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_REGION",
        "AWS_ENDPOINT_URL",
    }


def test_a_part_that_fails_ends_no_other_and_the_same_command_goes_on(tmp_path: Path) -> None:
    texts = [f"lovely {number}" for number in range(250)]

    def broken(work: _Work, parts: Sequence[Part], console: Console) -> Iterator[_PartOutcome]:
        yield _PartOutcome(parts[0].number, code="internal", error="MemoryError")
        yield from label_here(work, parts[1:], console)

    with LabelFolder(tmp_path, moods, concurrency=8) as folder:
        folder.table(*texts)
        counts, errors, _ = label_parts(folder, broken)
        assert [error.part for error in errors] == [0]
        assert counts.labelled == 150
        said = folder.console.file.getvalue()  # type: ignore[attr-defined]
        assert "150 of 250 tasks labelled now and 0 before (250 rows)" in said
        assert "100 tasks were not reached" in said
        counts, errors, _ = label_parts(folder)
        assert (counts.labelled, counts.labelled_before, errors) == (100, 150, [])
        assert folder.server.count() == 2 * len(texts)


def test_an_error_amid_a_part_names_the_part_its_kind_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Labelling.run

    def broken(self: Labelling, jobs: Any) -> Iterator[Any]:
        for job in run(self, jobs):
            yield job
            if folder.server.count() == 2 * 7:
                raise ZeroDivisionError("lovely 5")

    monkeypatch.setattr(Labelling, "run", broken)
    with LabelFolder(tmp_path, moods) as folder:
        folder.table(*(f"lovely {number}" for number in range(20)))
        options = LabelOptions(**PLAIN, yes=True)

        def label() -> Ending:
            return label_in_parts(tmp_path / "in.csv", str(tmp_path / "out"), options, config, "asyncio")

        config = tmp_path / "camvo.yaml"
        assert label() is Ending.TASKS_LEFT
        said = capsys.readouterr().out
        assert "part 0 is not written: ZeroDivisionError (run the same command again" in said
        assert "7 of 20 tasks labelled now" in said
        assert label() is Ending.DONE
        assert folder.server.count() == 2 * 20


def test_an_interrupted_run_says_what_it_waits_for_what_is_kept_and_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Labelling.run

    def interrupted(self: Labelling, jobs: Any) -> Iterator[Any]:
        for job in run(self, jobs):
            yield job
            if folder.server.count() >= 2 * 130:
                raise KeyboardInterrupt

    monkeypatch.setattr(Labelling, "run", interrupted)
    with LabelFolder(tmp_path, moods) as folder:
        folder.table(*(f"lovely {number}" for number in range(250)))
        with pytest.raises(KeyboardInterrupt):
            label_parts(folder, yes=True)
        said = folder.console.file.getvalue()  # type: ignore[attr-defined]
        assert "stopping when the calls of" in said
        assert re.search(r"13\d of 250 tasks labelled now and 0 before .* has cost \$0\.0036\n", said)
        assert re.search(r"\n1[12]\d tasks were not reached .*: the same command continues with them\n", said)


def test_a_row_that_breaks_a_process_is_a_failed_task_and_the_part_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    annotate = Annotator.annotate

    async def poisoned(self: Annotator, job: Any, **options: Any) -> Any:
        if "poison" in job.data["text"]:
            raise RuntimeError
        return await annotate(self, job, **options)

    monkeypatch.setattr(Annotator, "annotate", poisoned)
    with LabelFolder(tmp_path, moods) as folder:
        folder.table("lovely", "poison", "gloomy")
        counts, errors, _ = label_parts(folder)
        assert (counts.failed, errors) == ({"internal": 1}, [])
        assert [row["camvo_label"] or "none" for row in rows_of(tmp_path / "out")] == ["Glad", "none", "Sad"]


def test_a_blank_text_that_was_filled_in_is_missing_no_more(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, moods) as folder:
        folder.write("in.csv", "number,text\n1,\n2,lovely\n")
        assert label_parts(folder)[2].ending is Ending.TASKS_LEFT
        folder.write("in.csv", "number,text\n1,lovely as well\n2,lovely\n")
        assert label_parts(folder)[2].ending is Ending.DONE


def test_a_file_is_refused_as_the_folder_of_the_parts(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, moods) as folder:
        folder.table("lovely")
        with pytest.raises(ConfigError, match="is no folder"):
            _run_parts(
                tmp_path / "in.csv",
                parts_folder(str(tmp_path / "out.csv")),
                LabelOptions(**PLAIN),
                folder.environment,
                folder.console,
                label_here,
            )


@pytest.mark.parametrize(
    ("options", "where"),
    [
        (["--shard", "5/4"], "--shard"),
        (["--shard", "1/4", "--blind", "10"], "--blind"),
        (["--engine", "ray", "--blind", "10"], "--blind"),
        (["--engine", "asyncio", "--shard", "1/4"], "--shard"),
        (["--engine", "ray", "--batch"], "--batch"),
        (["--out", "s3://bucket/labels/"], "add --engine"),
        (["--engine", "asyncio", "--out", "ftp://bucket/labels/"], "no object store"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    tmp_path: Path, options: list[str], where: str
) -> None:
    plain = ["label", "in.csv", "--labels", "A,B", "--text-column", "text", "--out", "out"]
    refused = called(*plain, *options, cwd=tmp_path)
    assert refused.returncode == 2
    assert where in refused.stdout + refused.stderr


def test_models_that_are_asked_in_batches_are_refused_with_an_engine_before_anything_is_spent(
    tmp_path: Path,
) -> None:
    with LabelFolder(tmp_path, moods, of_models={"batch": True, "batch_discount": 0.5}) as folder:
        folder.table("lovely")
        with pytest.raises(ConfigError, match="red, green would be asked in batches"):
            label_parts(folder)
        assert not folder.server.count()


def test_what_is_to_come_is_not_told_from_tasks_that_are_under_way(tmp_path: Path) -> None:
    with closing(Ledger(migrated.sqlite(tmp_path / "ledger.sqlite"))) as ledger:
        spending = Spending(ledger, "reviews")
        assert "to come" not in spending.outlook(3, 900)
        assert "to come" in spending.outlook(50, 900)
        assert "to come" in spending.outlook(8, 4)
