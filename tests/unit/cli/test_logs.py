"""Tests for ``nodeagent logs``: the agent's endpoint, requests for logs, and labels of lines."""

from __future__ import annotations

import argparse
import io
import ssl
import sys
from types import SimpleNamespace

import aiohttp
import msgspec
import pytest

from nodeagent.cli import agent_server, logs
from nodeagent.cli.main import main


class Response:
    """Response whose body arrives in pieces."""

    status, reason, content_type = 200, "OK", "text/plain"

    def __init__(self, pieces):
        self.pieces = pieces
        self.content = self

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        return None

    async def text(self, errors=""):
        return b"".join(self.pieces).decode()

    async def iter_any(self):
        for piece in self.pieces:
            yield piece


class Session:
    """Client session with fixed pages, by path with underscores; records the requests."""

    def __init__(self, **pages):
        self.requests = []
        self.pages = pages

    def get(self, path, params=(), allow_redirects=True):
        self.requests.append((path, list(params)))
        return Response(self.pages.get(path.strip("/").replace("/", "_"), [b"one\ntwo"]))

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        return None


def status(*names):
    return [{"name": name, "containerID": "x"} for name in names]


PODS = {
    "items": [
        {
            "metadata": {"namespace": "default", "name": "web"},
            "spec": {"containers": [{"name": "a"}, {"name": "b"}, {"name": "waits"}]},
            "status": {
                "containerStatuses": [*status("a", "b"), {"name": "waits"}],
                "initContainerStatuses": status("i"),
            },
        },
        {"metadata": {"namespace": "shop", "name": "db"}, "spec": {"containers": [{"name": "db"}]}},
    ]
}


@pytest.fixture
def server(monkeypatch):
    session = Session(pods=[msgspec.json.encode(PODS)])
    monkeypatch.setattr(agent_server, "resolve", lambda arguments: SimpleNamespace(url="https://n"))
    monkeypatch.setattr(agent_server, "session", lambda endpoint: session)
    return session


def test_options_are_sent_as_query_parameters(server, capfd):
    options = ["-f", "--tail", "5", "--since", "1m30s", "--timestamps", "--previous", "-c", "main"]

    assert main(["logs", "shop/db", *options]) == 0

    query = [
        ("follow", "true"),
        ("previous", "true"),
        ("timestamps", "true"),
        ("tailLines", "5"),
        ("sinceSeconds", "90"),
    ]
    assert server.requests == [("/containerLogs/shop/db/main", query)]
    assert capfd.readouterr().out == "one\ntwo"


def test_all_started_containers_are_printed_with_labels(server, capfd):
    server.pages["containerLogs_default_web_a"] = [b"x", b"y\nz", b"\n"]

    assert main(["logs", "web", "shop/db"]) == 0

    assert [path for path, _ in server.requests[1:]] == [
        "/containerLogs/default/web/i",
        "/containerLogs/default/web/a",
        "/containerLogs/default/web/b",
        "/containerLogs/shop/db/db",
    ]
    lines = capfd.readouterr().out.splitlines()
    assert {"[default/web a] xy", "[default/web a] z", "[default/web b] one", "[shop/db db] two"} <= set(lines)


class Terminal(io.TextIOWrapper):
    def isatty(self):
        return True


@pytest.mark.parametrize("no_color", ["", "1"])
def test_each_pod_has_a_color_on_a_terminal(server, monkeypatch, no_color):
    monkeypatch.setenv("NO_COLOR", no_color)
    output = io.BytesIO()
    with Terminal(output, write_through=True) as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)

        assert main(["logs", "web", "shop/db", "-c", "b"]) == 0

        text = output.getvalue().decode()
        monkeypatch.undo()
    marks = {line.partition(" ")[0] for line in text.splitlines()}
    colored = {"\x1b[36m[default/web", "\x1b[33m[shop/db"}
    assert marks == ({"[default/web", "[shop/db"} if no_color else colored)


def test_service_logs_are_requested_as_query(server):
    main(["logs", "--system", "--query", "a", "--query", "b", "--pattern", "oops", "--tail", "3", "--boot", "-1"])

    query = [("query", "a"), ("query", "b"), ("tailLines", "3"), ("pattern", "oops"), ("boot", "-1")]
    assert server.requests == [("/logs/", query)]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "specify a pod or --system"),
        (["web", "--query", "a"], "--query, --pattern and --boot require --system"),
        (["web", "--pattern", "a"], "--query, --pattern and --boot require --system"),
        (["web", "--boot", "0"], "--query, --pattern and --boot require --system"),
        (["--system", "--previous"], "--previous, --container and --timestamps cannot be used with --system"),
        (["--system", "--container", "a"], "--previous, --container and --timestamps cannot be used with --system"),
        (["--system", "--timestamps"], "--previous, --container and --timestamps cannot be used with --system"),
        (["--system", "--query", "a", "syslog"], "--query cannot be used with files"),
        (["--system", "--since", "5m"], "--since, --pattern and --boot require --query if --system is set"),
        (["--system", "--pattern", "a"], "--since, --pattern and --boot require --query if --system is set"),
        (["--system", "--boot", "0"], "--since, --pattern and --boot require --query if --system is set"),
    ],
)
def test_options_that_exclude_each_other_are_rejected(arguments, problem, capsys):
    with pytest.raises(SystemExit) as exited:
        main(["logs", *arguments])

    assert exited.value.code == 2
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize(
    ("address", "expected"),
    [("h", "h:10250"), ("h:1", "h:1"), ("::1", "[::1]:10250"), ("[::1]", "[::1]:10250"), ("[::1]:5", "[::1]:5")],
)
def test_address_without_port_gets_the_default_port(address, expected):
    assert agent_server.with_port(address) == expected


