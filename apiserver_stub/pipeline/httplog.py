"""Access log; a module of upstream's name, so that ``--vmodule=httplog=3`` enables it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from apiserver_stub.transport.response_writer import audit_id
from nodeagent.base.logging import v_level

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import RequestInfo
    from apiserver_stub.transport.http import HttpRequest

_log = logging.getLogger(__name__)

_LEVEL = v_level(3)


def log_request(http: HttpRequest, info: RequestInfo, code: int, seconds: float) -> None:
    """Log a request and its response at verbosity 3."""
    if _log.isEnabledFor(_LEVEL):
        fields = {
            "verb": info.verb,
            "URI": http.target,
            "latency": f"{1000 * seconds:.3f}ms",
            "userAgent": http.headers.get("User-Agent", ""),
            "audit-ID": audit_id(http),
            "srcIP": http.remote,
            "resp": code,
        }
        _log.log(_LEVEL, "HTTP", extra=fields)
