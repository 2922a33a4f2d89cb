"""Expressions whose evaluation has cost limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from apiserver_stub.cel import CelError, Expression, first_line
from apiserver_stub.cel.budget import Budget, CallLimitExceeded, Meter
from apiserver_stub.cel.metering import instrumented

if TYPE_CHECKING:
    from cel_expr_python import cel

_ITERATIONS = "Iteration budget exceeded"
"""Error of the library after 10,000 iterations, which it does not permit to raise."""


class MeteredExpression(Expression):
    """An expression of a stored object or a configuration file, to be evaluated for the requests of users."""

    def __init__(
        self,
        text: str,
        environment: cel.Env,
        error: cel.Type,
        compiled: str = "",
        rewrite: Callable[[bytes], bytes] = bytes,
    ) -> None:
        """Compile *text*, whose types were checked before.

        :param environment: has the functions of :func:`apiserver_stub.cel.metering.metered`.
        :param error: type of errors.
        :param compiled: expression to compile instead of *text*.
        :param rewrite: changes the parsed expression, a ``cel.expr.ParsedExpr`` in ``google.protobuf.Any``.
        :raises CelError: it does not compile.
        """
        try:
            parsed = environment.compile(compiled or text, disable_check=True)
            expression, self._cost = instrumented(rewrite(parsed.serialize()))
            program = environment.deserialize(expression)
        except RuntimeError as problem:
            raise CelError(f"compilation failed: {first_line(problem)}") from None
        super().__init__(text, program, error)

    def evaluate(self, data: Mapping[str, Any], budget: Budget | None = None) -> Any:
        """Return the value as plain data.

        :param budget: pays for the evaluation.
        :raises CallLimitExceeded: the evaluation costs too much.
        :raises OutOfBudget: it costs more than the rest of *budget*.
        :raises CelError: it has no value for *data*.
        """
        outer, meter = Meter.current, Meter(self._cost)
        Meter.current = meter
        try:
            value, problem = super().evaluate(data), None
        except CelError as error:
            value, problem = None, error
        finally:
            Meter.current = outer
        if budget is not None:
            budget.spend(meter.spent)
        if meter.exceeded or (problem is not None and _ITERATIONS in str(problem)):
            raise CallLimitExceeded from problem
        if problem is not None:
            raise problem
        return value
