"""Evaluation of the CEL rules of a schema for an object and its stored version. No I/O."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, NoReturn

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.cel import CelError
from apiserver_stub.cel.budget import Budget, CallLimitExceeded, OutOfBudget
from apiserver_stub.cel.schema_rules import rule_expression, uses_old_self
from apiserver_stub.schema.structural.tree import Node
from apiserver_stub.validation.schema_rules.field_paths import field_path_of
from apiserver_stub.validation.schema_rules.types import fields_of, kind_of
from apiserver_stub.validation.schema_rules.values import cel_value
from apiserver_stub.validation.schema_values import causes
from apiserver_stub.validation.schema_values.correlation import UNKNOWN, old_field, old_items
from nodeagent.base.structs import Struct

_BLOCKING = ("FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany")
_TYPE_INVALID = "FieldValueTypeInvalid"
_UNCHECKED = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete "
    "validation"
)
_LONGEST_MESSAGE = 5120
_NO_FURTHER = "no further validation rules will be run"
_UNSUPPORTED = "call arguments did not match a supported operator, function or macro signature for rule"  # wording: ok


def has_rules(node: Node) -> bool:
    """Return whether *node* or a part of it has rules."""
    return bool(node.rules) or any(has_rules(below) for below in node.below())


class _Ended(Exception):
    """The cost of the rules is too high; no further rules are evaluated."""


class _Pass(Struct, frozen=True):
    """Validation of one object: the errors found, and the budget of its rules."""

    causes: list[Cause]
    budget: Budget
    ratchets: bool
    """Values that do not change need not be valid."""

    def end(self, path: str, node: Node, detail: str) -> NoReturn:
        self.causes.append(causes.invalid(path, node.type, detail))
        raise _Ended


class SchemaRulesValidator:
    """Rules of the schema of one version."""

    def __init__(self, tree: Node, *, ratchets: bool = False) -> None:
        """Validate by the rules in *tree*.

        :param ratchets: values that do not change need not be valid, and rules may have an optional ``oldSelf``.
        """
        self._tree, self._ratchets = tree, ratchets
        self._with_rules = {id(node) for node in _walk(tree) if has_rules(node)}

    def validate(self, new: Object, old: Object | None, errors: Sequence[Cause]) -> list[Cause]:
        """Return the errors in *new*; *old* is the stored object of an update.

        :param errors: those found without rules; some of them make the evaluation of rules impossible.
        """
        if not self._with_rules:
            return []
        if any(error.reason in _BLOCKING or error.reason == _TYPE_INVALID for error in errors):
            return [causes.invalid("", None, _UNCHECKED)]
        found: list[Cause] = []
        with contextlib.suppress(_Ended):
            stored = UNKNOWN if old is None else old
            self._validate(self._tree, "", new, stored, _Pass(found, Budget(), self._ratchets), is_resource=True)
        return found

    def validate_default(self, value: Any) -> list[Cause]:
        """Return the errors in *value*, a default: as an unchanged value, or else as a new one."""
        for stored in (value, UNKNOWN):
            found: list[Cause] = []
            with contextlib.suppress(_Ended):
                run = _Pass(found, Budget(), ratchets=False)
                self._validate(self._tree, "", value, stored, run, is_resource=self._tree.is_resource)
            if found:
                return found
        return []

    def _validate(
        self, node: Node, path: str, value: Any, old: Any, found: _Pass, *, is_resource: bool = False
    ) -> None:
        if value is None or id(node) not in self._with_rules or not kind_of(node):
            return
        if node.rules:
            self._evaluate(node, path, value, old, found, is_resource=is_resource)
        if isinstance(value, list) and node.items is not None:
            stored = old_items(node.source, value, old) or [UNKNOWN] * len(value)
            for index, item in enumerate(value):
                self._validate(node.items, f"{path}[{index}]", item, stored[index], found)
        elif isinstance(value, dict):
            if node.values is not None:
                for key, item in sorted(value.items()):
                    self._validate(node.values, f"{path}[{key}]", item, old_field(old, key), found)
            for name, below in fields_of(node, is_resource=is_resource).items():
                if name in value:
                    field = f"{path}.{name}" if path else name
                    self._validate(below, field, value[name], old_field(old, name), found)

    def _evaluate(self, node: Node, path: str, value: Any, old: Any, found: _Pass, *, is_resource: bool) -> None:
        has_old = old is not UNKNOWN and old is not None
        self_value = cel_value(value, node, is_resource=is_resource)
        old_value = cel_value(old, node, is_resource=is_resource) if has_old else None
        for rule in node.rules:
            text, is_transition = str(rule.get("rule") or ""), uses_old_self(str(rule.get("rule") or ""))
            optional = bool(rule.get("optionalOldSelf")) and self._ratchets
            if not text.strip() or (is_transition and not has_old and not optional):
                continue
            if found.ratchets and not is_transition and has_old and value == old:
                continue
            shown = (rule.get("message") or text).strip()
            try:
                expression = rule_expression(text, optional_old=optional)
                result = expression.of(self_value, old_value, found.budget, has_old=has_old)
            except OutOfBudget as error:
                found.end(path, node, str(error))
            except CallLimitExceeded as error:
                found.end(path, node, f"'{error}': {_NO_FURTHER} due to call cost exceeds limit for rule: {shown}")
            except CelError as error:
                problem = str(error)
                detail = f"{problem} evaluating rule: {shown}"
                if problem.startswith("no such overload"):
                    detail = f"'{problem}': {_UNSUPPORTED}: {shown}"
                elif problem.startswith("compilation failed"):
                    detail = f"rule compile error: {problem}"
                found.causes.append(causes.invalid(path, node.type, detail))
                continue
            if result is not True:
                try:
                    detail = self._message(rule, optional, self_value, old_value, found.budget, has_old=has_old)
                except OutOfBudget:
                    problem = "messageExpression evaluation failed due to running out of cost budget"
                    found.end(path, node, f"{problem}, {_NO_FURTHER}")
                found.causes.append(_cause(rule, node, path, detail))

    def _message(self, rule: Object, optional: bool, value: Any, old: Any, budget: Budget, *, has_old: bool) -> str:
        """Return the text of the error for a violated *rule*.

        :raises OutOfBudget: the expression of the message costs more than the rest of *budget*.
        """
        if expression := rule.get("messageExpression"):
            try:
                text = rule_expression(expression, optional_old=optional).of(value, old, budget, has_old=has_old)
            except OutOfBudget:
                raise
            except CelError:
                text = None
            text = text.strip() if isinstance(text, str) else ""
            if 0 < len(text.encode()) <= _LONGEST_MESSAGE and "\n" not in text:
                return text
        message = (rule.get("message") or "").strip()
        return message or f"failed rule: {rule['rule'].strip()}"


def _cause(rule: Object, node: Node, path: str, detail: str) -> Cause:
    if below := field_path_of(rule.get("fieldPath") or "", node.source) if rule.get("fieldPath") else None:
        path = f"{path}.{below.removeprefix('.')}" if path else below.removeprefix(".")
    field = path or causes.NO_FIELD
    match rule.get("reason"):
        case "FieldValueForbidden":
            return Cause("FieldValueForbidden", f"Forbidden: {detail}", field)
        case "FieldValueRequired":
            return Cause("FieldValueRequired", f"Required value: {detail}", field)
        case "FieldValueDuplicate":
            return causes.duplicate(field, node.type)
        case _:
            return causes.invalid(path, node.type, detail)


def _walk(node: Node) -> list[Node]:
    return [node, *(found for below in node.below() for found in _walk(below))]
