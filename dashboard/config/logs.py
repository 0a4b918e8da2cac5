"""Logs go to stderr through structlog: lines for a person, or JSON lines with LOG_JSON=1."""

from __future__ import annotations

import logging
import sys
from typing import Any

from runtime.kernel.imports import without

# structlog loads both when it finds them, for what is not used here: a fifth of what a process takes to start.
with without("rich", "twisted"):
    import structlog


def configure(options: dict[str, Any]) -> None:
    """Set up structlog and the standard library's loggers, which libraries use. ``options``: level, json (bool)."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    if options["json"]:
        final: list[Any] = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    else:
        plain = structlog.dev.plain_traceback
        final = [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain)]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder()],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *final],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(options["level"].upper())
    # Django's own handlers would say everything twice.
    for name in ("django", "django.server"):
        logging.getLogger(name).handlers.clear()
    # Chatter of libraries that says nothing to an operator.
    for name in (
        "asyncio",
        "urllib3",
        "httpx",
        "httpcore",
        "mcp",
        "daphne",
        "django-q",
        "axes",
        "django.channels.server",
    ):
        logging.getLogger(name).setLevel(logging.WARNING)
