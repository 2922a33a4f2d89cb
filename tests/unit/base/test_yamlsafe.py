"""Tests for the YAML parser: plain values, limits, and errors with the line."""

from __future__ import annotations

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeagent.base.yamlsafe import Limits, Repeat, YamlError, load, load_document, load_documents

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(plain)
def test_any_json_is_parsed(value):
    text = json.dumps([value])

    assert load(text) == [value]


def test_document_has_the_line_of_every_value():
    document = load_document("a: 1\nb:\n  - x\n  - c: 2\n")

    assert document.lines == {("a",): 1, ("b", 0): 3, ("b", 1, "c"): 4, ("b", 1): 4, ("b",): 3, (): 1}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", True),
        ("off", False),
        ("'yes'", "yes"),
        ("~", None),
        ("0644", 420),
        ("0x1F", 31),
        ("0b11", 3),
        ("0o17", 15),
        ("1_000", 1000),
        ("-7", -7),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("10:30", "10:30"),
        ("2001-01-01", "2001-01-01"),
        (".inf", ".inf"),
        ("1.2.3", "1.2.3"),
        ("0_", 0),
        ("!!str 5", "5"),
        ("!!float 3", 3.0),
        ("!!int 3", 3),
        ("|\n  two\n  lines\n", "two\nlines\n"),
    ],
)
def test_scalars_have_the_types_that_manifests_expect(text, value):
    assert load(f"v: {text}") == {"v": value}


def test_aliases_and_merges_are_expanded():
    assert load("a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\nc: *a\n") == {
        "a": {"x": 1, "y": 2},
        "b": {"x": 1, "y": 3},
        "c": {"x": 1, "y": 2},
    }


def test_numbers_and_booleans_as_keys_become_strings():
    assert load("1: a\ntrue: b\n") == {"1": "a", "true": "b"}


def test_json_with_surrogate_pairs_is_parsed():
    assert load('{"a": "\\ud83d\\ude00"}') == {"a": "😀"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\na: 2\n", "line 2: duplicate key 'a'"),
        ('{"\\ud83d\\ude00": 1, "b": 1, "b": 2}', "duplicate key 'b'"),
        ("a: !!python/object:os.system x", "line 1: tag .* is not allowed"),
        ("a: !custom [1]", "line 1: tag .* is not allowed"),
        ("a: !!binary aGk=", "is not allowed"),
        ("a: &a [*a]", r"alias \*a is undefined"),
        ("? [a]\n: b", "a key must be a string"),
        ("a: [1\n", "expected"),
        ("a: {b\n", "expected"),
        (b"\xff\xfe\xfa", "not UTF-8"),
        ("", "is empty"),
        ("# only a comment\n", "is empty"),
        ("a: 1\n---\nb: 2\n", "has 2 documents"),
        (f"a: {'9' * 500}", "too many digits"),
        ("a: 1e999", "too large"),
        ("a:\n\t- b", "line 2"),
        ('{"a": "\\ud800"}', "Unicode|escape"),
        ("<<: 3", "'<<' must be an object"),
        ("a\0b", "line 0|special characters|unacceptable|control characters"),
    ],
)
def test_error_names_line_and_reason(text, message):
    with pytest.raises(YamlError, match=message):
        load(text)


@pytest.mark.parametrize("opening", ["[", "{a: ", '{"a":', "- "])
def test_depth_is_limited(opening):
    with pytest.raises(YamlError, match=r"nested|expected|depth"):
        load(opening * 20_000)


def test_depth_may_be_the_limit():
    assert load("- - - x", Limits(max_depth=3)) == [[["x"]]]
    with pytest.raises(YamlError, match="nested deeper than 2 levels"):
        load("- - - x", Limits(max_depth=2))


def test_size_is_limited():
    with pytest.raises(YamlError, match="larger than 10 bytes"):
        load("a: 123456789", Limits(max_bytes=10))


