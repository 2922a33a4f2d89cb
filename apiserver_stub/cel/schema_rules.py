"""Expressions in the schemas of custom kinds: type checks, and evaluation for a value and its stored value."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from apiserver_stub.cel import BOOL, DYN, STRING, CelError, library, types
from apiserver_stub.cel.budget import Budget
from apiserver_stub.cel.cost import estimated_cost
from apiserver_stub.cel.cost_bounds import Path, Shape
from apiserver_stub.cel.issues import issues_of
from apiserver_stub.cel.metered_expression import MeteredExpression
from apiserver_stub.cel.metering import metered
from apiserver_stub.cel.signatures import evaluated, typed
from nodeagent.base.aging_cache import aging_cache

if TYPE_CHECKING:
    from cel_expr_python import cel

SELF, OLD_SELF = "self", "oldSelf"
_OPTIONAL_OLD = "storedValues"
_QUOTED = re.compile(r'''"""(?s:.*?)"""|"(?:[^"\\\n]|\\.)*"|\'(?:[^'\\\n]|\\.)*\'|//[^\n]*''')
_OLD = re.compile(rf"(?<![\w.]){OLD_SELF}\b")
_CACHED = 512


def uses_old_self(text: str) -> bool:
    """Return whether the expression *text* refers to the stored value."""
    return OLD_SELF in text and _OLD.search(_QUOTED.sub("''", text)) is not None


class RuleExpression(MeteredExpression):
    """An expression of a stored definition, to be evaluated."""

    def __init__(self, text: str, *, optional_old: bool = False) -> None:
        """Compile *text*, whose types were checked when it was stored.

        :param optional_old: ``oldSelf`` is an optional value.
        :raises CelError: it does not compile.
        """
        self._optional_old = optional_old
        environment, error = _evaluation()
        super().__init__(text, environment, error, _bound(text) if optional_old else "")

    def of(self, value: Any, old: Any, budget: Budget, *, has_old: bool) -> Any:
        """Return the result for *value* and its stored value *old*, both with CEL values.

        :param budget: pays for the evaluation.
        :raises CallLimitExceeded: the evaluation costs too much.
        :raises OutOfBudget: it costs more than the rest of *budget*.
        :raises CelError: it has none.
        """
        data = {SELF: value}
        if self._optional_old:
            data[_OPTIONAL_OLD] = [old] if has_old else []
        elif has_old:
            data[OLD_SELF] = old
        return self.evaluate(data, budget)


@aging_cache(_CACHED)
def rule_expression(text: str, *, optional_old: bool = False) -> RuleExpression:
    """Return the compiled expression *text*.

    :raises CelError: it does not compile.
    """
    return RuleExpression(text, optional_old=optional_old)


class RuleChecker:
    """An environment to compile the rules of one schema in, for their errors and types only."""

    def __init__(
        self, kind: str, messages: Mapping[str, Mapping[str, str]], shape_of: Callable[[Path], Shape | None]
    ) -> None:
        """Declare ``self`` and ``oldSelf``.

        :param kind: their type, see :func:`apiserver_stub.cel.types.type_of`.
        :param messages: the object types by name.
        :param shape_of: describes the values at a path that starts with a variable.
        """
        from cel_expr_python import cel
        from cel_expr_python.ext import ext_optional

        self._shape_of = shape_of
        declared = types.type_of(kind)
        self._environment = cel.NewEnv(
            descriptor_pool=types.schema_pool(messages),
            variables={SELF: declared, OLD_SELF: declared, _OPTIONAL_OLD: cel.Type.List(declared)},
            extensions=[ext_optional.ExtOptional()],
            functions=typed(library.FUNCTIONS),
        )

    def check_rule(self, text: str, *, optional_old: bool) -> int:
        """Compile a rule, and return its greatest cost.

        :raises CelError: it does not compile, or cannot evaluate to a boolean.
        """
        kind, cost = self._compile(_bound(text) if optional_old else text)
        if kind not in (BOOL, DYN):
            raise CelError("cel expression must evaluate to a bool")
        return cost

    def check_message(self, text: str) -> int:
        """Compile the expression of a message, and return its greatest cost.

        :raises CelError: it does not compile, or cannot evaluate to a text.
        """
        try:
            kind, cost = self._compile(text)
        except CelError as error:
            raise CelError(f"messageExpression {error}") from None
        if kind not in (STRING, DYN):
            raise CelError("messageExpression must evaluate to a string")
        return cost

    def _compile(self, text: str) -> tuple[str, int]:
        """Return the type of *text*, and its greatest cost."""
        try:
            compiled = self._environment.compile(text)
        except RuntimeError as error:
            if issues := issues_of(error):
                raise CelError(f"compilation failed: {issues}") from None
            return BOOL, self._cost_without_types(text)
        return str(compiled.return_type().name()).lower(), self._estimated(compiled)

    def _cost_without_types(self, text: str) -> int:
        """Return the greatest cost of *text*, which compares numbers of different types; 0 if they are literals."""
        try:
            return self._estimated(_untyped().compile(text))
        except RuntimeError:
            return 0

    def _estimated(self, compiled: cel.Expression) -> int:
        return estimated_cost(compiled.serialize(), self._shape_of)


def _bound(text: str) -> str:
    """Return *text* with ``oldSelf`` bound to an optional value."""
    stored = f"{_OPTIONAL_OLD}.size() > 0 ? optional.of({_OPTIONAL_OLD}[0]) : optional.none()"
    return f"[{stored}].map({OLD_SELF}, ({text}\n))[0]"


@cache
def _untyped() -> cel.Env:
    """Return the environment for estimates of expressions that the type checker does not support."""
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_optional

    return cel.NewEnv(
        variables=dict.fromkeys((SELF, OLD_SELF, _OPTIONAL_OLD), cel.Type.DYN),
        extensions=[ext_optional.ExtOptional()],
        functions=typed(library.FUNCTIONS),
    )


@cache
def _evaluation() -> tuple[cel.Env, cel.Type]:
    """Return the environment for evaluation, and the type of errors."""
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_optional

    environment = cel.NewEnv(
        variables=dict.fromkeys((SELF, OLD_SELF, _OPTIONAL_OLD), cel.Type.DYN),
        extensions=[ext_optional.ExtOptional()],
        functions=evaluated(metered(library.FUNCTIONS)),
    )
    return environment, cel.Type.ERROR
