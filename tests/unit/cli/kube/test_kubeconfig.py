"""How the command line reaches an API server: kubeconfigs, credentials, certificates, proxies, a pod's account."""

import base64
import json
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from devcluster.controlplane import lifecycle
from disttest_cli.kube import client, credentials, kubeconfig
from disttest_cli.kube.client import KubeClient
from disttest_operator.core.api.api_errors import RequestRefusedError, ServerUnreachableError
from disttest_operator.core.api.resources import Kind
from tests.support.fakes.canned import NAMESPACE, Server, serving

BODY = {"metadata": {"name": "a"}}
PLUGIN = """
import json, os, sys
runs = sys.argv[1]
open(runs, "a").write("x")
print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": STATUS}))
"""


def written(path: Path, **config: Any) -> str:
    """A kubeconfig with one context, cluster and user, where `config` says nothing else."""
    user, server = config.pop("user", {}), config.pop("cluster", {})
    whole = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": NAMESPACE}}],
        "clusters": [{"name": "c", "cluster": server}],
        "users": [{"name": "u", "user": user}],
        **config,
    }
    path.write_text(json.dumps(whole))
    return str(path)


def get(api: KubeClient, server: Server) -> str:
    """One request, and the authorization that the server saw."""
    server.answers = [(200, BODY)]
    assert api.get(Kind.RUN, NAMESPACE, "a") == BODY
    return server.requests[-1].authorization


def plugin(folder: Path, status: dict[str, Any], **fields: Any) -> dict[str, Any]:
    program = folder / "plugin.py"
    program.write_text(PLUGIN.replace("STATUS", repr(status)))
    return {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": [str(program), str(folder / "runs")],
        **fields,
    }


@pytest.mark.parametrize(
    ("user", "authorization"),
    [
        ({"token": "t"}, "Bearer t"),
        ({"tokenFile": "token"}, "Bearer from-file"),
        ({"token": "t", "tokenFile": "token"}, "Bearer from-file"),
        ({"username": "u", "password": "p"}, "Basic dTpw"),
        ({}, ""),
    ],
    ids=["token", "token-file", "both", "password", "no user"],
)
def test_a_user_is_sent_as_kubectl_sends_it(
    user: dict[str, str], authorization: str, server: Server, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("from-file\n")
    file = written(tmp_path / "config", user=user, cluster={"server": server.url})
    assert get(client.connect({}, kubeconfig=file), server) == authorization


def test_a_token_file_is_read_again_for_every_request(server: Server, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("old")
    file = written(tmp_path / "config", user={"tokenFile": "token"}, cluster={"server": server.url})
    api = client.connect({}, kubeconfig=file)
    assert get(api, server) == "Bearer old"
    (tmp_path / "token").write_text("new")
    assert get(api, server) == "Bearer new"


@pytest.mark.parametrize(("expires", "runs"), [("2999-01-01T00:00:00Z", "x"), ("2020-01-01T00:00:00Z", "xxx")])
def test_an_exec_plugin_is_run_again_only_when_its_token_expires(
    expires: str, runs: str, server: Server, tmp_path: Path
) -> None:
    status = {"token": "made", "expirationTimestamp": expires}
    file = written(tmp_path / "config", user={"exec": plugin(tmp_path, status)}, cluster={"server": server.url})
    api = client.connect({}, kubeconfig=file)
    assert [get(api, server), get(api, server)] == ["Bearer made"] * 2
    assert (tmp_path / "runs").read_text() == runs


def test_an_exec_plugin_gets_its_environment_and_the_cluster(server: Server, tmp_path: Path) -> None:
    code = "import json, os; info = json.loads(os.environ['KUBERNETES_EXEC_INFO']); status = {'token': '-'.join(("
    code += "os.environ['WHO'], info['spec']['cluster']['server'], info['spec']['cluster']['config']['audience']))}; "
    code += "print(json.dumps({'apiVersion': info['apiVersion'], 'kind': info['kind'], 'status': status}))"
    program = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": sys.executable,
        "args": ["-c", code],
        "env": [{"name": "WHO", "value": "me"}],
        "provideClusterInfo": True,
    }
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "us"}}
    file = written(
        tmp_path / "config", user={"exec": program}, cluster={"server": server.url, "extensions": [extension]}
    )
    assert get(client.connect({}, kubeconfig=file), server) == f"Bearer me-{server.url}-us"


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (
            {"command": "no-such-plugin", "installHint": "Get it at example.org"},
            r"no-such-plugin.*Get it at example\.org",
        ),
        ({"command": sys.executable, "args": ["-c", "raise SystemExit('log in first')"]}, r"exit code 1: log in first"),
        ({"command": sys.executable, "args": ["-c", "print(3)"]}, "no ExecCredential"),
        ({"command": sys.executable, "args": ["-c", "print('{}')"]}, "no ExecCredential"),
    ],
    ids=["absent", "failing", "number", "empty"],
)
def test_an_exec_plugin_that_gives_nothing_is_named(
    program: dict[str, Any], words: str, server: Server, tmp_path: Path
) -> None:
    program = {"apiVersion": "client.authentication.k8s.io/v1", **program}
    file = written(tmp_path / "config", user={"exec": program}, cluster={"server": server.url})
    with pytest.raises(RequestRefusedError, match=words) as caught:
        client.connect({}, kubeconfig=file)
    assert "\n" not in str(caught.value)


