"""The entry point of the ``camvo`` command, which explains itself where the server is not installed."""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from typing import NoReturn

_INTERRUPTED = 130
"""The exit code after Ctrl-C."""


def main() -> None:
    """Run the command line.

    A missing package of the extra ``[server]`` is one line and exit code 2; Ctrl-C, also amid the first
    imports, is one line and exit code 130.
    """
    try:
        from backend import cli  # noqa: PLC0415 - its imports are what may fail

        cli.main()
    except KeyboardInterrupt:
        _end_interrupted()
    except SystemExit as end:
        if end.code == _INTERRUPTED:
            _end_interrupted()
        raise
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "backend", "camvo"):
            raise
        print(  # noqa: T201 - this is what a person reads
            f'camvo: the package {package} is missing; the command needs: pip install "camvo[server]"',
            file=sys.stderr,
        )
        sys.exit(2)


def _end_interrupted() -> NoReturn:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # all is stored: another Ctrl-C would only print a traceback
    with suppress(OSError):  # the terminal may be closed
        print("camvo: interrupted (run the same command again)", file=sys.stderr)  # noqa: T201 - the same
    sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
