"""The C library, for calls of the kernel that Python lacks.

Arguments that are neither paths nor of the C type ``int`` are passed as values of ``ctypes``.
"""

from __future__ import annotations

import ctypes
import functools
import os


@functools.cache
def libc() -> ctypes.CDLL:
    """Return the C library of this process, loaded once: its functions are in a cycle with it."""
    return ctypes.CDLL(None, use_errno=True)


def last_error(path: str | None = None) -> OSError:
    """Return the error of the last call that failed in this thread.

    :param path: file name of the error.
    """
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), path)