@pytest.mark.parametrize("option", [["--since", "0s"], ["--since", "soon"], ["--tail", "-1"], ["--boot", "1"]])
def test_invalid_option_value_exits_with_2(option, capsys):
    with pytest.raises(SystemExit) as exited:
        main(["logs", "web", *option])

    assert exited.value.code == 2
    assert option[0] in capsys.readouterr().err


def test_empty_token_file_is_rejected(tmp_path, capsys):
    (tmp_path / "token").write_text("\n")

    assert main(["logs", "web", "--address", "h", "--token-file", str(tmp_path / "token")]) == 3
    assert "file contains no token" in capsys.readouterr().err


def test_token_is_sent_without_the_client_certificate(tmp_path, monkeypatch):
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "token").write_text("secret\n")
    arguments = argparse.Namespace(
        kubeconfig="", token_file=str(tmp_path / "token"), address="h", node="", certificate_authority="",
        insecure_skip_tls_verify=False,
    )  # fmt: skip

    endpoint = agent_server.resolve(arguments)

    assert (endpoint.url, endpoint.authorization) == ("https://h:10250", "Bearer secret")
    assert "secret" not in repr(endpoint)
    assert endpoint.tls.check_hostname


def test_node_option_requires_a_kubeconfig(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))

    assert main(["logs", "web", "--node", "node-1"]) == 3
    assert "--node requires a kubeconfig" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [
        ([("Hostname", "n"), ("ExternalIP", "198.51.100.1"), ("InternalIP", "192.0.2.1")], "https://192.0.2.1:10255"),
        ([("InternalIP", "2001:db8::1")], "https://[2001:db8::1]:10255"),
    ],
)
def test_endpoint_of_a_node_is_read_from_its_status(tmp_path, monkeypatch, addresses, expected):
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: c, user: u}}]\n"
        "clusters: [{name: c, cluster: {server: 'https://api'}}]\nusers: [{name: u, user: {token: t}}]\n"
    )
    status = {
        "addresses": [{"type": kind, "address": address} for kind, address in addresses],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10255}},
    }

    class Client:
        async def get(self, resource, name, *, into):
            return {"metadata": {"name": name}, "status": status}

        async def close(self):
            return None

    monkeypatch.setattr("nodeagent.apiclient.connect", lambda path, config, clock: Client())
    arguments = argparse.Namespace(
        kubeconfig=str(kubeconfig), token_file="", address="", node="node-1", certificate_authority="",
        insecure_skip_tls_verify=True,
    )  # fmt: skip

    endpoint = agent_server.resolve(arguments)

    assert (endpoint.url, endpoint.authorization) == (expected, "Bearer t")


@pytest.fixture
def failing_server(monkeypatch):
    """Return a function that makes every request fail with an error."""

    def fail_with(error):
        class Failing(Session):
            def get(self, *args, **options):
                raise error

        monkeypatch.setattr(agent_server, "resolve", lambda arguments: SimpleNamespace(url="https://n:10250"))
        monkeypatch.setattr(agent_server, "session", lambda endpoint: Failing())

    return fail_with


@pytest.mark.parametrize(
    ("error", "text"),
    [(TimeoutError(), "timed out"), (aiohttp.ClientConnectionError("reset"), "reset")],
)
def test_unreachable_server_exits_with_3(failing_server, capsys, error, text):
    failing_server(error)

    assert main(["logs", "web"]) == 3
    assert capsys.readouterr().err == f"nodeagent: failed to connect to https://n:10250: {text}\n"


@pytest.mark.parametrize("verify_message", ["", "self-signed certificate"])
def test_reason_of_a_failed_verification_is_printed(failing_server, capsys, verify_message):
    cause = ssl.SSLCertVerificationError("text of the library")
    cause.verify_message = verify_message
    key = SimpleNamespace(host="n", port=10250, is_ssl=True, ssl=True)
    failing_server(aiohttp.ClientConnectorCertificateError(key, cause))

    assert main(["logs", "web"]) == 3
    reason = verify_message or str(cause)
    assert f"failed to verify the certificate of https://n:10250: {reason}; use" in capsys.readouterr().err


def test_interrupted_command_exits_with_130(failing_server):
    failing_server(KeyboardInterrupt())

    assert main(["logs", "web"]) == 130


class Rejection(Response):
    status, reason = 403, "Forbidden"

    async def read(self, limit):
        return b"".join(self.pieces)[:limit]


