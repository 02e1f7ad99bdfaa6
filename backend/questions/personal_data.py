"""A redactor for data with a fixed form: addresses, numbers and accounts, but no names.

``redact: backend.questions.personal_data:redact`` in ``camvo.yaml`` uses it; it needs the extra
``camvo[redact]``. A pattern proposes, and a check decides where there is one: telephone numbers are parsed by
``phonenumbers``, account and card numbers must have the right check digits (``stdnum``), and addresses of
machines must be valid (``ipaddress``). ``docs/redaction.md`` says what it finds and what it misses.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import phonenumbers
from stdnum import iban, luhn

from backend.settings.settings import Edit

_MAIL = re.compile(r"[^\s@<>()\[\],;:\"']{1,64}@(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.)+[^\W\d_]{2,63}")
_URL = re.compile(r"(?:https?|ftp)://[^\s<>\"']+|www\.[^\s<>\"']+", re.IGNORECASE)
_URL_END = ".,;:!?)]}»”’"
_IBAN = re.compile(r"\b[A-Z]{2}[0-9]{2}(?:[ -]?[A-Z0-9]{4}){2,7}(?:[ -]?[A-Z0-9]{1,3})?\b", re.IGNORECASE)
_CARD = re.compile(r"(?<![\w.-])[0-9](?:[ -]?[0-9]){12,18}(?![\w-])")
_IP4 = re.compile(r"(?<![\w.])[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?![\w]|\.[0-9])")
_IP6 = re.compile(
    r"(?<![\w:])[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7}(?:(?<=:)[0-9]{1,3}(?:\.[0-9]{1,3}){3})?(?![\w:])", re.I
)
_DIGITS = re.compile(r"\d(?:\D{0,3}\d){5}")
"""Fewer than six digits are no telephone number."""
_DIGIT_RUN = re.compile(r"\d(?:[^\w\n,;]{0,4}\d){5,}")
_MOST_TRIES = 300
"""Strings that are parsed for each country. Ten thousand take a second, and a text of 50 kB may have more."""

_COUNTRIES = ("GB", "US", "DE", "FR", "ES", "IT", "NL", "PL", "CH", "IN", "AU")
"""Countries whose numbers are found without the leading ``+`` and country code."""

_KINDS = ("URL", "EMAIL", "IBAN", "CARD", "IP", "PHONE")
"""The kinds of data, the surest first."""


class _Part(NamedTuple):
    """A part of a text to replace."""

    start: int
    end: int
    kind: str


def _redact(text: str) -> list[Edit]:
    """Return the parts of a text to replace, each with the name of its kind in angle brackets.

    Parts that overlap are replaced together, under the name of the surest kind.
    """
    merged: list[_Part] = []
    for part in sorted(_parts(text)):
        if merged and part.start < merged[-1].end:
            merged.append(_joined(merged.pop(), part))
        else:
            merged.append(part)
    return [(part.start, part.end, f"<{part.kind}>") for part in merged]


_redact.version = "2"  # type: ignore[attr-defined]  # part of the epoch: raise it when other parts are replaced


def _joined(first: _Part, second: _Part) -> _Part:
    surest = min(first, second, key=lambda part: _KINDS.index(part.kind))
    return _Part(first.start, max(first.end, second.end), surest.kind)


def _parts(text: str) -> Iterator[_Part]:
    for match in _URL.finditer(text):
        yield _Part(match.start(), match.start() + len(match[0].rstrip(_URL_END)), "URL")
    for match in _MAIL.finditer(text):
        yield _Part(match.start(), match.end(), "EMAIL")
    for match in _IBAN.finditer(text):
        if (end := _account_end(match)) is not None:
            yield _Part(match.start(), end, "IBAN")
    for match in _CARD.finditer(text):
        if luhn.is_valid(re.sub(r"\D", "", match[0])):
            yield _Part(match.start(), match.end(), "CARD")
    for pattern in (_IP4, _IP6):
        for match in pattern.finditer(text):
            if _is_address(match[0]):
                yield _Part(match.start(), match.end(), "IP")
    if _DIGITS.search(text):  # most texts have none, and trying all countries is slow
        yield from _telephones(text)


def _telephones(text: str) -> Iterator[_Part]:
    """The telephone numbers; in a text with too many strings that might be some, all strings of digits."""
    for country in _COUNTRIES:
        matcher = phonenumbers.PhoneNumberMatcher(text, country, max_tries=_MOST_TRIES)
        numbers = list(islice(matcher, _MOST_TRIES))
        yield from (_Part(number.start, number.end, "PHONE") for number in numbers)
        if len(numbers) == _MOST_TRIES or matcher._max_tries <= 0:
            yield from (_Part(*run.span(), "PHONE") for run in _DIGIT_RUN.finditer(text))
            return


def _account_end(match: re.Match[str]) -> int | None:
    """Return where the account number ends: the pattern may include the word after it."""
    written = match[0]
    for length in range(len(written), 14, -1):
        if (length == len(written) or not written[length].isalnum()) and iban.is_valid(written[:length]):
            return match.start() + length
    return None


def _is_address(written: str) -> bool:
    try:
        ipaddress.ip_address(written)
    except ValueError:
        return False
    return any(character.isdigit() for character in written)  # a::b is code more often than an address
