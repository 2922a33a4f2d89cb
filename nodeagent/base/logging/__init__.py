"""Structured logging on top of the standard library.

Messages are constant, details are key-value pairs::

    _log = logging.getLogger(__name__)
    _log.info("Pod started", extra={"pod": "default/web", "containers": 2})
    _log.log(v_level(5), "Relisted", extra={"changes": 0})
    _log.error("Pull failed", extra={"image": image, "err": error})

An expected error is logged as ``err``; ``exc_info`` adds the traceback and is for unexpected ones. The standard
library reserves some names (``name``, ``args``, ``module``, … see ``RECORD_FIELDS``) and raises ``KeyError`` for a
pair with such a key.
"""

from nodeagent.base.logging.formats import LogFormatFactory, format_gates, register_format, unregister_format
from nodeagent.base.logging.levels import MAX_VERBOSITY, v_level, verbose, verbosity_of
from nodeagent.base.logging.settings import (
    ByteStream,
    LoggingError,
    LoggingOptions,
    LoggingProblem,
    LoggingSettings,
    StreamOptions,
    VModule,
    check_settings,
    parse_vmodule,
)
from nodeagent.base.logging.setup import Logging, active, configure
from nodeagent.base.logging.values import RECORD_FIELDS

__all__ = [
    "MAX_VERBOSITY",
    "RECORD_FIELDS",
    "ByteStream",
    "LogFormatFactory",
    "Logging",
    "LoggingError",
    "LoggingOptions",
    "LoggingProblem",
    "LoggingSettings",
    "StreamOptions",
    "VModule",
    "active",
    "check_settings",
    "configure",
    "format_gates",
    "parse_vmodule",
    "register_format",
    "unregister_format",
    "v_level",
    "verbose",
    "verbosity_of",
]
