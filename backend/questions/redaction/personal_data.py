"""A redactor for data with a fixed form: addresses, numbers and accounts, but no names.

``redact: backend.questions.redaction.personal_data:redact`` in ``camvo.yaml`` uses it; it needs the extra
``camvo[redact]``. A pattern proposes, and a check decides where there is one: telephone numbers are parsed by
``phonenumbers``, account and card numbers must have the right check digits (``stdnum``), and addresses of
machines must be valid (``ipaddress``). ``docs/redaction.md`` says what it finds and what it misses.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

import phonenumbers
from stdnum import iban, luhn

from backend.settings.redaction import Edit

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

_COUNTRIES = ("GB", "US", "DE", "FR", "ES", "IT", "NL", "PL", "CH", "IN", "AU")
"""Countries whose numbers are found without the leading ``+`` and country code."""


def redact(text: str) -> list[Edit]:
    """Return the parts of a text to replace, each with the name of its kind in angle brackets."""
    chosen: list[Edit] = []
    for start, end, kind in _candidates(text):
        if all(end <= taken_start or start >= taken_end for taken_start, taken_end, _ in chosen):
            chosen.append((start, end, f"<{kind}>"))
    return sorted(chosen)


redact.version = "1"  # type: ignore[attr-defined]  # part of the epoch: raise it when other parts are replaced


def _candidates(text: str) -> Iterator[tuple[int, int, str]]:
    """Return what may be replaced, the surest kinds first."""
    for match in _URL.finditer(text):
        yield match.start(), match.start() + len(match[0].rstrip(_URL_END)), "URL"
    for match in _MAIL.finditer(text):
        yield match.start(), match.end(), "EMAIL"
    for match in _IBAN.finditer(text):
        if (end := _account_end(match)) is not None:
            yield match.start(), end, "IBAN"
    for match in _CARD.finditer(text):
        if luhn.is_valid(re.sub(r"\D", "", match[0])):
            yield match.start(), match.end(), "CARD"
    for pattern in (_IP4, _IP6):
        for match in pattern.finditer(text):
            if _is_address(match[0]):
                yield match.start(), match.end(), "IP"
    if _DIGITS.search(text):  # most texts have none, and trying all countries is slow
        for country in _COUNTRIES:
            for number in phonenumbers.PhoneNumberMatcher(text, country):
                yield number.start, number.end, "PHONE"


def _account_end(match: re.Match[str]) -> int | None:
    """Return where the account number ends: the pattern may have taken in the word after it."""
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
