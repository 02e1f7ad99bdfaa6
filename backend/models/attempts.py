"""Attempts at one prompt: an unusable answer is stored too, and the prompt is asked again, twice at most.

A provider that answers with garbage for an hour must not leave tasks blank for good, and a model that can not
answer a prompt must not be paid for it again and again.
"""

from __future__ import annotations

import hashlib

KEY_LENGTH = 32
"""Hexadecimal digits of a key."""

ATTEMPTS = 3
"""The most answers of one model to one prompt."""


def attempt_key(fingerprint: str, attempt: int) -> str:
    """Return the key under which the answer of one attempt is stored: 128 bits, as a ledger holds many.

    Args:
        fingerprint: of the request; the key of its first attempt begins it.
        attempt: 0 for the first.
    """
    if attempt:
        fingerprint = hashlib.sha256(f"{fingerprint}{attempt}".encode()).hexdigest()
    return fingerprint[:KEY_LENGTH]
