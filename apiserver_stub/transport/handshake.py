"""Lets a TLS handshake pass whatever certificate the client shows, as it is looked at later.

Who shows a certificate that is expired or unknown may have a token beside it, and should read an answer in any case.
Python's TLS has no switch for that (it refuses such clients, or never asks for a certificate), its library has; it
is reached through the pointer that a context holds. Where that is not possible such clients are refused at once.
"""

from __future__ import annotations

import ctypes
import logging
import platform
import ssl

_log = logging.getLogger(__name__)

_Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_pass = _Callback(lambda store, argument: 1)
"""Takes any certificate; here for as long as the process, as contexts point at it."""


def ask_for_certificates(context: ssl.SSLContext) -> None:
    """Make *context* ask every client for a certificate and take what it gets, or nothing.

    Whoever reads the certificate of such a connection must verify it.
    """
    context.verify_mode = ssl.CERT_OPTIONAL
    # A resumed session brings the client's certificate without those that stand between it and its authority.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET
    try:
        _pointer_functions(context)
    except (AttributeError, OSError, ValueError) as error:
        _log.warning("Clients with an unknown certificate are refused in the handshake", extra={"err": error})


def _pointer_functions(context: ssl.SSLContext) -> None:
    """Set the callback that decides about certificates.

    :raises ValueError: this is another Python, or its context looks different.
    """
    if platform.python_implementation() != "CPython":
        raise ValueError(f"not possible with {platform.python_implementation()}")
    import _ssl

    library = ctypes.CDLL(_ssl.__file__)
    pointer = ctypes.c_void_p.from_address(id(context) + object.__basicsize__).value
    mode, set_callback = library.SSL_CTX_get_verify_mode, library.SSL_CTX_set_cert_verify_callback
    mode.argtypes, set_callback.argtypes = [ctypes.c_void_p], [ctypes.c_void_p, _Callback, ctypes.c_void_p]
    set_callback.restype = None
    if not pointer or mode(pointer) != context.verify_mode:
        raise ValueError("the context is not as expected")
    set_callback(pointer, _pass, None)
