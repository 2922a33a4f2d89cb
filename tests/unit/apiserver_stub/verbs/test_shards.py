"""Tests for shard selectors."""

from __future__ import annotations

import pytest

from apiserver_stub.verbs.shards import InvalidShardSelector, ShardSelector, hash_of, parse

_HALF, _END = "0x8000000000000000", "0x10000000000000000"
_LOWER = f"shardRange(object.metadata.uid, '0x0000000000000000', '{_HALF}')"


@pytest.mark.parametrize(
    ("value", "expected"),
    [("", 0xCBF29CE484222325), ("a", 0xAF63DC4C8601EC8C), ("foobar", 0x85944171F73967E8)],
)
def test_hash_is_fnv_1a(value: str, expected: int) -> None:
    assert hash_of(value) == expected


@pytest.mark.parametrize(
    "text",
    [
        _LOWER,
        f"  ( {_LOWER} ) ",
        f"shardRange( object . metadata.uid,\"0x0000000000000000\",r'{_HALF}')",
    ],
)
def test_notations_of_a_range_are_equivalent(text: str) -> None:
    found = parse(text)

    assert found == ShardSelector("uid", ((0, 1 << 63),))
    assert str(found) == _LOWER


def test_ranges_are_alternatives() -> None:
    found = parse(f"{_LOWER}||shardRange(object.metadata.uid,'0xf000000000000000','{_END}')")

    assert str(found) == f"{_LOWER} || shardRange(object.metadata.uid, '0xf000000000000000', '{_END}')"
    assert [found.matches({"uid": uid}) for uid in ("foobar", "a", "test-uid-1")] == [
        any(start <= hash_of(uid) < end for start, end in ((0, 1 << 63), (0xF << 60, 1 << 64)))
        for uid in ("foobar", "a", "test-uid-1")
    ]
    assert not found.matches({"uid": "a"})


def test_start_is_inclusive_and_end_exclusive() -> None:
    number = hash_of("default")

    assert ShardSelector("namespace", ((number, number + 1),)).matches({"namespace": "default"})
    assert not ShardSelector("namespace", ((number - 1, number),)).matches({"namespace": "default"})


def _range(field: str = "object.metadata.uid", start: str = "'0x0000000000000000'", end: str = f"'{_HALF}'") -> str:
    return f"shardRange({field},{start},{end})"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("  ", "empty shard selector is not allowed; omit the parameter for unfiltered lists"),
        (
            _range("object.metadata.name"),
            'unsupported field path "object.metadata.name"; supported: object.metadata.uid, object.metadata.namespace',
        ),
        (
            f"{_range('object.metadata.namespace')} || {_LOWER}",
            'all shard ranges must use the same field, got "object.metadata.uid" and "object.metadata.namespace"',
        ),
        (
            _range(start="'0x0'"),
            'hexStart must be a 0x-prefixed 16-digit hex value, got "0x0" (did you mean "0x0000000000000000"?)',
        ),
        (_range(start=f"'{_HALF}'"), f"shard range start {_HALF} must be less than end {_HALF}"),
        (_range(start="'8'"), "hexStart must have '0x' prefix, got \"8\""),
        (_range(end="'0x'"), "hexEnd: hex value is required after '0x'"),
        (_range(start="'0xG'"), 'hexStart: invalid hex character "G" in "0xG"'),
        (
            _range(end="'0x20000000000000000'"),
            "hexEnd: 17-digit hex value must be '0x10000000000000000' (2^64), got \"0x20000000000000000\"",
        ),
        (
            _range(end="'0x200000000000000000'"),
            'hexEnd: hex value too long (18 chars, max 17): "200000000000000000"',
        ),
        ("shardRange(object.metadata.uid)", "shardRange() requires exactly 3 arguments, got 1"),
        ("shardRange()", "shardRange() requires exactly 3 arguments, got 0"),
        (
            _range("'object.metadata.uid'"),
            "shardRange() first argument: expected field path (e.g. object.metadata.uid), got expression kind 5",
        ),
        (_range(start="x"), "hexStart must be a string literal (e.g. '0xff'), got x"),
        ("has(x)", 'unsupported "has"; only shardRange() and || are allowed'),
        (f"{_LOWER} && {_LOWER}", "CEL parse error: unexpected '&'; only shardRange() and || are allowed"),
        (f"{_LOWER} {_LOWER}", "CEL parse error: Syntax error: found 'shardRange', expected the end"),
        (f"({_LOWER}", "CEL parse error: Syntax error: found the end, expected ')'"),
        (f"{_LOWER} ||", 'unsupported ""; only shardRange() and || are allowed'),
        ("shardRange(", "CEL parse error: Syntax error: expected an argument of shardRange()"),
        ("shardRange(a b", "CEL parse error: Syntax error: found 'b', expected ','"),
    ],
)
def test_invalid_selector_is_reported(text: str, message: str) -> None:
    with pytest.raises(InvalidShardSelector) as error:
        parse(text)

    assert str(error.value) == message
