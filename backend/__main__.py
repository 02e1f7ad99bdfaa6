"""The entry point of the ``camvo`` command, which explains itself where the server is not installed.

Nothing but ``sys``, which is there already, is imported before Ctrl-C is awaited.
"""

from __future__ import annotations

import sys

_INTERRUPTED = 130
"""The exit code after Ctrl-C."""


def main() -> None:
    """Run the command line.

    A missing package of the extra ``[server]`` is one line and exit code 2; Ctrl-C or SIGTERM, also amid the
    first imports, is one line and exit code 130. ``camvo serve`` and ``demo`` stop their server instead.
    """
    try:
        import signal  # noqa: PLC0415 - Ctrl-C may come meanwhile

        signal.signal(signal.SIGTERM, signal.default_int_handler)
        from backend import cli  # noqa: PLC0415 - its imports are what may fail

        cli.main()
    except KeyboardInterrupt:
        sys.exit(_interrupted())
    except SystemExit as end:
        if end.code == _INTERRUPTED:
            _interrupted()
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


def _interrupted() -> int:
    """Say so, and return the exit code."""
    import signal  # noqa: PLC0415 - Ctrl-C may have come before
    from contextlib import suppress  # noqa: PLC0415 - the same

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)  # all is stored: another one would only print a traceback
    with suppress(OSError):  # the terminal may be closed
        print("camvo: interrupted (run the same command again)", file=sys.stderr)  # noqa: T201 - the same
    return _INTERRUPTED


if __name__ == "__main__":
    main()
