"""Deprecated hooks and arguments that a plugin uses, from the warnings of pluggy when it is registered."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from nodeagent.base.structs import Struct

_log = logging.getLogger(__name__)


class Deprecation(Struct, frozen=True):
    """A use of a deprecated hook or argument."""

    file: str
    line: int
    text: str


@contextmanager
def reported(plugin: str, found: list[Deprecation]) -> Iterator[None]:
    """Append the deprecations in the block to *found* and log them.

    A hook is deprecated by ``hookspec(warn_on_impl=DeprecationWarning(…))``, an argument by ``warn_on_impl_args``.
    """
    with warnings.catch_warnings(record=True) as recorded:
        warnings.simplefilter("always")
        yield
    for each in recorded:
        if not issubclass(each.category, DeprecationWarning):
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
            continue
        found.append(Deprecation(each.filename, each.lineno, str(each.message)))
        fields = {"plugin": plugin, "detail": str(each.message), "location": f"{each.filename}:{each.lineno}"}
        _log.warning("Plugin uses deprecated hook or argument", extra=fields)
