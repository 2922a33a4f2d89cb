"""Construction of the controllers of custom kinds."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from apiserver_stub.controllers.custom_kinds import CustomKinds
from apiserver_stub.controllers.custom_resource_cleanup import CustomResourceCleanup
from apiserver_stub.kinds.conversion import WebhookConversion
from apiserver_stub.kinds.custom_resource_definitions import GROUP, cleanup_finalizer
from apiserver_stub.kinds.custom_resources import resources_of
from nodeagent.base.identity import Identity
from nodeagent.base.release import Release

if TYPE_CHECKING:
    from apiserver_stub.admission.webhooks.client import WebhookClient
    from apiserver_stub.kinds import Registry
    from apiserver_stub.options import Options
    from apiserver_stub.storage import Store
    from apiserver_stub.verbs.context import VerbContext

_NAMED_STATUS = Release(1, 31)
"""First release whose errors in the status of custom resources name the fields of the object."""
_NAME_FORMATS = Release(1, 34)
"""First release that validates the formats of names of objects."""


def build_custom_kinds(
    store: Store, registry: Registry, options: Options, webhooks: WebhookClient
) -> CustomKinds | None:
    """Return the controller of custom kinds, with the stored ones served; ``None`` if definitions are not served."""
    identity = options.identity
    group = identity.group(GROUP)
    resource = registry.find(group, "v1", "customresourcedefinitions")
    if resource is None:
        return None
    declare = partial(
        resources_of,
        ratchets=options.gates.enabled("CRDValidationRatcheting"),
        names_status=options.compatibility_version >= _NAMED_STATUS,
        name_formats=options.compatibility_version >= _NAME_FORMATS,
        convert_by=partial(WebhookConversion, post=webhooks.post, identity=identity),
    )
    found = CustomKinds(store, registry, resource.storage, declare=declare)
    found.load()
    return found


def build_cleanup(context: VerbContext, registry: Registry, identity: Identity) -> CustomResourceCleanup:
    """Return the controller of deleted definitions."""
    group = identity.group(GROUP)
    return CustomResourceCleanup(context, registry, f"{group}/customresourcedefinitions", cleanup_finalizer(group))
