"""Shards: a dataset in parts that hosts label at the same time.

A task belongs to one shard by its number, which is a hash of its content. So the shards of a dataset need no
agreement among hosts, rows of equal content are never apart, and the order of the rows changes nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from backend.errors import ConfigError

_TEXT = re.compile(r"(\d{1,6})/(\d{1,6})")


@dataclass(frozen=True, slots=True)
class Shard:
    """One part of a dataset.

    Attributes:
        number: which part, from 1.
        of: how many parts there are.

    >>> Shard(3, 16).holds(18)
    True
    """

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read a shard such as ``3/16``.

        Raises:
            ConfigError: it is none.
        """
        match = _TEXT.fullmatch(text.strip())
        number, of = map(int, match.groups()) if match else (0, 0)
        if not 1 <= number <= of:
            raise ConfigError(f"{text!r} is no shard", where="--shard", fix="write 3/16 for the third of 16")
        return cls(number, of)

    @property
    def name(self) -> str:
        """Its name in a file, such as ``part-03-of-16``."""
        return f"part-{self.number:0{len(str(self.of))}d}-of-{self.of}"

    def holds(self, task: int) -> bool:
        """Whether a task of this number is in the shard."""
        return task % self.of == self.number - 1


WHOLE = Shard(1, 1)
"""The only shard of a dataset that is not divided."""
