"""Cost limits of evaluations, in the units of kube-apiserver (about 50 ns there). No I/O."""

from __future__ import annotations

from apiserver_stub.cel import CelError

CALL_LIMIT = 1_000_000
"""Limit of one evaluation of one expression."""
TOTAL_LIMIT = 10_000_000
"""Limit of all rules for one object, and of all validations of one policy for one request."""
CONDITIONS_LIMIT = 2_500_000
"""Limit of all match conditions of one webhook or policy for one request."""
OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"


class CallLimitExceeded(CelError):
    """The evaluation of one expression costs too much."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


class OutOfBudget(CelError):
    """The evaluations of several expressions cost too much; no further one is possible."""

    def __init__(self) -> None:
        super().__init__(OUT_OF_BUDGET)


class Budget:
    """Budget that several evaluations share."""

    def __init__(self, limit: int = TOTAL_LIMIT) -> None:
        self._remaining = limit

    def spend(self, cost: int) -> None:
        """Subtract *cost*.

        :raises OutOfBudget: it exceeds the remaining budget.
        """
        self._remaining -= cost
        if self._remaining < 0:
            raise OutOfBudget


class Meter:
    """Cost of one evaluation."""

    __slots__ = ("spent",)

    current: Meter | None = None
    """That of the evaluation in progress."""

    def __init__(self, spent: int) -> None:
        self.spent = spent

    @property
    def exceeded(self) -> bool:
        return self.spent > CALL_LIMIT


def charge(cost: int) -> None:
    """Add *cost* to the evaluation in progress.

    :raises CallLimitExceeded: it exceeds the limit.
    """
    if (meter := Meter.current) is not None:
        meter.spent += cost
        if meter.exceeded:
            raise CallLimitExceeded


def permits(cost: int) -> bool:
    """Add *cost* to the evaluation in progress and return whether it may continue.

    Loops call it before each iteration: an error would not end them, because ``all`` and ``exists`` absorb errors.
    """
    meter = Meter.current
    if meter is None:
        return True
    meter.spent += cost
    return not meter.exceeded
