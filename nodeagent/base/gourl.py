"""URLs as Go's ``net/url`` parses them. No I/O.

Python's parser accepts texts that Go rejects, so that validation by it would differ from Kubernetes.
"""

from __future__ import annotations

import re

from nodeagent.base.structs import Struct

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_PORT = re.compile(r"(:[0-9]*)?")
_USER = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*")
_NO_HOST = re.compile(r"[\x00-\x7f]")
_HOST = re.compile(r"[A-Za-z0-9\-_.~!$&'()*+,;=:\[\]<>\"]")


class InvalidUrl(ValueError):
    """A text is not a URL; the text of the error equals Go's."""


class Url(Struct, frozen=True):
    """The parts of a URL, not unescaped."""

    scheme: str = ""
    opaque: str = ""
    user: str | None = None
    """User and password; ``None`` without an ``@``."""
    host: str = ""
    """Host and port."""
    path: str = ""
    query: str = ""
    fragment: str = ""


def parse(text: str) -> Url:
    """Return the parts of *text*.

    :raises InvalidUrl: Go rejects it.
    """
    try:
        return _parse(text)
    except InvalidUrl as error:
        raise _named(text, error) from None


def parse_request(text: str) -> Url:
    """Return the parts of *text*, an absolute URL or an absolute path, which has no fragment.

    :raises InvalidUrl: Go's ``ParseRequestURI`` rejects it.
    """
    try:
        if not text:
            raise InvalidUrl("empty url")
        if not text.startswith("/") and not _SCHEME.match(text) and not text.startswith(":") and text != "*":
            raise InvalidUrl("invalid URI for request")
        return _parse(text, fragments=False)
    except InvalidUrl as error:
        raise _named(text, error) from None


def _named(text: str, error: InvalidUrl) -> InvalidUrl:
    shown = text.replace("\\", "\\\\").replace('"', '\\"')
    return InvalidUrl(f'parse "{shown}": {error}')


def _parse(text: str, *, fragments: bool = True) -> Url:
    rest, _, fragment = text.partition("#") if fragments else (text, "", "")
    if _CONTROL.search(rest):
        raise InvalidUrl("net/url: invalid control character in URL")
    scheme = ""
    if match := _SCHEME.match(rest):
        scheme, rest = match.group()[:-1].lower(), rest[match.end() :]
    elif rest.startswith(":"):
        raise InvalidUrl("missing protocol scheme")
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if scheme:
            return Url(scheme, opaque=rest, query=query, fragment=_escaped(fragment))
        if ":" in rest.partition("/")[0]:
            raise InvalidUrl("first path segment in URL cannot contain colon")
    user, host = None, ""
    if rest.startswith("//") and (scheme or not rest.startswith("///")):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        user, host = _parse_authority(authority)
    return Url(scheme, "", user, host, _escaped(rest), query, _escaped(fragment))


def _parse_authority(authority: str) -> tuple[str | None, str]:
    user, at, host = authority.rpartition("@")
    host = _parse_host(host)
    if not at:
        return None, host
    if not _USER.fullmatch(user):
        raise InvalidUrl("net/url: invalid userinfo")
    return _escaped(user), host


def _parse_host(host: str) -> str:
    if host.startswith("["):
        end = host.rfind("]")
        if end < 0:
            raise InvalidUrl("missing ']' in host")
        _check_port(host[end + 1 :])
        address, zone, _ = host[:end].partition("%25")
        if zone:
            _check_host(address)
            return host
    elif ":" in host:
        _check_port(host[host.rindex(":") :])
    _check_host(host)
    return host


def _check_port(text: str) -> None:
    if not _PORT.fullmatch(text):
        raise InvalidUrl(f'invalid port "{text}" after host')


def _check_host(host: str) -> None:
    index = 0
    while index < len(host):
        character = host[index]
        if character == "%":
            escape = host[index : index + 3]
            if _ESCAPE.match(escape) or (int(escape[1], 16) < 8 and escape != "%25"):
                raise InvalidUrl(f'invalid URL escape "{escape}"')
            index += 3
            continue
        if _NO_HOST.match(character) and not _HOST.match(character):
            shown = character.replace("\\", "\\\\").replace('"', '\\"')
            raise InvalidUrl(f'invalid character "{shown}" in host name')
        index += 1


def _escaped(text: str) -> str:
    """Return *text* if its escapes are valid."""
    if match := _ESCAPE.search(text):
        raise InvalidUrl(f'invalid URL escape "{text[match.start() : match.start() + 3]}"')
    return text
