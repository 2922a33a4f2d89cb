"""Path and query of the requests to node agents for pod subresources. No I/O."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import quote, urlencode

from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.request import Query
from apiserver_stub.apimachinery.status import (
    Cause,
    bad_request,
    forbidden_value,
    invalid,
    invalid_value,
    not_supported,
)

_KINDS = ("containers", "initContainers", "ephemeralContainers")
_LOG_STREAMS = ("All", "Stderr", "Stdout")
_STREAMS = {"stderr": "error", "stdin": "input", "stdout": "output", "tty": "tty"}


def log_target(pod: Object, query: Query, *, selects_stream: bool | None = None) -> str:
    """Return the request target for the container log that *query* selects.

    :param selects_stream: whether ``stream`` may be specified; ``None`` if the release does not have that field.
    :raises ApiError: 400, no such container, or an invalid number or time; 422, a number is out of range.
    """
    name = pod["metadata"]["name"]
    numbers = {
        "sinceSeconds": (query.integer("sinceSeconds"), 1, "must be greater than 0"),
        "tailLines": (query.integer("tailLines"), 0, "must be greater than or equal to 0"),
        "limitBytes": (query.integer("limitBytes"), 1, "must be greater than 0"),
    }
    since = _time(query.get("sinceTime"))
    causes: list[Cause] = [
        invalid_value(field, value, text)
        for field, (value, least, text) in numbers.items()
        if value is not None and value < least
    ]
    if since and numbers["sinceSeconds"][0] is not None:
        causes.append(forbidden_value("[]", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    chosen = query.get("stream") if selects_stream is not None else ""
    if chosen and not selects_stream:
        causes.append(forbidden_value("stream", "may not be specified"))
    elif chosen and chosen not in _LOG_STREAMS:
        causes.append(not_supported("stream", chosen, _LOG_STREAMS))
    elif chosen not in ("", "All") and numbers["tailLines"][0] is not None:
        text = "`tailLines` and specific `stream` are mutually exclusive for now"
        causes.append(forbidden_value("[]", text))
    if causes:
        raise invalid("", "PodLogOptions", name, causes)
    container = choose_container(pod, query.get("container"))
    parameters = {field: str(value) for field, (value, _, _) in numbers.items() if value is not None}
    parameters |= {field: "true" for field in ("follow", "previous", "timestamps") if query.flag(field)}
    if since:
        parameters["sinceTime"] = since
    if chosen:
        parameters["stream"] = chosen
    return _target("containerLogs", pod, container, sorted(parameters.items()))


def stream_target(kind: str, pod: Object, query: Query) -> str:
    """Return the request target for ``exec`` or ``attach``.

    :raises ApiError: 400, no such container.
    """
    container = choose_container(pod, query.get("container"))
    parameters = [(theirs, "1") for ours, theirs in _STREAMS.items() if query.flag(ours)]
    if kind == "exec":
        parameters += [("command", word) for word in query.all("command")]
    return _target(kind, pod, container, sorted(parameters, key=lambda pair: pair[0]))


def forward_target(pod: Object, query: Query) -> str:
    """Return the request target for port forwarding."""
    ports = ",".join(query.all("ports"))
    return _target("portForward", pod, "", [("port", ports)] if ports else [])


def choose_container(pod: Object, name: str) -> str:
    """Return the selected container: *name*, or the only one.

    :raises ApiError: 400, the container does not exist, or *name* is empty and the pod has several.
    """
    pod_name = pod["metadata"]["name"]
    names = {kind: [item["name"] for item in dig(pod, ("spec", kind)) or ()] for kind in _KINDS}
    if name:
        if not any(name in group for group in names.values()):
            raise bad_request(f"container {name} is not valid for pod {pod_name}")
        return name
    if len(names["containers"]) == 1:
        return str(names["containers"][0])
    choice = f"a container name must be specified for pod {pod_name}"
    if names["containers"]:
        choice += f", choose one of: [{' '.join(names['containers'])}]"
    if names["initContainers"]:
        choice += f" or one of the init containers: [{' '.join(names['initContainers'])}]"
    if names["ephemeralContainers"]:
        choice += f" or one of the ephemeral containers: [{' '.join(names['ephemeralContainers'])}]"
    raise bad_request(choice)


def _target(kind: str, pod: Object, container: str, parameters: list[tuple[str, str]]) -> str:
    metadata = pod["metadata"]
    parts = [kind, metadata["namespace"], metadata["name"], *([container] if container else [])]
    path = "".join(f"/{quote(part, safe='')}" for part in parts)
    return f"{path}?{urlencode(parameters)}" if parameters else path


def _time(text: str) -> str:
    """Return a time in RFC 3339 format and UTC; empty for none."""
    if not text:
        return ""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = datetime.min
    if time.tzinfo is None:
        raise bad_request(f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00": cannot parse "{text}"')
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
