"""Tests for label and field selectors: parsing and matching."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeagent.base.selectors import (
    FieldSelector,
    FieldTerm,
    SelectorError,
    parse_field_selector,
    parse_label_selector,
)

LABELS = {"app": "web", "tier": "front", "size": "7", "example.com/zone": "a"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "app=web",
        "app==web",
        "app != db",
        "missing!=x",
        "app in (web, db)",
        "app notin (db)",
        "missing notin (x)",
        "app",
        "!missing",
        "size>6,size<8",
        "example.com/zone=a,tier in (front),app",
    ],
)
def test_label_selector_matches(text: str) -> None:
    assert parse_label_selector(text).matches(LABELS)


@pytest.mark.parametrize(
    "text",
    ["app=db", "app!=web", "app in (db)", "app notin (web,db)", "missing", "!app", "size>7", "app>1", "missing="],
)
def test_label_selector_does_not_match(text: str) -> None:
    assert not parse_label_selector(text).matches(LABELS)


def test_empty_value_is_a_value() -> None:
    assert parse_label_selector("app=").matches({"app": ""})
    assert parse_label_selector("app in (,x)").matches({"app": ""})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a b", "found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a=b=c", "found '=', expected: ',' or 'end of string'"),
        ("a in", "unable to parse requirement: found '' expected: '('"),
        ("a in (b", "expected: ',' or ')'"),
        ("-bad=x", 'Invalid value: "-bad": name part must consist of'),
        ("/x=1", 'Invalid value: "/x": prefix part must be non-empty'),
        ("a/b/c", 'Invalid value: "a/b/c": a qualified name must consist of'),
        ("a=-bad", 'values[0][a]: Invalid value: "-bad": a valid label must be'),
        ("a in (b,-c)", 'values[0][a]: Invalid value: "-c": a valid label must be'),
        ("a in (-d,-c)", '[values[0][a]: Invalid value: "-c": a valid label must be'),
        ("a>x", "values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer"),
        ("a>99999999999999999999", "the value must be an integer"),
        ("a,!", "unable to parse requirement: found '', expected: identifier"),
        ("!=x", "found '!=', expected: !, identifier, or 'end of string'"),
        ("a,", "expected: identifier after ','"),
    ],
)
def test_invalid_label_selector_is_rejected(text: str, message: str) -> None:
    with pytest.raises(SelectorError) as error:
        parse_label_selector(text)

    assert message in str(error.value)


def test_label_that_is_not_an_integer_is_not_compared() -> None:
    assert not parse_label_selector("size>3").matches({"size": "1_0"})


def test_field_selector_compares_strings() -> None:
    fields = {"metadata.name": "web", "status.phase": "Running"}

    selector = parse_field_selector("metadata.name=web,status.phase!=Failed,spec.nodeName=")

    assert selector.matches(lambda field: fields.get(field, ""))
    assert not parse_field_selector("metadata.name!=web").matches(lambda field: fields.get(field, ""))
    assert selector.pinned("metadata.name") == "web"
    assert selector.pinned("status.phase") is None


def test_field_selector_unescapes_values() -> None:
    assert parse_field_selector(r"a=b\,c\=d\\") == FieldSelector((FieldTerm("a", r"b,c=d" + "\\"),))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("foo", "invalid selector: 'foo'; can't understand 'foo'"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        (r"a=\x", "invalid escape sequence"),
    ],
)
def test_invalid_field_selector_is_rejected(text: str, message: str) -> None:
    with pytest.raises(SelectorError, match=message.replace("'", ".")):
        parse_field_selector(text)


@given(st.text(max_size=30))
def test_any_text_is_a_selector_or_a_selector_error(text: str) -> None:
    for parse in (parse_label_selector, parse_field_selector):
        try:
            parse(text)
        except SelectorError:
            continue


@given(
    st.dictionaries(st.sampled_from("abc"), st.sampled_from(["", "1", "2"])),
    st.sampled_from("abc"),
    st.sets(st.sampled_from(["1", "2"]), min_size=1),
)
def test_in_and_notin_are_opposites(labels: dict[str, str], key: str, values: set[str]) -> None:
    listed = ",".join(sorted(values))

    inside = parse_label_selector(f"{key} in ({listed})").matches(labels)
    outside = parse_label_selector(f"{key} notin ({listed})").matches(labels)

    assert inside != outside


_labels = st.dictionaries(st.sampled_from(["a", "b", "x.example/c"]), st.sampled_from(["", "1", "2", "v-1"]))
_keys = st.sampled_from(["a", "b", "x.example/c"])
_listed = st.lists(st.sampled_from(["1", "2", "v-1"]), min_size=1, max_size=3, unique=True)


@given(_labels, st.lists(st.tuples(_keys, st.sampled_from(["=", "!=", "in", "notin", "", "!"]), _listed), min_size=1))
def test_selector_matches_if_all_requirements_match(
    labels: dict[str, str], terms: list[tuple[str, str, list[str]]]
) -> None:
    texts, expected = [], True
    for key, operator, values in terms:
        value = labels.get(key)
        match operator:
            case "=" | "!=":
                texts.append(f" {key} {operator} {values[0]}")
                expected &= (value == values[0]) is (operator == "=")
            case "in" | "notin":
                texts.append(f"{key} {operator} ( {' , '.join(values)} )")
                expected &= (value in values) is (operator == "in")
            case _:
                texts.append(f"{operator}{key}")
                expected &= (value is None) is (operator == "!")

    assert parse_label_selector(",".join(texts)).matches(labels) is expected


def escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")


@given(st.lists(st.tuples(st.sampled_from(["metadata.name", "a"]), st.booleans(), st.text(max_size=6)), min_size=1))
def test_any_value_can_be_escaped_in_a_field_selector(terms: list[tuple[str, bool, str]]) -> None:
    text = ",".join(f"{field}{'=' if equal else '!='}{escaped(value)}" for field, equal, value in terms)

    assert parse_field_selector(text) == FieldSelector(tuple(FieldTerm(f, value, equal) for f, equal, value in terms))
