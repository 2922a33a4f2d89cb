"""Strategic merge patch: lists merge by a key that the kind declares, directives say what a merge cannot.

``$patch: delete | replace | merge``, ``$retainKeys``, ``$setElementOrder/<list>``, ``$deleteFromPrimitiveList/<list>``.
Pure functions of a document, a patch and a :class:`Schema`.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from apiserver_stub.objects import Object
from apiserver_stub.status import bad_request

_PATCH = "$patch"
_RETAIN = "$retainKeys"
_ORDER = "$setElementOrder/"
_DELETE_PRIMITIVE = "$deleteFromPrimitiveList/"


@dataclass(frozen=True, slots=True)
class Schema:
    """What merging must know about an object: its members that differ from plain ones.

    *merge_key* makes the member a list of objects that merge by that key; *merges* makes it a set-like list of
    scalars; *replaces* makes it an object that is taken as given.
    """

    members: Mapping[str, Schema] = field(default_factory=dict)
    merge_key: str = ""
    merges: bool = False
    replaces: bool = False

    def member(self, name: str) -> Schema:
        return self.members.get(name) or PLAIN


PLAIN = Schema()


def apply_strategic_patch(document: Object, patch: Any, schema: Schema) -> Object:
    """Return *document* after *patch*.

    :raises ApiError: 400, *patch* is no object or a directive in it makes no sense.
    """
    if not isinstance(patch, dict):
        raise bad_request(
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"
        )
    return _merge_object(document, patch, schema)


def _merge_object(document: Any, patch: Object, schema: Schema) -> Object:
    directive = patch.get(_PATCH)
    if directive == "replace":
        return {key: copy.deepcopy(value) for key, value in patch.items() if key != _PATCH}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise bad_request(f"unknown patch type: {directive}")
    merged = dict(document) if isinstance(document, dict) else {}
    if _RETAIN in patch:
        retained = patch[_RETAIN]
        if not isinstance(retained, list):
            raise bad_request(f"invalid directive {_RETAIN}: not a list")
        merged = {key: value for key, value in merged.items() if key in retained}
    for key, value in patch.items():
        if key in (_PATCH, _RETAIN) or key.startswith(_ORDER):
            continue
        if key.startswith(_DELETE_PRIMITIVE):
            _delete_primitives(merged, key.removeprefix(_DELETE_PRIMITIVE), value, patch)
        elif value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            member = schema.member(key)
            merged[key] = copy.deepcopy(value) if member.replaces else _merge_object(merged.get(key), value, member)
        elif isinstance(value, list):
            merged[key] = _merge_list(merged.get(key), value, schema.member(key), key)
        else:
            merged[key] = value
    for key, order in patch.items():
        if key.startswith(_ORDER):
            name = key.removeprefix(_ORDER)
            if isinstance(merged.get(name), list) and isinstance(order, list):
                try:
                    merged[name] = _ordered(merged[name], order, schema.member(name), patch.get(name))
                except TypeError as error:  # what should tell items apart is itself an object or a list
                    raise bad_request(f"invalid directive {key}: {error}") from error
    return merged


def _merge_list(document: Any, patch: list[Any], schema: Schema, name: str) -> list[Any]:
    old = document if isinstance(document, list) else []
    if schema.merges:
        return old + [item for item in patch if item not in old]
    if not schema.merge_key:
        return [copy.deepcopy(item) for item in patch]
    key = schema.merge_key
    replacing = any(isinstance(item, dict) and item.get(_PATCH) == "replace" for item in patch)
    merged: list[Any] = [] if replacing else list(old)
    for item in patch:
        if not isinstance(item, dict):
            raise bad_request(f"cannot merge an item of {name} that is no object")
        directive = item.get(_PATCH)
        if directive == "replace" and key not in item:
            continue  # the marker of a list that is replaced as a whole
        if key not in item:
            raise bad_request(f"map: {item} does not contain declared merge key: {key}")
        places = [at for at, other in enumerate(merged) if isinstance(other, dict) and other.get(key) == item[key]]
        if directive == "delete":
            merged = [other for at, other in enumerate(merged) if at not in places]
        elif places:
            merged[places[0]] = _merge_object(merged[places[0]], item, schema)
        else:
            merged.append(_merge_object({}, item, schema))
    return merged


def _delete_primitives(merged: Object, name: str, values: Any, patch: Object) -> None:
    if not isinstance(values, list):
        raise bad_request(f"invalid directive {_DELETE_PRIMITIVE}{name}: not a list")
    current = merged.get(name)
    if isinstance(current, list):
        merged[name] = [item for item in current if item not in values]
        if not merged[name] and name not in patch:
            del merged[name]


def _ordered(items: list[Any], order: list[Any], schema: Schema, patched: Any) -> list[Any]:
    """Return *items* in the order that the patch gives; what only the server has stays where it was among its peers."""
    key = schema.merge_key

    def identity(item: Any) -> Any:
        return item.get(key) if isinstance(item, dict) else item

    ranks = {identity(item): rank for rank, item in enumerate(order)}
    named = sorted((item for item in items if identity(item) in ranks), key=lambda item: ranks[identity(item)])
    result: list[Any] = []
    places = {id(item): place for place, item in enumerate(items)}
    patched_keys = {identity(item) for item in patched} if isinstance(patched, list) else set()
    for other in items:
        if identity(other) in ranks:
            continue
        while named and (places[id(named[0])] < places[id(other)] and identity(named[0]) not in patched_keys):
            result.append(named.pop(0))
        result.append(other)
    return result + named


def list_of(merge_key: str, **members: Schema) -> Schema:
    """Return the schema of a list of objects that merge by *merge_key*."""
    return Schema(members=members, merge_key=merge_key)


def members(**members_: Schema) -> Schema:
    """Return the schema of an object with these special members."""
    return Schema(members=members_)


SET = Schema(merges=True)

METADATA = members(ownerReferences=list_of("uid"), finalizers=SET)

_container = {
    "ports": list_of("containerPort"),
    "env": list_of("name"),
    "volumeMounts": list_of("mountPath"),
    "volumeDevices": list_of("devicePath"),
}

POD = members(
    metadata=METADATA,
    spec=members(
        containers=list_of("name", **_container),
        initContainers=list_of("name", **_container),
        ephemeralContainers=list_of("name", **_container),
        volumes=list_of("name", ephemeral=members(volumeClaimTemplate=members(metadata=METADATA))),
        imagePullSecrets=list_of("name"),
        hostAliases=list_of("ip"),
        topologySpreadConstraints=list_of("topologyKey"),
        schedulingGates=list_of("name"),
        resourceClaims=list_of("name"),
    ),
    status=members(
        conditions=list_of("type"),
        podIPs=list_of("ip"),
        hostIPs=list_of("ip"),
        resourceClaimStatuses=list_of("name"),
    ),
)
NODE = members(
    metadata=METADATA,
    spec=members(podCIDRs=SET),
    status=members(conditions=list_of("type"), addresses=list_of("type")),
)
SERVICE = members(
    metadata=METADATA,
    spec=members(ports=list_of("port")),
    status=members(conditions=list_of("type")),
)
SERVICE_ACCOUNT = members(metadata=METADATA, secrets=list_of("name"))
CONDITIONS = members(metadata=METADATA, status=members(conditions=list_of("type")))
CSI_NODE = members(metadata=METADATA, spec=members(drivers=list_of("name")))
WEBHOOKS = members(metadata=METADATA, webhooks=list_of("name", matchConditions=list_of("name")))
POLICY = members(metadata=METADATA, spec=members(matchConditions=list_of("name"), variables=list_of("name")))
BUDGET = members(
    metadata=METADATA, spec=members(selector=Schema(replaces=True)), status=members(conditions=list_of("type"))
)
OBJECT = members(metadata=METADATA)
