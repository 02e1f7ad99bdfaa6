"""The entry point of the ``camvo`` command, which explains itself where the server is not installed."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; a missing package of the extra ``[server]`` is one line and exit code 2."""
    try:
        from backend import cli  # noqa: PLC0415 - its imports are what may fail

        cli.main()
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "backend", "camvo"):
            raise
        print(  # noqa: T201 - this is what a person reads
            f'camvo: the package {package} is missing; the command needs: pip install "camvo[server]"',
            file=sys.stderr,
        )
        sys.exit(2)


if __name__ == "__main__":
    main()
