"""Types of the CEL rules in schemas of definitions."""

from __future__ import annotations

from collections.abc import Iterator

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, invalid_value, quote
from apiserver_stub.cel import CelError
from apiserver_stub.cel.schema_rules import RuleChecker, uses_old_self
from apiserver_stub.schema.structural.tree import Node
from apiserver_stub.validation.schema_rules.types import ObjectTypes, kind_of

Known = frozenset[tuple[str, str]]
"""Rules of the stored definition with their message expressions."""


def rules_in(node: Node) -> Known:
    """Return the rules in *node*."""
    own = {(rule.get("rule") or "", rule.get("messageExpression") or "") for rule in node.rules}
    return frozenset(own.union(*(rules_in(below) for below in node.below())))


def validate_rules(
    node: Node, field: str, known: Known, *, is_root: bool = False, uncorrelated: str = ""
) -> Iterator[Cause]:
    """Yield the errors in the rules of *node*, whose schema is valid otherwise.

    :param known: rules that are not compiled again.
    :param uncorrelated: path of the enclosing list whose items have no stored values.
    """
    if node.rules and not kind_of(node):
        text = "Internal error: failed to convert to declType for CEL validation rules"  # wording: ok
        yield Cause("InternalError", text, f"{field}.x-kubernetes-validations")
    elif node.rules:
        types = ObjectTypes()
        checker = RuleChecker(types.add(node, is_resource=is_root), types.found)
        for index, rule in enumerate(node.rules):
            yield from _validate_rule(rule, f"{field}.x-kubernetes-validations[{index}]", checker, known, uncorrelated)
    for name, below in sorted(node.properties.items()):
        yield from validate_rules(below, f"{field}.properties[{name}]", known, uncorrelated=uncorrelated)
    if node.values is not None:
        yield from validate_rules(node.values, f"{field}.additionalProperties", known, uncorrelated=uncorrelated)
    if node.items is not None:
        path = uncorrelated or ("" if node.list_type == "map" else field)
        yield from validate_rules(node.items, f"{field}.items", known, uncorrelated=path)


def _validate_rule(rule: Object, field: str, checker: RuleChecker, known: Known, uncorrelated: str) -> Iterator[Cause]:
    text, expression = rule.get("rule") or "", rule.get("messageExpression") or ""
    optional = rule.get("optionalOldSelf")
    if (text, expression) not in known:
        try:
            checker.check_rule(text, optional_old=bool(optional))
        except CelError as error:
            yield _invalid(f"{field}.rule", rule, str(error))
        else:
            yield from _check_message(rule, expression, field, checker)
    if not uses_old_self(text):
        if optional is not None:
            yield invalid_value(f"{field}.optionalOldSelf", optional, "may not be set if oldSelf is not used in rule")
    elif uncorrelated:
        detail = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelated}"
        yield invalid_value(f"{field}.rule", text, detail)


def _check_message(rule: Object, expression: str, field: str, checker: RuleChecker) -> Iterator[Cause]:
    if expression:
        try:
            checker.check_message(expression)
        except CelError as error:
            yield _invalid(f"{field}.messageExpression", rule, str(error))


def _invalid(field: str, rule: Object, detail: str) -> Cause:
    """Return the error for *rule*, which it shows in the form of Go."""
    texts = ", ".join(
        f"{name}:{quote(rule.get(key) or '')}"
        for name, key in (("Rule", "rule"), ("Message", "message"), ("MessageExpression", "messageExpression"))
    )
    reason = "(*apiextensions.FieldValueErrorReason)(nil)"
    path = f"FieldPath:{quote(rule.get('fieldPath') or '')}, OptionalOldSelf:(*bool)(nil)"
    value = f"apiextensions.ValidationRule{{{texts}, Reason:{reason}, {path}}}"
    return Cause("FieldValueInvalid", f"Invalid value: {value}: {detail}", field)
