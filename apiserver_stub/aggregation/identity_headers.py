"""Headers that identify the user of a proxied request to an extension API server. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from apiserver_stub.apimachinery.request import User

_SAFE = "!#$&'*+-.^_`|~"
"""Characters other than letters and digits that are valid in header names; others are percent-encoded."""
_FORBIDDEN = ("\r", "\n", "\0")


def headers_of(user: User, *, with_uid: bool = False) -> Iterator[tuple[str, str]]:
    """Yield the headers that identify *user*.

    :param with_uid: include the UID (feature gate ``RemoteRequestHeaderUID``).
    :raises ValueError: a name contains a line break, which would allow header injection.
    """
    yield "X-Remote-User", _value(user.name)
    if with_uid and user.uid:
        yield "X-Remote-Uid", _value(user.uid)
    for group in user.groups:
        yield "X-Remote-Group", _value(group)
    for key, values in user.extra.items():
        for value in values:
            yield f"X-Remote-Extra-{quote(key, safe=_SAFE)}", _value(value)


def _value(text: str) -> str:
    if any(mark in text for mark in _FORBIDDEN):
        raise ValueError("name of a user, group or extra contains a line break")
    return text
