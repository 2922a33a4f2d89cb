"""Label and field selectors of both binaries: parser and matching. No I/O.

Custom, since client packages send selectors without parsing them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from nodeagent.base.gointeger import IntegerError, parse_int64
from nodeagent.base.names import label_value_problems, qualified_name_problems
from nodeagent.base.structs import Struct

_TOKEN = re.compile(r"\s*(==|!=|=|!|<|>|,|\(|\)|[^\s=!<>,()]+)")


class SelectorError(ValueError):
    """The text is not a selector; the message equals upstream's."""


class Requirement(Struct, frozen=True):
    """One condition on one label; *operator* is ``in``, ``notin``, ``exists``, ``!``, ``>`` or ``<``."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether *labels* meet the condition; ``notin`` also holds for a missing label."""
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value in self.values
            case "notin":
                return value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
            case _:
                return _compares(value, self.operator, next(iter(self.values)))


class LabelSelector(Struct, frozen=True):
    """Conjunction of requirements; without any it matches everything and is false."""

    requirements: tuple[Requirement, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.requirements)

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """Return whether *labels* meet every requirement."""
        return all(requirement.matches(labels or {}) for requirement in self.requirements)


class FieldTerm(Struct, frozen=True):
    """Condition ``field = value``, or ``!=`` if not *equal*."""

    field: str
    value: str
    equal: bool = True


class FieldSelector(Struct, frozen=True):
    """Conjunction of terms; without any it matches everything and is false."""

    terms: tuple[FieldTerm, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.terms)

    def matches(self, field: Callable[[str], str]) -> bool:
        """Return whether every term holds for the values that *field* returns; a missing one is the empty string."""
        return all((field(term.field) == term.value) is term.equal for term in self.terms)

    def pinned(self, field: str) -> str | None:
        """Return the value that the selector requires *field* to equal, if any."""
        return next((term.value for term in self.terms if term.field == field and term.equal), None)


def parse_label_selector(text: str) -> LabelSelector:
    """Parse ``a=b,c!=d,e in (f,g),h notin (i),j,!k,l>3``.

    :raises SelectorError: *text* does not follow the grammar or has an invalid label.
    """
    return LabelSelector(tuple(_LabelParser(text).parse())) if text.strip() else LabelSelector()


def parse_field_selector(text: str) -> FieldSelector:
    r"""Parse ``a=b,c==d,e!=f``; a backslash escapes ``,``, ``=`` and itself.

    Like upstream, a term without field and value selects everything.

    :raises SelectorError: *text* does not follow the grammar.
    """
    terms = (_field_term(part) for part in _split_escaped(text) if part)
    return FieldSelector(tuple(term for term in terms if term.field or term.value))


class _LabelParser:
    def __init__(self, text: str) -> None:
        self._tokens = [match.group(1) for match in _TOKEN.finditer(text)]
        self._at = 0

    def parse(self) -> list[Requirement]:
        requirements = [self._requirement()]
        while (element := self._next()) != "":
            if element != ",":
                raise SelectorError(f"found '{element}', expected: ',' or 'end of string'")
            if self._peek() == "":
                raise SelectorError("found '', expected: identifier after ','")
            requirements.append(self._requirement())
        return requirements

    def _requirement(self) -> Requirement:
        absent = self._peek() == "!"
        if absent:
            self._next()
        key = self._next()
        if absent and not _is_word(key):
            raise SelectorError(f"unable to parse requirement: found '{key}', expected: identifier")
        if not _is_word(key):
            raise SelectorError(f"found '{key}', expected: !, identifier, or 'end of string'")
        if problems := qualified_name_problems(key):
            raise SelectorError(f'unable to parse requirement: <nil>: Invalid value: "{key}": {"; ".join(problems)}')
        if absent:
            return Requirement(key, "!")
        if self._peek() in ("", ","):
            return Requirement(key, "exists")
        operator = self._next()
        match operator:
            case "=" | "==":
                operator, values = "in", frozenset([self._value()])
            case "!=":
                operator, values = "notin", frozenset([self._value()])
            case "in" | "notin":
                values = self._values()
            case ">" | "<":
                values = frozenset([self._value()])
            case _:
                raise SelectorError(
                    f"unable to parse requirement: found '{operator}', expected: in, notin, =, ==, !=, gt, lt"
                )
        _check_values(key, operator, values)
        return Requirement(key, operator, values)

    def _value(self) -> str:
        if self._peek() in ("", ","):
            return ""
        value = self._next()
        if not _is_word(value):
            raise SelectorError(f"unable to parse requirement: found '{value}', expected: identifier")
        return value

    def _values(self) -> frozenset[str]:
        if (element := self._next()) != "(":
            raise SelectorError(f"unable to parse requirement: found '{element}' expected: '('")
        values, expect_value = set(), True
        while (element := self._next()) != ")":
            if element == "":
                raise SelectorError("unable to parse requirement: found '', expected: ',' or ')'")
            if element == ",":
                if expect_value:
                    values.add("")
                expect_value = True
            elif expect_value and _is_word(element):
                values.add(element)
                expect_value = False
            else:
                raise SelectorError(f"unable to parse requirement: found '{element}', expected: ',' or ')'")
        if expect_value:
            values.add("")
        return frozenset(values)

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        element = self._peek()
        self._at += 1
        return element


def _is_word(element: str) -> bool:
    return bool(element) and element[0] not in "=!<>,()"


def _compares(value: str | None, operator: str, bound: str) -> bool:
    try:
        number = parse_int64(value or "")
    except IntegerError:
        return False
    return number > int(bound) if operator == ">" else number < int(bound)


def _check_values(key: str, operator: str, values: frozenset[str]) -> None:
    """Check the values of a requirement, in the order of upstream.

    :raises SelectorError: a value is not a valid label value, or not an integer where one is compared.
    """
    problems = []
    ordered = sorted(values) if len(values) > 1 else values
    if operator in (">", "<"):
        (bound,) = values
        try:
            parse_int64(bound)
        except IntegerError:
            rule = "for 'Gt', 'Lt' operators, the value must be an integer"
            problems.append(f'values[0]: Invalid value: "{bound}": {rule}')
    for index, value in enumerate(ordered):
        if rules := label_value_problems(value):
            problems.append(f'values[{index}][{key}]: Invalid value: "{value}": {"; ".join(rules)}')
    if problems:
        text = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
        raise SelectorError(f"unable to parse requirement: {text}")


def _split_escaped(text: str) -> list[str]:
    parts, current, escaped = [], "", False
    for character in text:
        if escaped:
            current += "\\" + character
            escaped = False
        elif character == "\\":
            escaped = True
        elif character == ",":
            parts.append(current)
            current = ""
        else:
            current += character
    if escaped:
        current += "\\"
    return [*parts, current]


def _field_term(text: str) -> FieldTerm:
    for index, character in enumerate(text):
        if character == "\\":
            break  # Escapes are valid only in values.
        for operator in ("!=", "==", "="):
            if text.startswith(operator, index):
                field, value = text[:index], _unescape(text[index + len(operator) :])
                return FieldTerm(field, value, operator != "!=")
    raise SelectorError(f"invalid selector: '{text}'; can't understand '{text}'")


def _unescape(text: str) -> str:
    value, characters = "", iter(text)
    for character in characters:
        if character == "\\":
            following = next(characters, "")
            if following not in ("\\", ",", "="):
                raise SelectorError(f"invalid field selector: invalid escape sequence: \\{following}")
            value += following
        elif character == "=":
            raise SelectorError("invalid field selector: unescaped character in value: 61")
        else:
            value += character
    return value
