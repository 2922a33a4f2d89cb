"""Parameters of operations in published documents. Data, no I/O."""

from __future__ import annotations

from collections.abc import Mapping

from apiserver_stub.apimachinery.objects import Object

_WRITE = ("dryRun", "fieldManager", "fieldValidation")
_LIST = (
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "shardSelector",
    "timeoutSeconds",
    "watch",
)
_DELETE = (
    "dryRun",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "orphanDependents",
    "propagationPolicy",
)
_ONLY_LISTS = ("allowWatchBookmarks", "watch")
_OF_VERB: Mapping[str, tuple[str, ...]] = {
    "create": _WRITE,
    "delete": _DELETE,
    "deletecollection": tuple(sorted({*_DELETE, *_LIST} - {*_ONLY_LISTS})),
    "get": (),
    "list": _LIST,
    "patch": (*_WRITE, "force"),
    "update": _WRITE,
    "watch": _LIST,
    "watchlist": _LIST,
}
"""Query parameters by verb."""
_COMMAND = ("command", "container", "stderr", "stdin", "stdout", "tty")
_LOG = (
    "container",
    "follow",
    "insecureSkipTLSVerifyBackend",
    "limitBytes",
    "previous",
    "sinceSeconds",
    "stream",
    "tailLines",
    "timestamps",
)
_SINCE: Mapping[str, int] = {
    "ignoreStoreReadErrorWithClusterBreakingPotential": 32,
    "shardSelector": 36,
    "stream": 32,
}
"""First minor releases of the parameters that some releases lack."""
_OF_SUBRESOURCE: Mapping[str, tuple[str, ...]] = {
    "attach": _COMMAND[1:],
    "exec": _COMMAND,
    "log": _LOG,
    "portforward": ("ports",),
    "proxy": ("path",),
}
_TYPES: Mapping[str, str] = {
    "allowWatchBookmarks": "boolean",
    "follow": "boolean",
    "force": "boolean",
    "gracePeriodSeconds": "integer",
    "ignoreStoreReadErrorWithClusterBreakingPotential": "boolean",
    "insecureSkipTLSVerifyBackend": "boolean",
    "limit": "integer",
    "limitBytes": "integer",
    "orphanDependents": "boolean",
    "ports": "integer",
    "previous": "boolean",
    "sendInitialEvents": "boolean",
    "sinceSeconds": "integer",
    "stderr": "boolean",
    "stdin": "boolean",
    "stdout": "boolean",
    "tailLines": "integer",
    "timeoutSeconds": "integer",
    "timestamps": "boolean",
    "tty": "boolean",
    "watch": "boolean",
}
_DESCRIPTIONS: Mapping[str, str] = {
    "allowWatchBookmarks": "Send bookmarks, events with the current resource version only.",
    "command": "Command and its arguments, each as a separate parameter; it is not executed in a shell.",
    "container": "Container of the pod; required if the pod has several.",
    "continue": "Token of the previous page of a list.",
    "dryRun": "All: process the request completely, but store nothing.",
    "fieldManager": "Name of the owner of the changed fields.",
    "fieldSelector": "Restrict the objects by the values of fields.",
    "fieldValidation": "Treatment of unknown and duplicate fields: Ignore, Warn or Strict.",
    "follow": "Continue to send the log as it grows.",
    "force": "Acquire fields of other owners; only for applied configurations.",
    "gracePeriodSeconds": "Seconds until the object is deleted; 0 deletes it immediately.",
    "ignoreStoreReadErrorWithClusterBreakingPotential": "Delete the object although it cannot be read.",
    "insecureSkipTLSVerifyBackend": "Do not verify the certificate of the node agent.",
    "labelSelector": "Restrict the objects by their labels.",
    "limit": "Maximum number of objects of a page.",
    "limitBytes": "Maximum number of bytes of the log.",
    "name": "Name of the {kind}.",
    "namespace": "Namespace of the object.",
    "orphanDependents": "Deprecated: use propagationPolicy.",
    "path": "Path of the request that is proxied.",
    "ports": "Port to forward; required for WebSocket connections.",
    "pretty": "Indent the response.",
    "previous": "Return the log of the previous instance of the container.",
    "propagationPolicy": "Treatment of dependent objects: Orphan, Background or Foreground.",
    "resourceVersion": "Constraint on the resource version of the result.",
    "resourceVersionMatch": "Interpretation of resourceVersion: Exact or NotOlderThan.",
    "sendInitialEvents": "Start a watch with the current objects.",
    "shardSelector": "Restrict the objects to ranges of a hash of a field.",
    "sinceSeconds": "Omit older lines, by their age in seconds.",
    "stderr": "Redirect the standard error stream.",
    "stdin": "Redirect the standard input stream.",
    "stdout": "Redirect the standard output stream.",
    "stream": "Stream of the log: All, Stdout or Stderr.",
    "tailLines": "Return only the last lines.",
    "timeoutSeconds": "Seconds after which the server ends the request.",
    "timestamps": "Prefix each line with its time.",
    "tty": "Allocate a terminal.",
    "watch": "Return changes instead of a list.",
}


def parameter(name: str, location: str, kind: str = "", *, v3: bool) -> Object:
    """Return the parameter *name*; *location* is ``path`` or ``query``, *kind* that of the object it names."""
    content: Object = {"type": _TYPES.get(name, "string"), "uniqueItems": True}
    found: Object = {"name": name, "in": location, "description": _DESCRIPTIONS[name].format(kind=kind)}
    if location == "path":
        found["required"] = True
    return found | ({"schema": content} if v3 else content)


def of_operation(verb: str, path: str, kind: str, subresource: str, minor: int, *, v3: bool) -> list[Object]:
    """Return the parameters of an operation at *path*, by their names.

    :param verb: verb of requests; empty for connections.
    :param subresource: name of the subresource, empty for an object or a collection.
    """
    names = {*_OF_VERB.get(verb, ()), *_OF_SUBRESOURCE.get(subresource, ())}
    if verb:
        names.add("pretty")
    found = [parameter(name, "path", kind, v3=v3) for name in ("name", "namespace", "path") if f"{{{name}}}" in path]
    found += [parameter(name, "query", v3=v3) for name in names if _SINCE.get(name, 0) <= minor]
    return sorted(found, key=lambda item: (item["name"], item["in"]))
