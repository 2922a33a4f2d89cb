"""Shard selectors: restrict lists and watches to the objects whose hashed field is in some ranges."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError
from nodeagent.base.aging_cache import cleared_cache
from nodeagent.base.structs import Struct

PARAMETER = "shardSelector"
"""Query parameter with a selector."""
_FIELDS = ("object.metadata.uid", "object.metadata.namespace")
_TOKEN = re.compile(
    r"""\s*(?:[rR]?(?P<text>'[^'\\\n]*'|"[^"\\\n]*")"""
    r"""|(?P<name>[A-Za-z_]\w*(?:\s*\.\s*[A-Za-z_]\w*)*)"""
    r"""|(?P<sign>\|\||[(),]))"""
)
_LIMIT = "10000000000000000"
_DIGITS = 16
_BASIS, _PRIME, _MASK = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1
_MAX_SELECTORS, _MAX_HASHES = 256, 65_536


class InvalidShardSelector(ValueError):
    """A selector is not a disjunction of valid ranges."""


class ShardCounts:
    """Watches of shards and the changes that are not sent to them, by group and plural, for metrics."""

    def __init__(self) -> None:
        self.watches: Counter[tuple[str, str]] = Counter()
        self.filtered: Counter[tuple[str, str]] = Counter()

    @contextmanager
    def watching(self, group: str, plural: str) -> Iterator[None]:
        """Count a watch while the block runs."""
        self.watches[group, plural] += 1
        try:
            yield
        finally:
            self.watches[group, plural] -= 1


class ShardSelector(Struct, frozen=True):
    """Ranges of the FNV-1a hash of a metadata field: inclusive start and exclusive end."""

    field: str
    ranges: tuple[tuple[int, int], ...]

    def __str__(self) -> str:
        return " || ".join(
            f"shardRange(object.metadata.{self.field}, '0x{start:016x}', '0x{end:016x}')" for start, end in self.ranges
        )

    def matches(self, metadata: Object) -> bool:
        """Return whether the object with *metadata* is in one of the ranges."""
        number = hash_of(metadata.get(self.field) or "")
        return any(start <= number < end for start, end in self.ranges)


@cleared_cache(_MAX_HASHES)
def hash_of(value: str) -> int:
    """Return the 64-bit FNV-1a hash of *value*."""
    number = _BASIS
    for byte in value.encode():
        number = (number ^ byte) * _PRIME & _MASK
    return number


def selector_of(text: str) -> ShardSelector | None:
    """Return the selector in the query parameter *text*, ``None`` if that is empty.

    :raises ApiError: 500, as upstream; it is invalid.
    """
    if not text:
        return None
    try:
        return parse(text)
    except InvalidShardSelector as error:
        raise ApiError(500, "", f"invalid shard selector: {error}") from error


@cleared_cache(_MAX_SELECTORS)
def parse(text: str) -> ShardSelector:
    """Return the selector in *text*: calls of ``shardRange``, combined with ``||``.

    :raises InvalidShardSelector: it is invalid.
    """
    if not text.strip():
        raise InvalidShardSelector("empty shard selector is not allowed; omit the parameter for unfiltered lists")
    parser = _Parser(_tokens(text))
    found = parser.alternatives()
    parser.expect("")
    field = found[0][0]
    for other, _ in found:
        if other != field:
            raise InvalidShardSelector(f'all shard ranges must use the same field, got "{other}" and "{field}"')
    return ShardSelector(field.rpartition(".")[2], tuple(bounds for _, bounds in found))


def _tokens(text: str) -> list[str]:
    """Return names, quoted texts and signs, then an empty token."""
    found, position = [], 0
    text = text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise InvalidShardSelector(
                f"CEL parse error: unexpected {text[position:].lstrip()[:1]!r}; only shardRange() and || are allowed"
            )
        name, quoted, sign = match.group("name", "text", "sign")
        found.append(re.sub(r"\s", "", name) if name else quoted or sign)
        position = match.end()
    return [*found, ""]


class _Parser:
    def __init__(self, tokens: list[str]) -> None:
        self._tokens, self._position = tokens, 0

    def expect(self, sign: str) -> None:
        if (token := self._next()) != sign:
            found, expected = (f"'{text}'" if text else "the end" for text in (token, sign))
            raise InvalidShardSelector(f"CEL parse error: Syntax error: found {found}, expected {expected}")

    def alternatives(self) -> list[tuple[str, tuple[int, int]]]:
        found = self._term()
        while self._tokens[self._position] == "||":
            self._position += 1
            found = found + self._term()
        return found

    def _next(self) -> str:
        token = self._tokens[self._position]
        self._position = min(self._position + 1, len(self._tokens) - 1)
        return token

    def _term(self) -> list[tuple[str, tuple[int, int]]]:
        word = self._next()
        if word == "(":
            found = self.alternatives()
            self.expect(")")
            return found
        if word != "shardRange":
            raise InvalidShardSelector(f'unsupported "{word}"; only shardRange() and || are allowed')
        return [self._range()]

    def _range(self) -> tuple[str, tuple[int, int]]:
        self.expect("(")
        arguments: list[str] = []
        while self._tokens[self._position] != ")":
            if arguments:
                self.expect(",")
            arguments.append(self._next())
            if not arguments[-1] or arguments[-1] in ("||", "(", ","):
                raise InvalidShardSelector("CEL parse error: Syntax error: expected an argument of shardRange()")
        self.expect(")")
        if len(arguments) != 3:
            raise InvalidShardSelector(f"shardRange() requires exactly 3 arguments, got {len(arguments)}")
        field = arguments[0]
        if field[:1] in "'\"":
            raise InvalidShardSelector(
                "shardRange() first argument: expected field path (e.g. object.metadata.uid), got expression kind 5"
            )
        if field not in _FIELDS:
            raise InvalidShardSelector(f'unsupported field path "{field}"; supported: {", ".join(_FIELDS)}')
        start, end = _bound(arguments[1], "hexStart"), _bound(arguments[2], "hexEnd")
        if start >= end:
            raise InvalidShardSelector(f"shard range start 0x{start:016x} must be less than end 0x{end:016x}")
        return field, (start, end)


def _bound(literal: str, name: str) -> int:
    if literal[:1] not in "'\"":
        raise InvalidShardSelector(f"{name} must be a string literal (e.g. '0xff'), got {literal}")
    text = literal[1:-1]
    if not text.startswith("0x"):
        raise InvalidShardSelector(f"{name} must have '0x' prefix, got \"{text}\"")
    digits = text[2:]
    if not digits:
        raise InvalidShardSelector(f"{name}: hex value is required after '0x'")
    if len(digits) > len(_LIMIT):
        count = f"{len(digits)} chars, max {len(_LIMIT)}"
        raise InvalidShardSelector(f'{name}: hex value too long ({count}): "{digits}"')
    for character in digits:
        if character not in "0123456789abcdef":
            raise InvalidShardSelector(f'{name}: invalid hex character "{character}" in "{text}"')
    if len(digits) == len(_LIMIT) and digits != _LIMIT:
        raise InvalidShardSelector(f"{name}: 17-digit hex value must be '0x{_LIMIT}' (2^64), got \"{text}\"")
    if len(digits) < _DIGITS:
        padded = f"0x{digits.rjust(_DIGITS, '0')}"
        raise InvalidShardSelector(
            f'{name} must be a 0x-prefixed 16-digit hex value, got "{text}" (did you mean "{padded}"?)'
        )
    return int(digits, 16)
