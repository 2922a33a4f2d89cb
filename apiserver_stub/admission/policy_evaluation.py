"""Evaluation of admission policies: conditions and variables; validations and audit annotations. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.cel import CelError
from apiserver_stub.cel.admission import AdmissionExpression
from apiserver_stub.cel.budget import CONDITIONS_LIMIT, Budget, OutOfBudget
from nodeagent.base.structs import Struct

_REFERENCE = re.compile(r"""\bvariables\s*(?:\.\s*(\w+)|\[\s*(?:'(\w+)'|"(\w+)")\s*\])""")
_MISSING = re.compile(r"no such key: (\w+)")
_MESSAGE_BYTES = 5 * 1024
_ANNOTATION_BYTES = 10 * 1024


class Failure(Struct, frozen=True):
    """A validation that is false, or an expression whose evaluation failed."""

    message: str
    reason: str = "Invalid"
    index: int = 0
    """Position of the validation in the policy."""


class Policy:
    """One policy, compiled: the parts of all policies."""

    def __init__(self, obj: Object) -> None:
        """Compile the expressions of *obj*.

        :raises CelError: an expression does not compile; stored policies are validated, so theirs do.
        """
        spec = obj.get("spec") or {}
        self.name: str = obj["metadata"]["name"]
        self.fails_closed = spec.get("failurePolicy") != "Ignore"
        self.match: Object = spec.get("matchConstraints") or {}
        self.param_kind: Object = spec.get("paramKind") or {}
        self.conditions = [AdmissionExpression(item["expression"]) for item in spec.get("matchConditions") or ()]
        self.variables = {item["name"]: AdmissionExpression(item["expression"]) for item in spec.get("variables") or ()}


class ValidatingPolicy(Policy):
    """One validating policy, compiled."""

    def __init__(self, obj: Object) -> None:
        """Compile the expressions of *obj*.

        :raises CelError: an expression does not compile; stored policies are validated, so theirs do.
        """
        super().__init__(obj)
        spec = obj.get("spec") or {}
        self.validations = [
            (
                item,
                AdmissionExpression(item["expression"]),
                AdmissionExpression(item["messageExpression"]) if item.get("messageExpression") else None,
            )
            for item in spec.get("validations") or ()
        ]
        self.annotations = [
            (item["key"], AdmissionExpression(item["valueExpression"])) for item in spec.get("auditAnnotations") or ()
        ]


class Evaluation:
    """Evaluation of a policy for one request and one parameter object."""

    def __init__(self, policy: Policy, data: dict[str, Any]) -> None:
        self._policy, self._data = policy, data
        self._budget = Budget()
        self._values: dict[str, Any] = {}
        self._errors: dict[str, CelError] = {}

    def applies(self) -> bool:
        """Return whether all match conditions hold; a false one takes precedence over errors in others.

        :raises CelError: the evaluation of a condition failed and no other one is false, or they cost too much.
        """
        errors, budget = [], Budget(CONDITIONS_LIMIT)
        for condition in self._policy.conditions:
            try:
                if condition.evaluate(self._data, budget) is not True:
                    return False
            except OutOfBudget:
                raise
            except CelError as error:
                errors.append(_evaluation_error(condition, error))
        if errors:
            raise CelError(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")
        return True

    def value(self, expression: AdmissionExpression) -> Any:
        """Return the value of *expression*; the variables that it refers to are evaluated once each."""
        names = [next(filter(None, match)) for match in _REFERENCE.findall(expression.text)]
        for name in names:
            self._evaluate(name)
        try:
            return expression.evaluate({**self._data, "variables": self._values}, self._budget)
        except OutOfBudget:
            raise
        except CelError as error:
            missing = _MISSING.search(str(error))
            cause = self._errors.get(missing[1]) if missing is not None else None
            if cause is None or missing is None:
                raise
            raise CelError(f'composited variable "{missing[1]}" fails to evaluate: {cause}') from None

    def _evaluate(self, name: str) -> None:
        if name in self._values or name in self._errors or name not in self._policy.variables:
            return
        try:
            self._values[name] = self.value(self._policy.variables[name])
        except OutOfBudget:
            raise
        except CelError as error:
            self._errors[name] = error


class Validation(Evaluation):
    """Evaluation of a validating policy."""

    def __init__(self, policy: ValidatingPolicy, data: dict[str, Any]) -> None:
        super().__init__(policy, data)
        self._validations, self._annotations = policy.validations, policy.annotations

    def failures(self) -> Iterator[Failure]:
        """Yield a failure for each validation that is false, or that cannot be evaluated if the policy fails closed.

        If the validations cost too much together, that is the only failure.
        """
        results: list[tuple[int, bool | CelError]] = []
        try:
            for index, (_, expression, _) in enumerate(self._validations):
                try:
                    results.append((index, self.value(expression) is True))
                except OutOfBudget:
                    raise
                except CelError as error:
                    results.append((index, error))
        except OutOfBudget as error:
            if self._policy.fails_closed:
                yield Failure(str(error))
            return
        for index, result in results:
            item, expression, message = self._validations[index]
            if isinstance(result, CelError):
                if self._policy.fails_closed:
                    yield Failure(_evaluation_error(expression, result), index=index)
            elif not result:
                yield Failure(self._message(item, message), item.get("reason") or "Invalid", index)

    def annotations(self) -> Iterator[tuple[str, str] | Failure]:
        """Yield the key and value of each audit annotation, or a failure if it cannot be evaluated."""
        self._budget = Budget()
        for key, expression in self._annotations:
            try:
                value = self.value(expression)
            except OutOfBudget as error:
                if self._policy.fails_closed:
                    yield Failure(str(error))
                return
            except CelError as error:
                if self._policy.fails_closed:
                    yield Failure(_evaluation_error(expression, error))
                continue
            if isinstance(value, str) and (text := value.strip()):
                yield key, text.encode()[:_ANNOTATION_BYTES].decode(errors="ignore")

    def _message(self, item: Object, expression: AdmissionExpression | None) -> str:
        if expression is not None:
            try:
                value = self.value(expression)
            except CelError:
                value = None
            text = value.strip() if isinstance(value, str) else ""
            if text and "\n" not in text and len(text.encode()) <= _MESSAGE_BYTES:
                return text
        return str(item.get("message") or "").strip() or f"failed expression: {str(item['expression']).strip()}"


def _evaluation_error(expression: AdmissionExpression, error: CelError) -> str:
    return f"expression '{expression.text}' resulted in error: {error}"
