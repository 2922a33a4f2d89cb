"""Defer client certificate verification until after the TLS handshake.

A client that presents an expired or unknown certificate may also send a token, and receives an HTTP response in any
case. Python's ``ssl`` has no option for that (it either rejects such clients or requests no certificate), but OpenSSL
has: its function is called with the pointer that an ``SSLContext`` contains. If that fails, the handshake rejects such
clients.
"""

from __future__ import annotations

import ctypes
import logging
import platform
import ssl

_log = logging.getLogger(__name__)

_Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_pass = _Callback(lambda store, argument: 1)
"""Accepts any certificate; a module attribute, since contexts refer to it until the process exits."""


def request_certificates(context: ssl.SSLContext) -> None:
    """Make *context* request a certificate from every client and accept any certificate, or none.

    The certificate of such a connection is unverified; its user must verify it.
    """
    context.verify_mode = ssl.CERT_OPTIONAL
    # A resumed session contains the client's certificate without its intermediate certificates.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET
    try:
        _pointer_functions(context)
    except (AttributeError, OSError, ValueError) as error:
        _log.warning(
            "Failed to defer client certificate verification, rejecting unknown certificates in TLS handshakes",
            extra={"err": error},
        )


def _pointer_functions(context: ssl.SSLContext) -> None:
    """Set the callback that verifies certificates.

    :raises ValueError: this is not CPython, or its ``SSLContext`` has an unexpected layout.
    """
    if platform.python_implementation() != "CPython":
        raise ValueError(f"unsupported Python implementation: {platform.python_implementation()}")
    import _ssl

    library = ctypes.CDLL(_ssl.__file__)
    pointer = ctypes.c_void_p.from_address(id(context) + object.__basicsize__).value
    mode, set_callback = library.SSL_CTX_get_verify_mode, library.SSL_CTX_set_cert_verify_callback
    mode.argtypes, set_callback.argtypes = [ctypes.c_void_p], [ctypes.c_void_p, _Callback, ctypes.c_void_p]
    set_callback.restype = None
    if not pointer or mode(pointer) != context.verify_mode:
        raise ValueError("unexpected layout of SSLContext")
    set_callback(pointer, _pass, None)
