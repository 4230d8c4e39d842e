"""Keys and certificates of one cluster, made by OpenSSL and thrown away with it."""

import subprocess
from pathlib import Path

from devcluster.errors import ClusterError
from devcluster.network import API_SERVICE, GATEWAY

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
DAYS = "365"
SERVER_NAMES = (
    "DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,"
    f"DNS:kubernetes.default.svc.cluster.local,IP:127.0.0.1,IP:{GATEWAY},IP:{API_SERVICE}"
)
# Python 3.13 verifies strictly: an authority must have keyUsage, every other certificate authorityKeyIdentifier.
IDENTIFIERS = ("subjectKeyIdentifier=hash", "authorityKeyIdentifier=keyid")
AUTHORITY = ("basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign")
LEAF = (
    "basicConstraints=critical,CA:FALSE",
    "keyUsage=critical,digitalSignature",
    "extendedKeyUsage=serverAuth,clientAuth",
    f"subjectAltName={SERVER_NAMES}",
)
LEAVES = {
    "apiserver": "/CN=kube-apiserver",
    "kubelet-client": "/O=system:masters/CN=kube-apiserver-kubelet-client",  # the API server, calling nodes for logs
    "node": "/CN=node",
}


def create(directory: Path) -> None:
    directory.mkdir(mode=0o700)
    # The system's configuration would add extensions of its own, such as CA:TRUE for everything self-signed.
    (directory / "openssl.conf").write_text("[req]\ndistinguished_name = name\n[name]\n")
    _certificate(directory, "ca", "/CN=devcluster", AUTHORITY)
    for name, subject in LEAVES.items():
        _certificate(directory, name, subject, LEAF, signed_by="ca")
    _openssl(directory, "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "serviceaccounts.key")
    _openssl(directory, "ec", "-in", "serviceaccounts.key", "-pubout", "-out", "serviceaccounts.pub")


def _certificate(directory: Path, name: str, subject: str, extensions: tuple[str, ...], signed_by: str = "") -> None:
    signer = ["-CA", f"{signed_by}.crt", "-CAkey", f"{signed_by}.key"] if signed_by else []
    added = [option for extension in (*extensions, *IDENTIFIERS) for option in ("-addext", extension)]
    files = ["-keyout", f"{name}.key", "-out", f"{name}.crt", "-days", DAYS, "-subj", subject]
    _openssl(directory, "req", "-x509", "-config", "openssl.conf", *KEY, *signer, *files, *added)


def _openssl(directory: Path, *arguments: str) -> None:
    done = subprocess.run(["openssl", *arguments], cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ClusterError(f"openssl {arguments[0]} failed; OpenSSL 3 or newer is needed: {done.stderr.strip()}")
