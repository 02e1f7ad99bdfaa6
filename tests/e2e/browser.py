"""Headless Chromium, for what only a person would see: Debian's packages chromium and chromium-driver."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import pytest
from server_process import wait_until

_Answer = TypeVar("_Answer")

PATIENCE = 120.0
"""Seconds for a page: Label Studio's are megabytes of script."""

_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--window-size=1280,800",
)


class Browser:
    """One window with a profile of its own in ``folder``; a context manager. Pictures go to ``artefacts``."""

    def __init__(self, folder: Path, artefacts: Path) -> None:
        chromium, chromedriver = _program("chromium"), _program("chromedriver")
        try:
            from selenium import webdriver  # noqa: PLC0415 - plain pytest reads this file without the extra
        except ModuleNotFoundError:
            pytest.fail("selenium is missing: install the extra e2e", pytrace=False)
        options = webdriver.ChromeOptions()
        options.binary_location = chromium
        for flag in (*_FLAGS, f"--user-data-dir={folder / 'profile'}"):
            options.add_argument(flag)
        service = webdriver.ChromeService(chromedriver, log_output=os.fspath(folder / "chromedriver.log"))
        self._artefacts = artefacts
        self._driver = webdriver.Chrome(options, service)
        self._driver.set_page_load_timeout(PATIENCE)

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._driver.quit()

    @property
    def address(self) -> str:
        """Where the window is by now."""
        return str(self._driver.current_url)

    def visit(self, address: str) -> None:
        """Open an address."""
        self._driver.get(address)

    def text(self, css: str = "body") -> str:
        """The visible text of an element, as soon as there is one."""
        return self._of(css, lambda element: str(element.text))

    def attribute(self, css: str, name: str) -> str:
        """An attribute of an element, as soon as it has it."""
        return self._of(css, lambda element: str(element.get_attribute(name) or ""))

    def texts(self, css: str) -> list[str]:
        """The visible texts of all such elements that are there by now; none while they change."""
        return self._now(lambda: [str(found.text) for found in self._elements(css)]) or []

    def fill(self, css: str, text: str) -> None:
        """Type into a field, as soon as that is possible."""
        self._of(css, lambda element: element.send_keys(text) or True)

    def click(self, css: str) -> None:
        """Click on an element, as soon as that is possible."""
        self._of(css, lambda element: element.click() or True)

    def picture(self, name: str) -> None:
        """Keep what the window shows."""
        self._artefacts.mkdir(parents=True, exist_ok=True)
        self._driver.save_screenshot(os.fspath(self._artefacts / f"{name}.png"))

    def wait_until(self, condition: Callable[[], object], what: str) -> None:
        """Look again and again until it is so; a picture is kept of what was there instead."""
        try:
            wait_until(condition, what, PATIENCE)
        except AssertionError:
            self.picture("failure")
            raise

    def _of(self, css: str, question: Callable[[Any], _Answer]) -> _Answer:
        """Ask the first such element until it gives an answer that is not empty."""
        answers: list[_Answer] = []

        def asked() -> bool:
            answers[:] = [answer for found in self._elements(css)[:1] if (answer := question(found))]
            return bool(answers)

        self.wait_until(lambda: self._now(asked), css)
        return answers[0]

    def _now(self, question: Callable[[], _Answer]) -> _Answer | None:
        """``None`` where the page changes under the question."""
        from selenium.common import WebDriverException  # noqa: PLC0415 - see above

        try:
            return question()
        except WebDriverException:
            return None

    def _elements(self, css: str) -> list[Any]:
        return list(self._driver.find_elements("css selector", css))


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.fail(f"{name} is missing: apt-get install -y chromium chromium-driver", pytrace=False)
    return found
