"""Requests: the lines of a provider's batch, each about one task or, of a packed arm, about several."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from backend.ledger.batches.lines import BatchLine
from backend.models import Pool
from backend.models.packing.pack import MOST_TOKENS, Pack, own_tokens
from backend.questions.prompts.packs import PackedTask


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """One request.

    Attributes:
        lines: the ledger's lines that it answers. The first has the ceiling, tokens and bytes of the request.
        shares: the tasks of a request about several, each with its share of the cost; together 1.
    """

    lines: Sequence[BatchLine]
    shares: Mapping[int, float]

    @property
    def lead(self) -> BatchLine:
        """The first line."""
        return self.lines[0]


@dataclass(frozen=True, slots=True)
class _PackedLine:
    """A line of a packed arm, and its task as it stands in the prompt."""

    line: BatchLine
    task: PackedTask

    @property
    def key(self) -> str:
        return self.line.key


class Requests:
    """Makes requests of lines.

    Args:
        pool: the models.
        rng: draws the ids of tasks in a prompt.
    """

    def __init__(self, pool: Pool, rng: random.Random | None = None) -> None:
        self._pool, self._rng = pool, rng or random.SystemRandom()

    def pack_size(self, arm: str) -> int:
        """The most lines of a request."""
        return self._pool.pack_size(arm)

    def bundle(self, lines: Sequence[BatchLine], most: int | None = None) -> list[BatchRequest]:
        """Put lines of one arm into requests.

        Lines share a request if their arm is packed, and they ask the same questions with the same
        instructions. Lines whose texts leave no ids for a prompt are left out.

        Args:
            lines: the lines, with their bodies.
            most: the most lines of a request; ``None`` for as many as the arm takes.
        """
        if not lines or self.pack_size(lines[0].model) == 1:
            return [BatchRequest([line], {}) for line in lines]
        groups = _grouped(lines, most or self.pack_size(lines[0].model))
        requests = (self._packed(group) for group in groups)
        return [request for request in requests if request is not None]

    def body(self, lines: Sequence[BatchLine]) -> Mapping[str, Any] | None:
        """The body of a request that a job has taken; ``None`` if all its tasks were deleted."""
        left = [line for line in lines if line.body is not None]
        if not left or left[0].number is None:
            return left[0].body if left else None
        packed = {str(line.number): _PackedLine(line, PackedTask.from_json(line.body or {})) for line in left}
        return self._body(left[0].model, Pack(dict(sorted(packed.items()))))

    def split(self, lines: Sequence[BatchLine], content: str) -> dict[str, str]:
        """Key → the answer to each line of a request; empty if it is missing or unreadable."""
        if lines[0].number is None:
            return {lines[0].key: content}
        forms = {line.key: PackedTask("", {}, {name: {} for name in line.questions}) for line in lines}
        return Pack({str(line.number): _PackedLine(line, forms[line.key]) for line in lines}).split(content)

    def _packed(self, group: Sequence[_PackedLine]) -> BatchRequest | None:
        if (pack := Pack.drawn(group, self._rng)) is None:
            return None
        arm, messages, schema = group[0].line.model, pack.messages, pack.schema
        numbers = list(pack.members)
        first, *others = [
            replace(
                pack.members[number].line,
                request=pack.members[numbers[0]].key,
                number=number,
                ceiling_usd=0.0,
                counted_tokens=0,
                most_input=0,
                size=0,
            )
            for number in numbers
        ]
        lead = replace(
            first,
            ceiling_usd=self._pool.batch_ceiling(arm, messages, schema, tasks=len(numbers)),
            counted_tokens=self._pool.count(arm, messages),
            most_input=self._pool.most_input(arm, messages, schema),
            size=self._pool.batch_provider(arm).size(self._body(arm, pack)),
        )
        shares = pack.shares
        return BatchRequest([lead, *others], {line.task: shares[line.key] for line in (lead, *others)})

    def _body(self, arm: str, pack: Pack[_PackedLine]) -> dict[str, Any]:
        tasks = len(pack.members)
        request = self._pool.request(arm, pack.messages, pack.schema, tasks=tasks)
        return self._pool.batch_provider(arm).body(request)


def _grouped(lines: Sequence[BatchLine], most: int) -> list[list[_PackedLine]]:
    """Lines that may share a prompt, in groups that are not too large."""
    full: list[list[_PackedLine]] = []
    open_: dict[str, tuple[list[_PackedLine], int]] = {}
    for line in lines:
        packed = _PackedLine(line, PackedTask.from_json(line.body or {}))
        group, tokens = open_.get(packed.task.system, ([], 0))
        own = own_tokens(packed.task)
        if group and (len(group) == most or tokens + own > MOST_TOKENS):
            full.append(group)
            group, tokens = [], 0
        open_[packed.task.system] = ([*group, packed], tokens + own)
    return [*full, *(group for group, _ in open_.values())]
