"""Types that several packages of the algorithm share."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
"""A float64 array. The docstring of each function that takes or returns one gives its shape."""

Votes: TypeAlias = Mapping[str, Mapping[str, str]]
"""The votes so far: arm → question → vote.

An arm that has not been asked is absent. An arm that was asked and failed maps to the questions that it did
answer, possibly none.
"""

Confidences: TypeAlias = Mapping[str, Mapping[str, float]]
"""How sure the arms say they are of their votes: arm → question → confidence in [0, 1].

An arm or a question that is absent gave none. The numbers need not be calibrated: what they are worth is
learnt for each arm (:mod:`camvo.joint.grades`).
"""

NO_CONFIDENCES: Final[Confidences] = MappingProxyType({})
"""The confidences of arms that give none."""
