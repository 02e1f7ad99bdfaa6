"""What every endpoint works with: the application's runtime and the environment it was started with."""

from __future__ import annotations

from typing import cast

from flask import Flask, current_app

from backend.errors import BodyTooLargeError
from backend.server.runtime import Runtime
from backend.settings import Environment

_RUNTIME, _ENVIRONMENT = "camvo", "camvo_environment"


def install(app: Flask, runtime: Runtime, environment: Environment) -> None:
    """Give an application its runtime and its environment."""
    app.extensions[_RUNTIME], app.extensions[_ENVIRONMENT] = runtime, environment


def runtime() -> Runtime:
    """The runtime of the application that answers the current request."""
    return cast("Runtime", current_app.extensions[_RUNTIME])


def environment() -> Environment:
    """The environment of the application that answers the current request."""
    return cast("Environment", current_app.extensions[_ENVIRONMENT])


def refuse_too_many(tasks: int) -> None:
    """Refuse a request with more tasks than ``CAMVO_MAX_TASKS``.

    Raises:
        BodyTooLargeError: there are more.
    """
    if tasks > environment().max_tasks:
        raise BodyTooLargeError(
            f"{tasks} tasks in one request, at most {environment().max_tasks} are taken",
            where="body.tasks",
            fix="select fewer tasks or raise CAMVO_MAX_TASKS",
        )
