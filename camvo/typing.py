"""The types that several modules of the algorithm share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
"""A float64 array; its shape is in the docstring of whoever takes or returns it."""

Votes: TypeAlias = Mapping[str, Mapping[str, str]]
"""The answers so far: arm → question → label. An arm that was asked and failed maps to what it did answer,
which may be nothing; an arm that is absent was not asked."""
