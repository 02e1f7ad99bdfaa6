"""A provider that keeps books: every call is one purchase, and the answer carries the purchase's number."""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import threading
import time
from collections.abc import Callable
from typing import Any

from ledger_audit import Books
from scripted_litellm import label_of

from backend.testing import OpenAIServer, Reply


class Provider(OpenAIServer):
    """An OpenAI server whose models answer by the prompt alone, after a random time.

    Attributes:
        books: what was sold, and to which buyer.
        buyer: the number of the server process that buys at present.
        held: the number of answers held back so far.
        instead: a script to use instead while it is set; these calls are not in the books.
        longest: seconds that an answer takes, at most.
    """

    def __init__(self, seed: int = 0, longest: float = 0.1) -> None:
        super().__init__(self._sell)
        self.books, self.buyer, self.longest = Books(), 0, longest
        self.held = 0
        self.instead: Callable[[dict[str, Any]], Reply] | None = None
        self._released: threading.Event | None = None
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._random = random.Random(seed)  # noqa: S311 - a repeatable run

    def hold(self) -> None:
        """Hold back the answers to calls that come from now on."""
        self._released = threading.Event()

    def release(self) -> None:
        """Send the answers held back, and hold back no more."""
        released, self._released = self._released, None
        if released is not None:
            released.set()

    def _sell(self, body: dict[str, Any]) -> Reply:
        if self.instead is not None:
            return self.instead(body)
        model, prompt = body["model"], prompt_hash(body)
        number = str(next(self._numbers))
        self.books.buy(number, model, prompt, self.buyer)
        reply = Reply.says({"mood": label_of(model, prompt), "purchase": number})
        if (released := self._released) is not None:
            with self._lock:
                self.held += 1
            return reply.held_until(released)
        time.sleep(self._random.uniform(0.0, self.longest))
        return reply


def prompt_hash(body: dict[str, Any]) -> str:
    """A hash of the prompt, for the books."""
    return hashlib.sha256(json.dumps(body["messages"], sort_keys=True).encode()).hexdigest()
