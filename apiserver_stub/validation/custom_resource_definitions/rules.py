"""Types of the CEL rules in schemas of definitions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, invalid_value, quote
from apiserver_stub.cel import CelError
from apiserver_stub.cel.schema_rules import RuleChecker, uses_old_self
from apiserver_stub.schema.structural.tree import Node
from apiserver_stub.validation.custom_resource_definitions.rule_costs import Costs
from apiserver_stub.validation.schema_rules.sizes import max_children, max_count, shapes_of
from apiserver_stub.validation.schema_rules.types import ObjectTypes, kind_of
from nodeagent.base.structs import Struct

Known = frozenset[tuple[str, str]]
"""Rules of the stored definition with their message expressions."""


def rules_in(node: Node) -> Known:
    """Return the rules in *node*."""
    own = {(rule.get("rule") or "", rule.get("messageExpression") or "") for rule in node.rules}
    return frozenset(own.union(*(rules_in(below) for below in node.below())))


def validate_rules(node: Node, field: str, known: Known, costs: Costs) -> Iterator[Cause]:
    """Yield the errors in the rules of the schema *node*, which is valid otherwise.

    :param known: rules that may have errors, because the stored definition has them.
    """
    yield from _validate_level(node, field, _Scope(known, costs), is_root=True)
    yield from costs.validate(field)


class _Scope(Struct, frozen=True):
    """Position in a schema.

    :param uncorrelated: path of the enclosing list whose items have no stored values.
    :param count: greatest number of values here in one object; ``None`` if there is no limit.
    """

    known: Known
    costs: Costs
    uncorrelated: str = ""
    count: int | None = 1

    def below(self, node: Node, uncorrelated: str = "") -> _Scope:
        """Return the scope of the values below those of *node*."""
        factor = max_children(node)
        count = None if self.count is None or factor is None else self.count * factor
        return replace(self, uncorrelated=uncorrelated or self.uncorrelated, count=count)


def _validate_level(node: Node, field: str, scope: _Scope, *, is_root: bool = False) -> Iterator[Cause]:
    if node.rules and not kind_of(node):
        text = "Internal error: failed to convert to declType for CEL validation rules"  # wording: ok
        yield Cause("InternalError", text, f"{field}.x-kubernetes-validations")
    elif node.rules:
        types = ObjectTypes()
        checker = RuleChecker(types.add(node, is_resource=is_root), types.found, shapes_of(node, is_resource=is_root))
        count = max_count(node, is_resource=is_root) if scope.count is None else scope.count
        for index, rule in enumerate(node.rules):
            yield from _validate_rule(rule, f"{field}.x-kubernetes-validations[{index}]", checker, scope, count)
    below = scope.below(node)
    for name, child in sorted(node.properties.items()):
        yield from _validate_level(child, f"{field}.properties[{name}]", below)
    if node.values is not None:
        yield from _validate_level(node.values, f"{field}.additionalProperties", below)
    if node.items is not None:
        uncorrelated = "" if node.list_type == "map" else field
        yield from _validate_level(node.items, f"{field}.items", scope.below(node, scope.uncorrelated or uncorrelated))


def _validate_rule(rule: Object, field: str, checker: RuleChecker, scope: _Scope, count: int) -> Iterator[Cause]:
    text, expression = rule.get("rule") or "", rule.get("messageExpression") or ""
    optional, is_known = rule.get("optionalOldSelf"), (text, expression) in scope.known
    try:
        cost = checker.check_rule(text, optional_old=bool(optional))
    except CelError as error:
        if not is_known:
            yield _invalid(f"{field}.rule", rule, str(error))
    else:
        yield from scope.costs.add(cost * count, f"{field}.rule", "rule")
        yield from _check_message(rule, expression, field, checker, scope)
    if not uses_old_self(text):
        if optional is not None:
            yield invalid_value(f"{field}.optionalOldSelf", optional, "may not be set if oldSelf is not used in rule")
    elif scope.uncorrelated:
        detail = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {scope.uncorrelated}"
        yield invalid_value(f"{field}.rule", text, detail)


def _check_message(rule: Object, expression: str, field: str, checker: RuleChecker, scope: _Scope) -> Iterator[Cause]:
    if not expression:
        return
    try:
        cost = checker.check_message(expression)
    except CelError as error:
        if (rule.get("rule") or "", expression) not in scope.known:
            yield _invalid(f"{field}.messageExpression", rule, str(error))
    else:
        yield from scope.costs.add(cost, f"{field}.messageExpression", "messageExpression")


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
