"""Types that several rooms of the algorithm share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
"""A float64 array. The docstring of each function that takes or returns one gives its shape."""

Votes: TypeAlias = Mapping[str, Mapping[str, str]]
"""The votes so far: arm → question → vote.

An arm that has not been asked is absent. An arm that was asked and failed maps to the questions that it did
answer, possibly none.
"""
