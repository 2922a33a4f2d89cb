"""``PUT /debug/flags/v``: change the log verbosity at runtime."""

from __future__ import annotations

import logging

from aiohttp import web

from nodeagent.base.logging import LoggingError, active

_log = logging.getLogger(__name__)
MAX_TEXT = 64


async def set_verbosity(request: web.Request) -> web.Response:
    if request.method != "PUT":
        return web.Response(status=406, text="unsupported http method\n")
    text = (await request.content.read(MAX_TEXT)).decode(errors="replace").strip()
    log = active()
    if log is None:
        return web.Response(status=503, text="the agent does not manage its logging\n")
    try:
        log.set_verbosity(int(text))
    except (ValueError, LoggingError):
        return web.Response(status=400, text=f"failed to set the verbosity to {text!r}: not a number in range\n")
    _log.info("Verbosity changed", extra={"verbosity": log.verbosity})
    return web.Response(text=f"successfully set klog.logging.verbosity to {log.verbosity}\n")
