"""How an extension API server is told for whom this server calls (pure)."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from apiserver_stub.apimachinery.request import User

_SAFE = "!#$&'*+-.^_`|~"
"""What the name of a header may hold besides letters and digits; the percent sign marks what it may not."""
_FORBIDDEN = ("\r", "\n", "\0")


def headers_of(user: User) -> Iterator[tuple[str, str]]:
    """Yield the headers that vouch for *user*.

    :raises ValueError: a name of theirs would break out of its header.
    """
    yield "X-Remote-User", _value(user.name)
    for group in user.groups:
        yield "X-Remote-Group", _value(group)
    for key, values in user.extra.items():
        for value in values:
            yield f"X-Remote-Extra-{quote(key, safe=_SAFE)}", _value(value)


def _value(text: str) -> str:
    if any(mark in text for mark in _FORBIDDEN):
        raise ValueError("the name of a user, group or extra holds a line break")
    return text
