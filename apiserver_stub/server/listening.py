"""Listener for clients."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from contextlib import AsyncExitStack

from apiserver_stub.options import Options
from apiserver_stub.options.serving import EVERYWHERE
from apiserver_stub.pipeline.handler import RequestHandler
from apiserver_stub.transport.http2.negotiation import Terms
from apiserver_stub.transport.listener import Listener

_log = logging.getLogger(__name__)


def listen(
    options: Options, pipeline: RequestHandler, stack: AsyncExitStack, context: Callable[[], ssl.SSLContext]
) -> tuple[Listener, int]:
    """Return a listener whose requests *pipeline* handles, and its port; *stack* closes it.

    :param context: return the TLS context of new connections.
    :raises OSError: the port cannot be used.
    """
    streams = options.http2_streams
    listener = Listener(pipeline.handle, context, Terms(streams, options.goaway_chance) if streams > 0 else None)
    stack.push_async_callback(listener.close)
    address = "" if options.bind_address in EVERYWHERE else options.bind_address
    # On Linux, an address and the wildcard share a port only if both are opened with SO_REUSEPORT.
    share = options.permit_port_sharing or options.permit_address_sharing
    port = listener.open(address, 0 if options.free_port else options.secure_port, share_port=share)
    bound = f"[{options.bind_address}]" if ":" in options.bind_address else options.bind_address
    _log.info("Serving securely on %s:%d", bound, port)
    return listener, port