def test_expansion_of_aliases_is_limited():
    lines = ["a: &a [x,x,x,x,x,x,x,x,x]"]
    lines += [f"{new}: &{new} [{','.join(['*' + old] * 9)}]" for old, new in zip("abcdefgh", "bcdefghi", strict=True)]

    with pytest.raises(YamlError, match="more than 500000 values"):
        load("\n".join(lines))


def test_documents_without_content_are_omitted():
    assert [document.value for document in load_documents("---\n---\na: 1\n---\n# no\n---\nb: 2\n")] == [
        {"a": 1},
        {"b": 2},
    ]


@given(st.text(max_size=60) | st.binary(max_size=60))
def test_any_input_is_parsed_or_a_yaml_error(text):
    try:
        load_documents(text)
    except YamlError:
        return


@pytest.mark.parametrize(
    ("text", "value", "repeats"),
    [
        ("a: 1\nb:\n  c: 1\n  c: 2\na: 3\n", {"a": 3, "b": {"c": 2}}, [(4, "c"), (5, "a")]),
        ('{"\\ud83d\\ude00": 1, "b": 1, "b": 2}', {"\U0001f600": 1, "b": 2}, [(0, "b")]),
        ("a: 1\n", {"a": 1}, []),
    ],
)
def test_last_duplicate_key_is_effective_if_they_are_collected(text: str, value: object, repeats: object) -> None:
    found: list[Repeat] = []

    assert load(text, repeats=found) == value

    assert found == repeats


def test_memory_of_a_deep_document_is_that_of_its_values():
    text = "[" * 98 + "0," * 20_000 + "0" + "]" * 98  # With the path of each value, 17 MiB.
    tracemalloc.start()
    try:
        load(text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 1 << 20


def test_duplicate_key_after_many_others_is_an_error():
    keys = ",".join(f'"key{number}":0' for number in range(100_000))

    with pytest.raises(YamlError, match="duplicate key 'z'"):
        load(f'{{"emoji":"\\ud83d\\ude00",{keys},"z":0,"z":1}}')


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("!!float 1", 1.0),
        ("!!float 1.5", 1.5),
        ("!!int 1", 1),
        ("!!bool true", True),
        ("!!null ~", None),
        ("!!str 1", "1"),
        ("! 1", "1"),
    ],
)
def test_tagged_scalar_has_the_type_of_its_tag(text, value):
    found = load(f"a: {text}")["a"]

    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "text", ["!!int 1.5", "!!int true", "!!bool 1", "!!float x", "!!null 0", "!!binary eA==", "!x 1"]
)
def test_scalar_of_another_type_than_its_tag_is_an_error(text):
    with pytest.raises(YamlError, match=r"line 1: tag .* is not allowed"):
        load(f"a: {text}")


def test_number_of_values_is_limited():
    assert load("- a\n- b", Limits(max_values=3)) == ["a", "b"]
    with pytest.raises(YamlError, match="has more than 2 values"):
        load("- a\n- b", Limits(max_values=2))


def test_digits_of_a_number_are_limited():
    assert load(f"a: {'9' * 400}")["a"] == int("9" * 400)
    with pytest.raises(YamlError, match="a number has too many digits"):
        load(f"a: {'9' * 401}")
    assert load("a: 0") == {"a": 0}


@pytest.mark.parametrize(
    ("text", "values", "depth"),
    [
        (r'["\ud83d\ude00", 1]', 3, 1),
        (r'{"\ud83d\ude00": 1, "b": [2]}', 6, 2),
        (r'["\ud83d\ude00", [[]], {"a": {}}]', 7, 3),
    ],
)
def test_limits_of_json_with_surrogate_pairs_are_those_of_yaml(text: str, values: int, depth: int) -> None:
    plain = text.replace(r"\ud83d\ude00", "x")
    for document in (text, plain):
        load(document, Limits(max_values=values, max_depth=depth))
        with pytest.raises(YamlError, match=f"has more than {values - 1} values"):
            load(document, Limits(max_values=values - 1))
        with pytest.raises(YamlError, match=f"is nested deeper than {depth - 1} levels"):
            load(document, Limits(max_depth=depth - 1))
