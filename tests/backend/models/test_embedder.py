from __future__ import annotations

import asyncio
import hashlib
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from backend.errors import EmbedderError
from backend.models.embedder import Embedder, _model_folder, _weights_digest

WEIGHTS = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
TEXTS = [f"The train was {n} minutes late." for n in range(40)] + ["", "Ein kurzer Satz.", "word " * 1000]


class CountingEmbedder(Embedder):
    """A real embedder that records each batch of the model and can hold one back."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[str]] = []
        self.computing, self.gate = threading.Event(), threading.Event()
        self.gate.set()

    def load(self) -> None:
        was_loaded = self.loaded
        super().load()
        if not was_loaded:
            compute = self._model.encode

            def counted(texts: list[str], **options: object) -> object:
                self.batches.append(list(texts))
                self.computing.set()
                assert self.gate.wait(30)
                return compute(texts, **options)

            self._model.encode = counted


@pytest.fixture(scope="module")
def embedder() -> Iterator[Embedder]:
    embedder = Embedder()
    yield embedder
    embedder.close()


@pytest.fixture
def counting() -> Iterator[CountingEmbedder]:
    embedder = CountingEmbedder()
    embedder.load()
    yield embedder
    embedder.gate.set()
    embedder.close()


def test_the_packaged_weights_are_the_published_ones() -> None:
    folder = _model_folder("all-MiniLM-L6-v2")
    assert folder is not None
    assert hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest() == WEIGHTS


def test_the_identity_is_the_name_and_the_digest_of_the_weights(embedder: Embedder) -> None:
    assert embedder.identity == f"all-MiniLM-L6-v2@{WEIGHTS[:12]}"


def test_the_same_weights_in_another_folder_have_the_same_digest(tmp_path: Path) -> None:
    folder = _model_folder("all-MiniLM-L6-v2")
    assert folder is not None
    (tmp_path / "model.safetensors").symlink_to(folder / "model.safetensors")
    assert _weights_digest(str(tmp_path)) == WEIGHTS


def test_a_changed_byte_of_the_weights_is_another_digest(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    before = _weights_digest(str(tmp_path))
    (tmp_path / "model.safetensors").write_bytes(b"Weights")
    assert _weights_digest(str(tmp_path)) != before


def test_making_an_embedder_loads_nothing() -> None:
    assert not Embedder().loaded


def test_vectors_are_exact_float32_values_in_float64(embedder: Embedder) -> None:
    rows = embedder.embed(TEXTS)
    assert rows.dtype == np.float64
    assert np.array_equal(rows, rows.astype(np.float32).astype(np.float64))


def test_vectors_are_finite_and_of_unit_length(embedder: Embedder) -> None:
    rows = embedder.embed(TEXTS)
    assert rows.shape == (len(TEXTS), embedder.dimension)
    assert np.isfinite(rows).all()
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-6)


def test_a_text_has_the_same_vector_alone_and_in_a_batch(embedder: Embedder) -> None:
    alone = Embedder(remembered=0)
    together = embedder.embed(TEXTS)
    for text, row in list(zip(TEXTS, together, strict=True))[::7]:
        np.testing.assert_allclose(alone.embed([text])[0], row, atol=1e-6)


def test_rows_come_in_the_order_of_the_texts_and_repeat_with_them(embedder: Embedder) -> None:
    first, second, third = embedder.embed(["cat", "train", "cat"])
    assert np.array_equal(first, third)
    assert not np.array_equal(first, second)


def test_no_texts_give_no_rows(embedder: Embedder) -> None:
    assert embedder.embed([]).shape == (0, 384)


def test_similar_texts_are_closer_than_unrelated_ones(embedder: Embedder) -> None:
    soup, stew, bond = embedder.embed(
        ["The soup was cold.", "My stew came lukewarm.", "Bond yields rose after the auction."]
    )
    assert soup @ stew > soup @ bond


def test_what_lies_beyond_the_window_does_not_count(embedder: Embedder) -> None:
    window = "word " * 300
    rows = embedder.embed([window + "The soup was cold.", window + "Bond yields rose."])
    np.testing.assert_allclose(rows[0], rows[1], atol=1e-6)


def test_a_lone_surrogate_does_not_cost_the_batch(embedder: Embedder) -> None:
    broken, fine = embedder.embed(["half a smile \ud83d", "a whole sentence"])
    assert np.isfinite(broken).all()
    np.testing.assert_allclose(fine, Embedder().embed(["a whole sentence"])[0], atol=1e-6)


def test_a_second_identical_text_is_a_look_up(counting: CountingEmbedder) -> None:
    counting.batches.clear()
    first = counting.embed(["twice", "once"])
    second = counting.embed(["twice"])
    assert [sorted(batch) for batch in counting.batches] == [["once", "twice"]]
    assert np.array_equal(first[0], second[0])


def test_the_oldest_texts_are_forgotten() -> None:
    small = Embedder(remembered=2)
    first = asyncio.run(small.vector("first"))
    assert asyncio.run(small.vector("first")) is first
    small.embed(["second", "third"])
    assert asyncio.run(small.vector("first")) is not first


def test_a_remembered_vector_cannot_be_written_to(embedder: Embedder) -> None:
    row = asyncio.run(embedder.vector("mine"))
    with pytest.raises(ValueError, match="read-only"):
        row[0] = 0.0


def test_concurrent_vectors_are_computed_in_batches_of_thirty_two(counting: CountingEmbedder) -> None:
    async def ask() -> list[np.ndarray]:
        return await asyncio.gather(*(counting.vector(text) for text in TEXTS[:40]))

    counting.batches.clear()
    rows = asyncio.run(ask())
    assert [len(batch) for batch in counting.batches] == [32, 8]
    np.testing.assert_allclose(np.stack(rows), Embedder().embed(TEXTS[:40]), atol=1e-6)


def test_texts_that_arrive_during_a_batch_share_the_next_one(counting: CountingEmbedder) -> None:
    async def ask() -> None:
        counting.gate.clear()
        early = asyncio.create_task(counting.vector("early"))
        await asyncio.to_thread(counting.computing.wait, 30)
        late = [asyncio.create_task(counting.vector(text)) for text in ("a", "b", "b", "c")]
        await asyncio.sleep(0)
        counting.gate.set()
        await asyncio.gather(early, *late)

    counting.batches.clear()
    counting.computing.clear()
    asyncio.run(ask())
    assert counting.batches == [["early"], ["a", "b", "c"]]


def test_a_caller_that_gives_up_does_not_take_the_vector_from_the_others(counting: CountingEmbedder) -> None:
    async def ask() -> np.ndarray:
        counting.gate.clear()
        impatient = asyncio.create_task(counting.vector("shared"))
        patient = asyncio.create_task(counting.vector("shared"))
        await asyncio.to_thread(counting.computing.wait, 30)
        impatient.cancel()
        await asyncio.wait([impatient])
        counting.gate.set()
        return await patient

    counting.computing.clear()
    assert asyncio.run(ask()).shape == (384,)


def test_the_loop_answers_others_while_the_model_computes(counting: CountingEmbedder) -> None:
    async def ask() -> bool:
        counting.gate.clear()
        task = asyncio.create_task(counting.vector("slow"))
        await asyncio.to_thread(counting.computing.wait, 30)
        looked_up = await counting.vector("known")
        still_computing = not task.done()
        counting.gate.set()
        await task
        return still_computing and looked_up.shape == (384,)

    counting.embed(["known"])
    counting.computing.clear()
    assert asyncio.run(ask())


def test_a_failed_batch_fails_for_those_who_wait_and_the_next_one_works(counting: CountingEmbedder) -> None:
    works = counting._model.encode

    def fails(texts: list[str], **options: object) -> object:
        raise RuntimeError(texts)

    async def ask() -> list[object]:
        both = (counting.vector("one secret text"), counting.vector("another"))
        return await asyncio.gather(*both, return_exceptions=True)

    counting._model.encode = fails
    errors = asyncio.run(ask())
    assert [type(error) for error in errors] == [EmbedderError, EmbedderError]
    assert "secret" not in str(errors[0])
    counting._model.encode = works
    assert asyncio.run(counting.vector("another")).shape == (384,)


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0])
def test_what_is_no_unit_vector_is_refused(counting: CountingEmbedder, value: float) -> None:
    counting._model.encode = lambda texts, **_: np.full((len(texts), 384), value, dtype=np.float32)
    with pytest.raises(EmbedderError, match="unit vector"):
        counting.embed(["some text"])


def test_a_closed_embedder_says_so() -> None:
    embedder = Embedder()
    embedder.close()
    with pytest.raises(EmbedderError, match="closed"):
        asyncio.run(embedder.vector("too late"))


def test_an_unknown_model_is_an_error_that_says_what_to_do() -> None:
    embedder = Embedder("nobody/has-this-model", local_files_only=True)
    with pytest.raises(EmbedderError) as caught:
        embedder.embed(["text"])
    assert "nobody/has-this-model" in str(caught.value)
    assert "folder" in str(caught.value)
    assert "camvo[demo]" in str(caught.value)
    assert not embedder.loaded


def test_a_folder_without_a_model_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EmbedderError):
        Embedder(str(tmp_path)).embed(["text"])


def test_a_folder_is_taken_as_it_is(embedder: Embedder) -> None:
    folder = _model_folder("all-MiniLM-L6-v2")
    from_folder = Embedder(str(folder))
    np.testing.assert_allclose(from_folder.embed(["text"]), embedder.embed(["text"]), atol=1e-6)
    assert from_folder.identity.endswith(WEIGHTS[:12])


OFFLINE = """
import socket
def refuse(*_): raise AssertionError("the network was asked")
socket.socket.connect = refuse
from backend.models.embedder import Embedder
print(Embedder().embed(["text"]).shape)
"""

HEAVY = """
import sys
import backend.models.embedder
print(sorted({"torch", "transformers", "sentence_transformers", "litellm"} & set(sys.modules)))
"""


def run(code: str) -> str:
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - our own code
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.e2e
def test_the_packaged_model_needs_no_network() -> None:
    assert run(OFFLINE) == "(1, 384)"


def test_importing_the_embedder_imports_nothing_heavy() -> None:
    assert run(HEAVY) == "[]"


@pytest.fixture
def batches(embedder: Embedder, monkeypatch: pytest.MonkeyPatch) -> queue.SimpleQueue[list[str]]:
    """The texts of each batch that is embedded."""
    batches: queue.SimpleQueue[list[str]] = queue.SimpleQueue()

    def encode(model: object, texts: list[str]) -> np.ndarray:
        batches.put(list(texts))
        return np.eye(len(texts), embedder.dimension)

    monkeypatch.setattr("backend.models.embedder._encode_texts", encode)
    return batches


def test_texts_that_are_expected_are_embedded_together_and_only_once(
    embedder: Embedder, batches: queue.SimpleQueue[list[str]]
) -> None:
    texts = [f"expected {number}" for number in range(40)]

    async def ask() -> None:
        embedder.expect(texts)
        await asyncio.gather(*(embedder.vector(text) for text in texts))
        embedder.expect(texts)

    asyncio.run(ask())
    assert [batches.get(), batches.get()] == [texts[:32], texts[32:]]
    assert batches.empty()


def test_a_text_that_is_not_needed_soon_shares_the_batch_of_the_next_one(
    embedder: Embedder, batches: queue.SimpleQueue[list[str]]
) -> None:
    async def ask() -> None:
        embedder.expect(["later"], soon=False)
        await asyncio.sleep(0)
        await embedder.vector("now")

    asyncio.run(ask())
    assert batches.get() == ["later", "now"]


def test_texts_for_which_nobody_hurries_wait_for_one_another(
    embedder: Embedder, batches: queue.SimpleQueue[list[str]]
) -> None:
    async def ask() -> None:
        first = asyncio.create_task(embedder.vector("first", soon=False))
        await asyncio.sleep(0)
        await embedder.vector("second", soon=False)
        await first

    asyncio.run(ask())
    assert batches.get() == ["first", "second"]


def test_a_whole_batch_waits_for_no_further_text(
    embedder: Embedder, batches: queue.SimpleQueue[list[str]]
) -> None:
    texts = [f"patient {number}" for number in range(32)]

    async def wait() -> None:
        embedder.expect(texts, soon=False)
        assert await asyncio.to_thread(batches.get, timeout=30.0) == texts

    asyncio.run(wait())
