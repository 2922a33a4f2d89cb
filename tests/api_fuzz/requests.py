"""Random requests: each is determined by the seed, its number and the catalog. No I/O."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import yaml

from nodeagent.base import apiproto
from tests.api_fuzz.catalog import Catalog, Target
from tests.api_fuzz.patches import PATCH_TYPES, patch_body
from tests.api_fuzz.queries import accepted, headers, query
from tests.api_fuzz.values import Values

NAMESPACES = ("fuzz-a", "fuzz-b")
_NAMES = ("full", "minimal", "a", "b", "web", "default")
_JSON, _PROTOBUF = "application/json", "application/vnd.kubernetes.protobuf"
_VERBS = ("create", "create", "create", "update", "patch", "patch", "patch", "get", "list", "watch", "delete", "any")
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "PROPFIND", "get", "X")
_STREAMS = frozenset(("attach", "exec", "portforward", "proxy", "log"))
ONLY_DRY_RUN = frozenset(
    (
        "apiservices",
        "flowschemas",
        "mutatingadmissionpolicybindings",
        "mutatingwebhookconfigurations",
        "prioritylevelconfigurations",
        "validatingadmissionpolicybindings",
        "validatingwebhookconfigurations",
    )
)
"""Resources whose objects would make the server reject or delay the other requests."""
_KEPT = frozenset(("customresourcedefinitions", "namespaces"))
"""Resources that are deleted only as a dry run, as other requests use them."""


@dataclass(frozen=True)
class FuzzRequest:
    """One HTTP request."""

    method: str
    path: str
    """Path and query, as sent."""
    headers: Sequence[tuple[str, str]] = ()
    body: bytes = b""

    @property
    def is_watch(self) -> bool:
        """Return whether the response may not end before its timeout."""
        return "watch" in self.path or "follow" in self.path

    def to_json(self) -> str:
        """Return the request as one line."""
        try:
            body: Any = {"body": self.body.decode()} if self.body else {}
        except UnicodeDecodeError:
            body = {"base64": base64.b64encode(self.body).decode()}
        return json.dumps({"method": self.method, "path": self.path, "headers": list(self.headers), **body})

    @classmethod
    def from_json(cls, line: str) -> FuzzRequest:
        item = json.loads(line)
        body = base64.b64decode(item["base64"]) if "base64" in item else item.get("body", "").encode()
        return cls(item["method"], item["path"], [tuple(pair) for pair in item["headers"]], body)


def generate(catalog: Catalog, seed: int, number: int) -> FuzzRequest:
    """Return the request *number* of the sequence *seed*."""
    choice = random.Random(f"{seed}:{number}")
    values = Values(choice)
    if values.chance(0.04):
        return _unstructured(catalog, values)
    target = choice.choice(catalog.targets)
    if target.subresource and values.chance(0.4):  # a third of the targets are subresources
        target = choice.choice(catalog.targets)
    return _Builder(target, catalog, values).build()


def _unstructured(catalog: Catalog, values: Values) -> FuzzRequest:
    """Return a request whose parts do not match: documents, unknown paths, any methods and bodies."""
    choice = values.choice
    path = choice.choice(catalog.paths)
    if values.chance(0.3):
        parts = path.split("/")
        parts[choice.randrange(len(parts))] = _quoted(values.string())
        path = "/" + "/".join(parts).lstrip("/")
    method = "GET" if values.chance(0.7) else choice.choice(_METHODS)
    body = b""
    if method not in ("GET", "HEAD") and values.chance(0.7):
        body = json.dumps(values.anything()).encode() if values.chance(0.5) else choice.randbytes(choice.randrange(60))
    sent = [*headers(values), ("Accept", accepted(values)), ("Content-Type", choice.choice((_JSON, _PROTOBUF, "x")))]
    return FuzzRequest(method, path + query(values, "list"), sent, body)


class _Builder:
    def __init__(self, target: Target, catalog: Catalog, values: Values) -> None:
        self.target, self.catalog, self.values = target, catalog, values
        self.choice = values.choice

    def build(self) -> FuzzRequest:
        target, values = self.target, self.values
        verb = self.choice.choice(_VERBS)
        if verb == "any":
            verb = self.choice.choice(sorted(target.verbs))
        supported = verb in target.verbs or (verb == "delete" and "deletecollection" in target.verbs)
        if not supported and values.chance(0.95):
            verb = self.choice.choice(sorted(target.verbs))
        return self._request(verb)

    def _request(self, verb: str) -> FuzzRequest:
        target, values = self.target, self.values
        example = self.choice.choice(target.examples)
        name = str((example.get("metadata") or {}).get("name") or "")
        if not name or values.chance(0.3):
            name = self.choice.choice(_NAMES)
        if target.subresource and values.chance(0.6):
            name = self._name_of_parent()
        namespace = self.choice.choice(NAMESPACES)
        if values.chance(0.03):
            namespace = self.choice.choice(("", "missing", "kube-system", _quoted(values.string())))
        if values.chance(0.03):
            name = _quoted(values.string())
        collection = verb in ("list", "watch", "deletecollection") or (verb == "create" and not target.subresource)
        path = target.path(namespace, "" if collection else name)
        if target.subresource == "proxy":
            path += self.choice.choice(("", "/", "/a/b", "/..", "/%2e%2e/x"))
        dry = target.plural in ONLY_DRY_RUN or (verb.startswith("delete") and target.plural in _KEPT)
        text = query(values, verb, target.subresource, dry_run=dry)
        sent = [*headers(values), ("Accept", accepted(values, verb))]
        match verb:
            case "create" | "update":
                body, content_type = self._encoded(self._object(example, name))
                method = "POST" if verb == "create" else "PUT"
            case "patch":
                kind = self.choice.choice(PATCH_TYPES)
                obj = self._object(example, name)
                body, content_type, method = patch_body(values, kind, example, obj, target.shape), kind, "PATCH"
            case "delete" | "deletecollection":
                body, content_type = b"", _JSON
                if values.chance(0.4):
                    body, content_type = self._encoded(self._delete_options(), share=0.2)
                method = "DELETE"
            case _:
                body, content_type = b"", ""
                method = self.choice.choice(("GET", "POST")) if target.subresource in _STREAMS else "GET"
                method = "HEAD" if values.chance(0.02) else method
        if values.chance(0.01):
            method = self.choice.choice(_METHODS)
        if content_type and values.chance(0.02):
            content_type = self.choice.choice(
                ("", "text/plain", "application/cbor", "application/json;charset=utf-8", "a/b/c")
            )
        if content_type:
            sent.append(("Content-Type", content_type))
        return FuzzRequest(method, path + text, sent, body)

    def _name_of_parent(self) -> str:
        """Return the name of an object that has the subresource."""
        for item in self.catalog.targets:
            if not item.subresource and item.plural == self.target.plural and item.root == self.target.root:
                return str((self.choice.choice(item.examples).get("metadata") or {}).get("name") or "full")
        return "full"

    def _object(self, example: dict[str, Any], name: str) -> Any:
        target, values = self.target, self.values
        if values.chance(0.02):
            return values.anything()
        if values.chance(0.2):
            obj = values.of(target.shape)
            if not isinstance(obj, dict):
                return obj
            obj |= {"apiVersion": target.api_version, "kind": target.kind}
            if values.chance(0.9) and not isinstance(obj.get("metadata"), dict):
                obj["metadata"] = {"name": name}
        else:
            obj = values.changed(example, target.shape)
        metadata = obj.get("metadata")
        if isinstance(metadata, dict):
            metadata.pop("namespace", None)
            if values.chance(0.9):
                metadata["name"] = name
            if values.chance(0.97):
                metadata.pop("finalizers", None)  # the object could not be deleted
                metadata.pop("ownerReferences", None)
        return obj

    def _delete_options(self) -> Any:
        values = self.values
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if values.chance(0.5):
            options["gracePeriodSeconds"] = self.choice.choice((0, 1, -1, 2**40, "1", None))
        if values.chance(0.5):
            options["propagationPolicy"] = self.choice.choice(("Orphan", "Background", "Foreground", "x", 1))
        if values.chance(0.2):
            options["preconditions"] = self.choice.choice(({"uid": "a"}, {"resourceVersion": "1"}, {}, [], {"uid": 7}))
        if values.chance(0.1):
            options[self.choice.choice(("orphanDependents", "dryRun", "x", "kind"))] = values.anything()
        return options

    def _encoded(self, obj: Any, share: float = 0.25) -> tuple[bytes, str]:
        """Return an object in one of the formats, sometimes damaged, and its media type."""
        kind = self.choice.random()
        if kind < share and isinstance(obj, dict):
            with_types = {"apiVersion": self.target.api_version, "kind": self.target.kind, **obj}
            try:
                data = apiproto.encode(with_types)
            except (apiproto.ProtobufError, apiproto.UnsupportedKindError, ValueError, TypeError, AttributeError):
                data = b"k8s\0" + self.choice.randbytes(self.choice.randrange(40))
            return self._damaged(data, 0.3), _PROTOBUF
        if kind < share + 0.06:
            return self._damaged(yaml.safe_dump(obj).encode("utf-8", "replace"), 0.1), "application/yaml"
        return self._damaged(json.dumps(obj).encode(), 0.02), _JSON

    def _damaged(self, data: bytes, share: float) -> bytes:
        values = self.values
        if not data or not values.chance(share):
            return data
        start = self.choice.randrange(len(data))
        match self.choice.randrange(4):
            case 0:
                return data[:start]
            case 1:
                return data[:start] + self.choice.randbytes(self.choice.randrange(1, 5)) + data[start + 1 :]
            case 2:
                return data[:start] + data[start:] * 2
        return data[:start] + bytes((data[start] ^ (1 << self.choice.randrange(8)),)) + data[start + 1 :]


def _quoted(text: str) -> str:
    return quote(text.encode("utf-8", "surrogatepass"), safe="")
