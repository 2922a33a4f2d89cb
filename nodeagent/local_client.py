"""Client of the running agent's local socket."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TypeVar

import msgspec

from nodeagent.contracts.local import LOCAL_SOCKET, LocalRequest, LocalResponse
from nodeagent.errors import NodeAgentError

RESPONSE_SECONDS = 40.0
_CHUNK = 65536
T = TypeVar("T")


class AgentUnreachable(NodeAgentError):
    """The agent does not respond; the message contains a remedy."""

    reason = "AgentUnreachable"


class AgentRequestFailed(NodeAgentError):
    """The agent returned an error; the message is the agent's."""

    reason = "AgentRequestFailed"


def query(root: Path, name: str, arguments: object, into: type[T], *, seconds: float = 0.0) -> T:
    """Send a query to the agent with root directory *root* and return the result.

    :param name: name of the query, see :class:`nodeagent.contracts.local.LocalQuery`.
    :param into: the type that the result is decoded to.
    :param seconds: time that the agent needs in addition to that of an ordinary query.
    :raises AgentUnreachable: the agent is not running, or did not respond in time.
    :raises AgentRequestFailed: the agent returned an error.
    """
    path = root / LOCAL_SOCKET
    request = LocalRequest(name, msgspec.Raw(msgspec.json.encode(arguments)))
    try:
        response = msgspec.json.decode(
            _exchange(path, msgspec.json.encode(request), RESPONSE_SECONDS + seconds), type=LocalResponse
        )
        if response.error:
            raise AgentRequestFailed(response.error)
        return msgspec.json.decode(response.answer, type=into)
    except PermissionError as error:
        raise AgentUnreachable(f"permission denied: {path}; run this command as root") from error
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise AgentUnreachable(
            f"no agent is listening on {path}: {error.strerror}; start it, or specify its directory with --root-dir; "
            "`nodeagent doctor` checks the node without a running agent"
        ) from error
    except (OSError, msgspec.DecodeError) as error:
        raise AgentUnreachable(
            f"failed to query the agent on {path}: {error}; it may hang, check its log and its healthz endpoint"
        ) from error


def is_listening(root: Path) -> bool:
    """Return whether an agent with root directory *root* accepts connections, also from another user."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(RESPONSE_SECONDS)
        try:
            connection.connect(str(root / LOCAL_SOCKET))
        except OSError as error:
            return isinstance(error, PermissionError)
    return True


def _exchange(path: Path, request: bytes, seconds: float) -> bytes:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(seconds)
        connection.connect(str(path))
        connection.sendall(request + b"\n")
        response = bytearray()
        while chunk := connection.recv(_CHUNK):
            response += chunk
    return bytes(response)
