"""Asks the running agent, on its local socket."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TypeVar

import msgspec

from nodeagent.contracts.local import LOCAL_SOCKET, LocalRequest, LocalResponse
from nodeagent.errors import NodeAgentError

ANSWER_SECONDS = 40.0
_CHUNK = 65536
T = TypeVar("T")


class NoAgent(NodeAgentError):
    """No agent answers; the text says what to do."""

    reason = "NoAgent"


class NotAnswered(NodeAgentError):
    """The agent has no answer; the text is its own."""

    reason = "NotAnswered"


def ask(root: Path, question: str, arguments: object, into: type[T]) -> T:
    """Return what the agent with root directory *root* answers.

    :raises NoAgent: none runs there, or it does not answer in time.
    :raises NotAnswered: the agent says why it cannot tell.
    """
    place = root / LOCAL_SOCKET
    request = LocalRequest(question, msgspec.Raw(msgspec.json.encode(arguments)))
    try:
        answer = msgspec.json.decode(_exchange(place, msgspec.json.encode(request)), type=LocalResponse)
        if answer.error:
            raise NotAnswered(answer.error)
        return msgspec.json.decode(answer.answer, type=into)
    except PermissionError as error:
        raise NoAgent(f"{place} is for root alone; run this command as root") from error
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise NoAgent(
            f"no agent answers at {place}: {error.strerror}; start it, or name its directory with --root-dir; "
            "`nodeagent doctor` looks at the machine without it"
        ) from error
    except (OSError, msgspec.DecodeError) as error:
        raise NoAgent(f"no agent answers at {place}: {error}; it may hang, its log and its health port tell") from error


def answers(root: Path) -> bool:
    """Whether an agent with root directory *root* takes questions."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(ANSWER_SECONDS)
        try:
            connection.connect(str(root / LOCAL_SOCKET))
        except OSError as error:
            return isinstance(error, PermissionError)
    return True


def _exchange(place: Path, request: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(ANSWER_SECONDS)
        connection.connect(str(place))
        connection.sendall(request + b"\n")
        answer = bytearray()
        while chunk := connection.recv(_CHUNK):
            answer += chunk
    return bytes(answer)
