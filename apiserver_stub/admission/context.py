"""Admission context: the components that an admission plugin is created from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import field

from apiserver_stub.admission.manifest_reloads import ManifestReloads
from apiserver_stub.admission.metrics import AdmissionMetrics
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.cel.authorization import Decide
from nodeagent.base.structs import Struct

if TYPE_CHECKING:
    from apiserver_stub.admission.listers import Lister
    from apiserver_stub.admission.webhooks.client import WebhookClient
    from apiserver_stub.kinds.registry import Registry
    from apiserver_stub.storage import Store
    from nodeagent.base.aio import Clock
    from nodeagent.base.gates import FeatureGates
    from nodeagent.base.identity import Identity
    from nodeagent.base.release import Release


class DefaultTolerations(Struct, frozen=True):
    """Seconds for which pods tolerate an unhealthy node unless their spec has a toleration for it."""

    not_ready_seconds: int
    unreachable_seconds: int


class AdmissionContext(Struct, frozen=True, kw_only=True):
    """The components for the creation of one plugin; all of them exist when ``create`` is called."""

    config: Object
    """The plugin's own configuration in ``--admission-control-config-file``; empty without one."""
    config_dir: Path
    """The directory of that file, to which relative paths in the configuration refer."""
    store: Store
    """The storage of the server. Plugins read from :attr:`lister` unless they need revisions or updates."""
    lister: Lister
    """Reader of stored objects. They are decoded, shared by all plugins and must not be modified."""
    registry: Registry
    """The resources that the server serves, with their strategies and storage."""
    identity: Identity
    """The names of the server, such as the domains of API groups and labels."""
    gates: FeatureGates
    """The state of the feature gates."""
    release: Release
    """The Kubernetes release whose API the server has."""
    authorize: Decide
    """Return whether a user is allowed to make a request, and the reason: ``await authorize(user, info)``."""
    clock: Clock
    """The time, for rate limits and caches."""
    webhooks: WebhookClient
    """The client that calls admission webhooks, by URL or by Service."""
    default_tolerations: DefaultTolerations
    """The values of ``--default-not-ready-toleration-seconds`` and ``--default-unreachable-toleration-seconds``."""
    start_task: Callable[[Coroutine[Any, Any, None], str], object]
    """Run a coroutine, with a name for logs, in the background until the server stops, which cancels it."""
    resources: AsyncExitStack
    """Cleanup on shutdown, before tasks are cancelled: enter context managers or push callbacks."""
    provide_namespace: Callable[[str], Awaitable[None]]
    """Create the namespace of that name with its default objects; an existing one is left unchanged."""
    manifest_reloads: ManifestReloads = field(default_factory=ManifestReloads)
    """Results of reading the manifests of plugins."""
    metrics: AdmissionMetrics = field(default_factory=AdmissionMetrics)
    """Metrics of plugins and webhooks."""