@pytest.mark.parametrize(("body", "text"), [(b" not allowed\n", "not allowed (403)"), (b"", "Forbidden (403)")])
def test_rejected_log_does_not_affect_the_others(server, monkeypatch, capfd, body, text):
    get = server.get
    monkeypatch.setattr(
        server, "get", lambda path, **options: Rejection([body]) if path.endswith("/a") else get(path, **options)
    )

    assert main(["logs", "web"]) == 1

    captured = capfd.readouterr()
    assert captured.err == f"nodeagent: default/web a: {text}\n"
    assert "[default/web b] one" in captured.out


def test_single_log_has_no_label(server, capfd):
    assert main(["logs", "shop/db"]) == 0
    assert capfd.readouterr().out == "one\ntwo"


def test_long_line_is_printed_in_pieces(server, capfd):
    size = logs.MAX_LINE_BYTES
    server.pages["containerLogs_default_web_a"] = [b"x" * size, b"y\n", b"z" * (size + 1), b"end\n"]
    server.pages["containerLogs_default_web_b"] = server.pages["containerLogs_default_web_i"] = []

    assert main(["logs", "web"]) == 0

    lines = capfd.readouterr().out.splitlines()
    assert [len(line.removeprefix("[default/web a] ")) for line in lines] == [size + 1, size + 1, 3]


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        (["--system", "--query", "kubelet"], "set enableSystemLogQuery and the feature gate NodeLogQuery"),
        (["--system", "pods"], "specify a file in it"),
    ],
)
def test_directory_instead_of_a_log_is_reported(server, monkeypatch, capfd, arguments, remedy):
    monkeypatch.setattr(Response, "content_type", "text/html")

    assert main(["logs", *arguments]) == 1
    assert f"the node returned a directory listing; {remedy}" in capfd.readouterr().err


def test_files_of_the_system_are_listed_or_printed(server, capfd):
    server.pages["logs"] = [b'<a href="a">a&amp;b</a>\n<a href="pods/">pods/</a>']

    assert main(["logs", "--system"]) == 0
    assert capfd.readouterr().out == "a&b\npods/\n"

    assert main(["logs", "--system", "/syslog", "-f", "--tail", "0"]) == 0
    assert server.requests[-1] == ("/logs/syslog", [("follow", "true"), ("tailLines", "0")])


def test_start_of_service_logs_is_sent_as_a_time(server):
    main(["logs", "--system", "--query", "a", "--since", "1h", "--boot", "0"])

    ((path, query),) = server.requests
    assert (path, [name for name, _ in query]) == ("/logs/", ["query", "sinceTime", "boot"])


CONTAINERS = [{"name": "main"}, {"name": "side"}]
RESTARTING = {"name": "side", "lastState": {"terminated": {}}}


@pytest.mark.parametrize(
    ("pod", "container"),
    [
        ({}, "main"),
        ({"status": None}, "main"),
        ({"status": {"containerStatuses": None}}, "main"),
        ({"status": {"containerStatuses": [{"name": "main"}, RESTARTING]}}, "side"),
    ],
)
def test_containers_without_a_log_are_skipped_unless_none_has_started(server, pod, container):
    plain = {"metadata": {"namespace": "default", "name": "web"}, "spec": {"containers": CONTAINERS}, **pod}
    server.pages["pods"] = [msgspec.json.encode({"items": [plain]})]

    assert main(["logs", "pod/web", "--since", "100ms"]) == 0

    assert server.requests[1:] == [(f"/containerLogs/default/web/{container}", [("sinceSeconds", "1")])]


@pytest.mark.parametrize("items", [None, []])
def test_pod_on_another_node_is_reported(server, capfd, items):
    server.pages["pods"] = [msgspec.json.encode({"items": items})]

    assert main(["logs", "web"]) == 1
    assert 'pod "default/web" not found on this node' in capfd.readouterr().err


def test_tail_of_no_lines_is_accepted(server):
    assert main(["logs", "shop/db", "--tail", "0"]) == 0
    assert server.requests[-1][1] == [("tailLines", "0")]


def test_output_in_a_pipe_is_not_colored(server, monkeypatch, capfd):
    monkeypatch.delenv("NO_COLOR", raising=False)

    assert main(["logs", "web", "shop/db"]) == 0
    assert "\x1b" not in capfd.readouterr().out


def test_lost_connection_of_one_log_exits_with_3(server, monkeypatch, capfd):
    get = server.get

    def lose(path, **options):
        if path.endswith("/b"):
            raise aiohttp.ClientConnectionError("reset")
        return get(path, **options)

    monkeypatch.setattr(server, "get", lose)

    assert main(["logs", "web"]) == 3
    assert "failed to connect to https://n: reset" in capfd.readouterr().err


def test_all_rejected_logs_are_reported(server, monkeypatch, capfd):
    get = server.get
    monkeypatch.setattr(
        server, "get", lambda path, **options: Rejection([b"no"]) if path[-1] in "ab" else get(path, **options)
    )

    assert main(["logs", "web"]) == 1
    assert capfd.readouterr().err == "nodeagent: default/web a: no (403)\nnodeagent: default/web b: no (403)\n"
