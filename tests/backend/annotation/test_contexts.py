"""Texts are embedded only where something reads their contexts."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from labelling import PLAIN, LabelFolder, always
from scripted_litellm import HashedTexts
from sqlalchemy import select

from backend.ledger import rounds
from backend.ledger.database import tables
from backend.ledger.database.packing import pack_context, unpack_context
from camvo.numerics.small import is_known, unknown_context
from camvo.typing import Array

TEXTS = [f"text {number}" for number in range(60)]
MUST_EXPLORE = 36
"""So many rounds of the default policy ask everyone."""


class Counted(HashedTexts):
    def __init__(self) -> None:
        self.texts: list[str] = []

    async def vector(self, text: str, *, soon: bool = True) -> Array:
        self.texts.append(text)
        return await super().vector(text, soon=soon)


def labelled(folder: Path, policy: dict[str, Any], **settings: Any) -> tuple[Counted, list[Array]]:
    """Label the texts; return what was embedded, and the contexts of the rounds."""
    embedder = Counted()
    with (
        patch("labelling.HashedTexts", lambda: embedder),
        LabelFolder(folder, always("Glad"), policy=policy, **settings) as run,
    ):
        run.write("in.csv", "text\n" + "\n".join(TEXTS) + "\n")
        run.label("in.csv", **PLAIN)
        with run.ledger.read() as connection:
            ids = connection.scalars(select(tables.rounds.c.id).order_by(tables.rounds.c.id)).all()
            return embedder, rounds.contexts(connection, ids)


@pytest.fixture(scope="module")
def by_default(tmp_path_factory: pytest.TempPathFactory) -> tuple[Counted, list[Array]]:
    return labelled(tmp_path_factory.mktemp("default"), {"name": "joint"})


def test_the_default_policy_embeds_only_the_texts_of_rounds_that_ask_everyone(
    by_default: tuple[Counted, list[Array]],
) -> None:
    embedder, contexts = by_default
    assert len(embedder.texts) == sum(map(is_known, contexts))
    assert MUST_EXPLORE <= len(embedder.texts) < len(TEXTS)


def test_a_round_that_explores_holds_its_context(by_default: tuple[Counted, list[Array]]) -> None:
    _, contexts = by_default
    assert all(map(is_known, contexts[:MUST_EXPLORE]))


def test_a_policy_that_reads_contexts_has_every_text_embedded(tmp_path: Path) -> None:
    embedder, contexts = labelled(tmp_path, {"name": "camvo", "k_min": 2})
    assert len(embedder.texts) == len(TEXTS)
    assert all(map(is_known, contexts))


def test_few_shot_has_every_text_embedded(tmp_path: Path) -> None:
    embedder, _ = labelled(tmp_path, {"name": "joint"}, few_shot=2)
    assert len(set(embedder.texts)) == len(TEXTS)


def test_an_unknown_context_takes_a_few_bytes_and_keeps_its_length() -> None:
    packed = pack_context(unknown_context(384))
    assert len(packed) < 10
    np.testing.assert_array_equal(unpack_context(packed), np.zeros(384))
