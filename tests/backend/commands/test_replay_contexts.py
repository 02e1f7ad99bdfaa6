from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backend.commands.replay import inputs
from backend.commands.replay.inputs import VotesFile
from backend.commands.replay.table import _with_categories
from backend.errors import ReplayError
from backend.models.embedder import Embedder

TEXTS = ("the first text", "another text", "the first text")


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return Embedder(local_files_only=True)


def table(folder: Path, *texts: str) -> VotesFile:
    path = folder / "votes.csv"
    path.write_text("text,m\n" + "".join(f"{text},yes\n" for text in texts), "utf-8")
    return inputs.VotesFile.read(path)


def refusal(folder: Path, array: Any) -> str:
    if isinstance(array, bytes):
        (folder / "e.npy").write_bytes(array)
    else:
        np.save(folder / "e.npy", array)
    with pytest.raises(ReplayError) as caught:
        inputs.read_embeddings(folder / "e.npy", table(folder, *TEXTS))
    return str(caught.value).replace(f"{folder}/", "")


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_embeddings_are_read_as_float64(dtype: str, tmp_path: Path) -> None:
    embeddings = np.linspace(0.0, 1.0, 12).reshape(3, 4).astype(dtype)
    np.save(tmp_path / "e.npy", embeddings)
    loaded = inputs.read_embeddings(tmp_path / "e.npy", table(tmp_path, *TEXTS))
    assert loaded.dtype == np.float64
    assert np.array_equal(loaded, embeddings)


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.ones((2, 4)), "e.npy: (2, 4) does not fit the 3 items of votes.csv: needs (3, d)"),
        (np.ones(3), "e.npy: (3,) does not fit the 3 items of votes.csv: needs (3, d)"),
        (np.ones((3, 0)), "e.npy: (3, 0) does not fit the 3 items of votes.csv: needs (3, d)"),
        (np.ones((3, 4), dtype=int), "e.npy: int64 is not a type of embeddings: needs floats"),
        (b"text", "e.npy: is not an array in NumPy's .npy format"),
        (b"", "e.npy: is not an array in NumPy's .npy format"),
    ],
)
def test_an_array_that_does_not_fit_is_refused(array: Any, said: str, tmp_path: Path) -> None:
    assert refusal(tmp_path, array) == said


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_an_embedding_that_is_not_finite_is_refused_with_its_row_and_line(
    value: float, tmp_path: Path
) -> None:
    array = np.ones((3, 4))
    array[1, 2] = value
    said = "e.npy: row 1 (of 0 to 2; line 3 of votes.csv) holds NaN or infinity"
    assert refusal(tmp_path, array) == said


def test_several_arrays_in_one_file_are_refused(tmp_path: Path) -> None:
    stream = io.BytesIO()
    np.savez(stream, np.ones((3, 4)))
    assert refusal(tmp_path, stream.getvalue()) == (
        "e.npy: a file of several arrays does not fit the 3 items of votes.csv: needs (3, d)"
    )


def test_texts_are_embedded_once_and_then_read(tmp_path: Path, embedder: Embedder) -> None:
    file, done = table(tmp_path, *TEXTS), []
    first = inputs.embed_texts(file, embedder, done.append)
    assert np.array_equal(first, embedder.embed(TEXTS))
    assert done == [3]
    other = Embedder(local_files_only=True)
    assert np.array_equal(inputs.embed_texts(file, other, done.append), first)
    assert done == [3]
    assert not other.loaded
    assert len(list(tmp_path.glob("votes.*.npy"))) == 1


def test_other_texts_are_embedded_anew(tmp_path: Path, embedder: Embedder) -> None:
    for text in ("one", "two"):
        inputs.embed_texts(table(tmp_path, text), embedder, print)
    assert len(list(tmp_path.glob("votes.*.npy"))) == 2


def test_a_table_without_texts_needs_embeddings(tmp_path: Path, embedder: Embedder) -> None:
    (tmp_path / "votes.csv").write_text("m\nyes\n")
    with pytest.raises(ReplayError, match="no column 'text' to embed"):
        inputs.embed_texts(inputs.VotesFile.read(tmp_path / "votes.csv"), embedder, print)


def test_a_blank_text_is_refused_with_its_line(tmp_path: Path, embedder: Embedder) -> None:
    with pytest.raises(ReplayError, match=r"votes\.csv, line 3: a blank text cannot be embedded"):
        inputs.embed_texts(table(tmp_path, "one", " "), embedder, print)


def with_languages(
    folder: Path, head: str = "text,language,m", rows: str = "a,de,yes\nb,,no\nc,en,no\n"
) -> Path:
    path = folder / "votes.csv"
    path.write_text(f"{head}\n{rows}", "utf-8")
    return path


def test_the_column_of_the_context_is_no_model(tmp_path: Path) -> None:
    file = inputs.VotesFile.read(with_languages(tmp_path), category="language")
    assert (file.models, file.labels, file.categories) == (("m",), ("no", "yes"), ("de", "", "en"))


@pytest.mark.parametrize("column", ["tongue", "text", "conf_m"])
def test_a_context_that_is_no_column_of_categories_is_refused(column: str, tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match="is no column of categories"):
        inputs.VotesFile.read(with_languages(tmp_path), category=column)


def test_items_of_one_category_are_nearer_to_each_other() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(3, 384))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    first, second, third = _with_categories(vectors, ["de", "de", "en"])
    assert first @ second > first @ third + 0.3


def test_categories_alone_are_contexts_of_a_table_without_texts() -> None:
    found = _with_categories(None, ["de", "en", "de", ""])
    assert found.shape == (4, 384)
    assert np.array_equal(found[0], found[2])
    assert not found[3].any()
