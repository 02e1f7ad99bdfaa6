"""Headless Chromium, to check what people see; needs Debian's packages chromium and chromium-driver."""

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
"""Seconds for a page to load; Label Studio's carry megabytes of script."""

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
    """A window with its profile in ``folder``; a context manager. Screenshots go to ``artefacts``."""

    def __init__(self, folder: Path, artefacts: Path) -> None:
        chromium, chromedriver = _program("chromium"), _program("chromedriver")
        try:
            from selenium import webdriver  # noqa: PLC0415 - pytest imports this file without the extra, too
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
        """The address that the window shows now."""
        return str(self._driver.current_url)

    def visit(self, address: str) -> None:
        """Open an address."""
        self._driver.get(address)

    def text(self, css: str = "body") -> str:
        """The visible text of an element; waits until it is not empty."""
        return self._of(css, lambda element: str(element.text))

    def attribute(self, css: str, name: str) -> str:
        """An attribute of an element; waits until it is set."""
        return self._of(css, lambda element: str(element.get_attribute(name) or ""))

    def texts(self, css: str) -> list[str]:
        """The visible texts of all such elements now; empty while the page changes."""
        return self._now(lambda: [str(element.text) for element in self._elements(css)]) or []

    def fill(self, css: str, text: str) -> None:
        """Type into a field as soon as it accepts text."""
        self._of(css, lambda element: element.send_keys(text) or True)

    def click(self, css: str) -> None:
        """Click on an element as soon as it accepts clicks."""
        self._of(css, lambda element: element.click() or True)

    def click_text(self, css: str, text: str) -> None:
        """Click on the first such element with this text that accepts clicks; others lie under a dialogue."""

        def is_clicked(element: Any) -> bool:
            return self._now(lambda: str(element.text) == text and (element.click() or True)) or False

        self.wait_until(
            lambda: any(map(is_clicked, self._now(lambda: self._elements(css)) or [])), f"{css} {text}"
        )

    def script(self, code: str) -> Any:
        """What JavaScript returns in the page; ``None`` if it fails."""
        return self._now(lambda: self._driver.execute_script(code))

    def picture(self, name: str) -> None:
        """Save a screenshot of the window."""
        self._artefacts.mkdir(parents=True, exist_ok=True)
        self._driver.save_screenshot(os.fspath(self._artefacts / f"{name}.png"))

    def wait_until(self, condition: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
        """Poll a condition until it holds; a failure leaves a screenshot."""
        try:
            wait_until(condition, what, patience)
        except AssertionError:
            self.picture("failure")
            raise

    def _of(self, css: str, question: Callable[[Any], _Answer]) -> _Answer:
        """Query the first such element until the answer is not empty."""
        answers: list[_Answer] = []

        def is_answered() -> bool:
            answers[:] = [answer for element in self._elements(css)[:1] if (answer := question(element))]
            return bool(answers)

        self.wait_until(lambda: self._now(is_answered), css)
        return answers[0]

    def _now(self, question: Callable[[], _Answer]) -> _Answer | None:
        """Run a query; ``None`` if the page changes meanwhile."""
        from selenium.common import WebDriverException  # noqa: PLC0415 - see above

        try:
            return question()
        except WebDriverException:
            return None

    def _elements(self, css: str) -> list[Any]:
        return list(self._driver.find_elements("css selector", css))


def _program(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.fail(f"{name} is missing: apt-get install -y chromium chromium-driver", pytrace=False)
    return path
