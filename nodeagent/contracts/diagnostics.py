"""What the running agent tells operators of pods and of itself: the answers to ``why`` and ``status``."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from nodeagent.model.wire import WireStruct

WHY_QUERY = "why"
"""Asked with a :class:`WhyRequest`, answered with a :class:`PodExplanation`."""
STATUS_QUERY = "status"
"""Asked without arguments, answered with a :class:`NodeOverview`."""


class Stage(StrEnum):
    """What a pod goes through until it serves, in the order in which it is shown."""

    ADMIT = "admit"
    VOLUMES = "volumes"
    PULL = "pull"
    SANDBOX = "sandbox"
    START = "start"
    READY = "ready"
    END = "end"
    """Only of a pod that is on its way out, or has ended."""


class StageState(StrEnum):
    DONE = "done"
    WORKING = "working"
    """Under way, and nothing went wrong so far."""
    BLOCKED = "blocked"
    """Tried, and it failed or is refused; the cause is told."""
    WAITING = "waiting"
    """Its turn comes after the stages before it."""


class StageReport(WireStruct, frozen=True, omit_defaults=False):
    """How far one stage is."""

    stage: Stage
    state: StageState
    at: datetime | None = None
    """When it was done, or when what it does or fails at now began."""
    detail: str = ""
    """What is done or missing."""
    reason: str = ""
    """CamelCase, of one that is blocked."""
    containers: list[str] = msgspec.field(default_factory=list)
    """Those that it is about, when it is not the whole pod."""


class PodEvent(WireStruct, frozen=True, omit_defaults=False):
    """Something that happened to the pod in this run of the agent; equal ones are one with a count."""

    type: str
    reason: str
    note: str
    count: int
    first: datetime
    last: datetime
    field_path: str = ""


class WhyRequest(WireStruct, frozen=True):
    """Asks about one pod."""

    namespace: str
    name: str


class PodExplanation(WireStruct, frozen=True, omit_defaults=False):
    """Where a pod is on its way, and what keeps it there."""

    namespace: str
    name: str
    uid: str
    source: str
    """``api``, ``file``, ``http`` or a third party's."""
    phase: str
    ready: bool
    stages: list[StageReport]
    blocking: Stage | None = None
    """The first stage that is not done; ``None`` for a pod that serves or has ended."""
    blocked: bool = False
    """Whether something failed there; else it is only not done yet."""
    reason: str = ""
    cause: str = ""
    plugin: str = ""
    """Whose decision it is, where a plugin holds the pod back."""
    next_try_seconds: float | None = None
    """When the agent tries next; 0 is now, ``None`` when something else has to happen first."""
    remedy: str = ""
    events: list[PodEvent] = msgspec.field(default_factory=list)


class PodLine(WireStruct, frozen=True, omit_defaults=False):
    """A pod in the overview."""

    namespace: str
    name: str
    uid: str
    phase: str
    ready: bool
    containers_ready: int
    containers: int
    restarts: int
    stage: Stage | None
    blocked: bool
    reason: str
    cause: str
    started_at: datetime | None = None


class ConditionLine(WireStruct, frozen=True, omit_defaults=False):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    since: str = ""


class PullLine(WireStruct, frozen=True, omit_defaults=False):
    """An image that is being pulled, or waits for its turn."""

    image: str
    pods: list[str]
    seconds: float
    waits: bool = False
    asks: bool = False
    """Whether its credentials are asked for still."""


class LoopLine(WireStruct, frozen=True, omit_defaults=False):
    """A loop of the agent. ``problem`` is empty while it does well."""

    name: str
    problem: str = ""


class GaugeLine(WireStruct, frozen=True, omit_defaults=False):
    """How much of something is used, in bytes, inodes, nanocores or processes as its name tells."""

    name: str
    used: int
    capacity: int


class NodeOverview(WireStruct, frozen=True, omit_defaults=False):
    """The node at a glance."""

    node: str
    version: str
    at: datetime
    started_at: datetime
    ready: bool
    runtime: str
    api_server: str
    """Empty while it answers or none is used; else what is wrong."""
    conditions: list[ConditionLine]
    gauges: list[GaugeLine]
    pods: list[PodLine]
    pulls: list[PullLine]
    loops: list[LoopLine]