def test_an_exec_plugin_without_an_answer_has_a_deadline(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "PLUGIN_SECONDS", 0.2)
    program = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "interactiveMode": "Never",
        "command": sys.executable,
        "args": ["-c", "import time; time.sleep(600)"],
    }
    file = written(tmp_path / "config", user={"exec": program}, cluster={"server": server.url})
    with pytest.raises(RequestRefusedError, match=r"did not respond within 0\.2 s"):
        client.connect({}, kubeconfig=file)


def test_the_first_of_several_files_wins_and_files_are_relative_to_their_own_folder(
    server: Server, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
        (folder / "token").write_text(folder.name)
    written(first / "config", clusters=[], user={"tokenFile": "token"})
    written(second / "config", cluster={"server": server.url}, user={"tokenFile": "token"}, **{"current-context": "x"})
    paths = f"{tmp_path / 'absent'}:{first / 'config'}:{second / 'config'}"
    assert get(client.connect({"KUBECONFIG": paths}), server) == "Bearer first"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pki") / "keys"
    lifecycle.create_certificates(folder)
    return folder


@pytest.fixture
def secure(keys: Path) -> Iterator[Server]:
    """Asks for a certificate of its authority."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=keys / "ca.crt")
    context.load_cert_chain(keys / "apiserver.crt", keys / "apiserver.key")
    context.verify_mode = ssl.CERT_REQUIRED
    with serving(context) as state:
        yield state


def encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


@pytest.mark.parametrize("inline", [False, True], ids=["files", "data"])
def test_a_certificate_is_shown_and_the_servers_is_verified(inline: bool, secure: Server, keys: Path) -> None:  # noqa: FBT001  # a parameter
    kind = "-data" if inline else ""
    read = encoded if inline else Path.__str__
    user = {f"client-certificate{kind}": read(keys / "node.crt"), f"client-key{kind}": read(keys / "node.key")}
    there = {"server": secure.url, f"certificate-authority{kind}": read(keys / "ca.crt")}
    file = written(keys / f"config{kind}", user=user, cluster=there)
    get(client.connect({}, kubeconfig=file), secure)


def test_a_plugin_may_bring_the_certificate(secure: Server, keys: Path, tmp_path: Path) -> None:
    status = {
        "clientCertificateData": (keys / "node.crt").read_text(),
        "clientKeyData": (keys / "node.key").read_text(),
    }
    there = {"server": secure.url, "certificate-authority": str(keys / "ca.crt")}
    file = written(tmp_path / "config", user={"exec": plugin(tmp_path, status)}, cluster=there)
    get(client.connect({}, kubeconfig=file), secure)


def test_a_server_is_verified_by_its_authority_and_name_by_default(secure: Server, keys: Path, tmp_path: Path) -> None:
    user = {"client-certificate": str(keys / "node.crt"), "client-key": str(keys / "node.key")}
    authority = {"certificate-authority": str(keys / "ca.crt")}

    def connected(**fields: Any) -> KubeClient:
        file = written(tmp_path / "config", user=user, cluster={"server": secure.url, **fields})
        return client.connect({}, kubeconfig=file)

    for unknown in ({}, {**authority, "tls-server-name": "elsewhere"}):
        with pytest.raises(ServerUnreachableError, match="cannot trust the API server"):
            get(connected(**unknown), secure)
    get(connected(**authority, **{"tls-server-name": "kubernetes.default"}), secure)
    get(connected(**{"insecure-skip-tls-verify": True}), secure)


@pytest.mark.parametrize("where", ["kubeconfig", "http_proxy", "HTTP_PROXY"])
def test_a_proxy_is_asked(where: str, server: Server, tmp_path: Path) -> None:
    """The server is the proxy; the address of the API server has no listener."""
    fields = {"proxy-url": server.url} if where == "kubeconfig" else {}
    file = written(tmp_path / "config", user={"token": "t"}, cluster={"server": "http://api.example:6443", **fields})
    assert get(client.connect({where: server.url}, kubeconfig=file), server) == "Bearer t"
    assert server.requests[-1].path.startswith("http://api.example:6443/apis/")


@pytest.mark.parametrize(
    ("server_url", "no_proxy", "expected"),
    [
        ("https://api.example:6443", "", "http://p"),
        ("https://api.example:6443", "other, example", ""),
        ("https://api.example:6443", ".example", ""),
        ("https://api.example:6443", "api.example:6443", ""),
        ("https://api.example:6443", "ample", "http://p"),
        ("https://10.1.2.3", "10.0.0.0/8", ""),
        ("https://10.1.2.3", "11.0.0.0/8", "http://p"),
        ("https://[fd00::1]:6443", "fd00::/8", ""),
        ("https://api.example", "*", ""),
        ("https://127.0.0.1:6443", "", ""),
        ("https://localhost:6443", "", ""),
    ],
)
def test_no_proxy_names_hosts_domains_and_networks(server_url: str, no_proxy: str, expected: str) -> None:
    environ = {"HTTPS_PROXY": "http://p", "NO_PROXY": no_proxy}
    assert kubeconfig.proxy_of(urlsplit(server_url), environ) == expected


def test_in_a_pod_its_service_account_is_used(
    secure: Server, keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("of-the-pod\n")
    (tmp_path / "ca.crt").write_bytes((keys / "ca.crt").read_bytes())
    (tmp_path / "namespace").write_text("mine")
    monkeypatch.setattr(kubeconfig, "ACCOUNT", tmp_path)
    address = urlsplit(secure.url)
    environ = {"KUBERNETES_SERVICE_HOST": str(address.hostname), "KUBERNETES_SERVICE_PORT": str(address.port)}
    target = kubeconfig.load(environ)
    assert (target.server, target.namespace) == (secure.url, "mine")
    assert target.credential().authorization == "Bearer of-the-pod"
    assert target.authority == (keys / "ca.crt").read_text()
    with pytest.raises(RequestRefusedError, match="KUBERNETES_SERVICE_HOST"):
        client.connect({})


def test_without_a_kubeconfig_the_places_that_were_tried_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(kubeconfig, "ACCOUNT", tmp_path / "account")
    with pytest.raises(RequestRefusedError) as caught:
        client.connect({})
    assert str(caught.value) == (
        f"no kubeconfig found: $KUBECONFIG is not set, {tmp_path}/.kube/config does not exist, and this is not a pod "
        f"({tmp_path}/account/token does not exist). Name a file with --kubeconfig."
    )
    with pytest.raises(RequestRefusedError) as caught:
        client.connect({"KUBECONFIG": f"{tmp_path}/a:{tmp_path}/b"})
    assert str(caught.value) == (
        f"no kubeconfig found: $KUBECONFIG names {tmp_path}/a and {tmp_path}/b, which do not exist. "
        "Name a file with --kubeconfig."
    )
    with pytest.raises(RequestRefusedError) as caught:
        client.connect({}, kubeconfig=f"{tmp_path}/a")
    assert str(caught.value) == (
        f"no kubeconfig found: --kubeconfig names {tmp_path}/a, which does not exist. Name a file with --kubeconfig."
    )


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"current-context": ""}, "no current-context"),
        ({"current-context": "x"}, r"no context 'x'.*here"),
        ({"clusters": []}, "no cluster 'c'"),
        ({"users": []}, "no user 'u'"),
        ({"clusters": 3}, "clusters"),
        ({"cluster": {}}, "server"),
        ({"cluster": {"server": "https://a", "certificate-authority": "absent"}}, "absent"),
        ({"cluster": {"server": "https://a", "certificate-authority-data": "%"}}, "certificate-authority-data"),
        ({"cluster": {"server": "https://a"}, "user": {"client-certificate": "absent"}}, "absent"),
        ({"cluster": {"server": "https://a"}, "user": {"tokenFile": "absent"}}, "absent"),
        ({"cluster": {"server": "https://a", "proxy-url": "socks5://p"}}, "PySocks"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_is_wrong_in_a_kubeconfig_is_named(fields: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(RequestRefusedError, match=words) as caught:
        client.connect({}, kubeconfig=written(tmp_path / "config", **fields))
    assert "\n" not in str(caught.value)


def test_users_of_an_old_auth_provider_are_left_to_the_kubernetes_client(server: Server, tmp_path: Path) -> None:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": 32503680000}).encode()).decode().rstrip("=")
    token = f"head.{claims}.signature"
    user = {"auth-provider": {"name": "oidc", "config": {"id-token": token}}}
    file = written(tmp_path / "config", user=user, cluster={"server": server.url})
    assert get(client.connect({}, kubeconfig=file), server) == f"Bearer {token}"


def test_no_private_key_stays_in_the_temporary_folder(
    secure: Server, keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    user = {"client-certificate-data": encoded(keys / "node.crt"), "client-key-data": encoded(keys / "node.key")}
    there = {"server": secure.url, "certificate-authority": str(keys / "ca.crt")}
    get(client.connect({}, kubeconfig=written(tmp_path / "config", user=user, cluster=there)), secure)
    assert list(place.iterdir()) == []


def test_commands_on_a_cluster_do_without_the_kubernetes_package(server: Server, tmp_path: Path) -> None:
    """It takes a second to import: a kubeconfig without an auth-provider needs none of it."""
    server.answers = [(200, {"items": []})]
    program = (
        "import sys; from disttest_cli.main import main; code = main(sys.argv[1:]); "
        "print(code, *sorted({'kubernetes', 'requests', 'pydantic'} & set(sys.modules)))"
    )
    arguments = ["list", "--kubeconfig", server.kubeconfig(tmp_path)]
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout == "0\n"
