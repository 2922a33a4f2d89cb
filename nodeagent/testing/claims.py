"""Fake of a driver that prepares resource claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nodeagent.contracts.claims import ClaimReference, PreparedDevice, PrepareResult, PublishHealth
from nodeagent.errors import ClaimError


@dataclass
class FakeClaimDriver:
    """Driver that prepares one device per claim, ``example.com/gpu=<UID>``."""

    name: str = "gpu.example.com"
    endpoint: str = "fake"
    prepared: list[str] = field(default_factory=list)
    """UIDs of the claims that were prepared, one per call and claim."""
    unprepared: list[str] = field(default_factory=list)
    failure: str = ""
    """Error of each call."""
    errors: dict[str, str] = field(default_factory=dict)
    """Errors by UID of the claim."""

    async def prepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, PrepareResult]:
        self._check()
        self.prepared += [claim.uid for claim in claims]
        return {claim.uid: self._result(claim) for claim in claims}

    async def unprepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, str]:
        self._check()
        self.unprepared += [claim.uid for claim in claims]
        return {claim.uid: self.errors.get(claim.uid, "") for claim in claims}

    async def watch_health(self, publish: PublishHealth) -> None:
        """Return, since the health is not reported."""

    def _result(self, claim: ClaimReference) -> PrepareResult:
        if claim.uid in self.errors:
            return PrepareResult(error=self.errors[claim.uid])
        return PrepareResult([PreparedDevice("node-1", "gpu-0", ("one",), (f"example.com/gpu={claim.uid}",))])

    def _check(self) -> None:
        if self.failure:
            raise ClaimError(self.failure)
