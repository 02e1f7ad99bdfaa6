"""Structured logs on standard error: one JSON object per line, or coloured text on a terminal."""

from __future__ import annotations

import logging
import sys

import structlog

from backend.telemetry import tracing


def _with_trace(
    _logger: object, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Add the ids of the trace and span under way."""
    event.update(tracing.log_ids())
    return event


def _renderer() -> structlog.typing.Processor:
    return structlog.dev.ConsoleRenderer() if sys.stderr.isatty() else structlog.processors.JSONRenderer()


def formatter() -> logging.Formatter:
    """Writes the lines of other libraries as CaMVo's own, with the name of their logger."""
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[
            structlog.stdlib.add_logger_name,
            structlog.stdlib.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
        ],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, _renderer()],
    )


def configure(level: str = "info") -> None:
    """Configure structlog, and the logs of other libraries, for this process."""
    number = logging.getLevelNamesMapping()[level.upper()]
    others = logging.StreamHandler(sys.stderr)
    others.setFormatter(formatter())
    logging.basicConfig(level=max(number, logging.WARNING), handlers=[others])
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            _with_trace,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            _renderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
