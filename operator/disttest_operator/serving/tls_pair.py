"""Certificates with their keys: read from files, created, and decoded. No other module uses cryptography."""

import os
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CERTIFICATE, KEY = "tls.crt", "tls.key"  # as in a Secret of type kubernetes.io/tls
LIMIT_BYTES = 1 << 20  # what a Secret can hold
CLOCKS_DIFFER = timedelta(minutes=5)  # between the operator and scrapers
READS = 3


class InvalidPairError(Exception):
    """The message names the file and the problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsPair:
    """Both in PEM; the certificate may be followed by its chain."""

    certificate: bytes
    key: bytes


def read(directory: Path) -> TlsPair | None:
    """None without both files. A Secret's files are replaced together, but perhaps between two reads."""
    for _ in range(READS):
        before, key, after = (_content(directory / name) for name in (CERTIFICATE, KEY, CERTIFICATE))
        if before != after:
            continue
        if before is None and key is None:
            return None
        if before is None or key is None:
            raise InvalidPairError(f"{CERTIFICATE if key else KEY} is missing")
        return TlsPair(certificate=before, key=key)
    raise InvalidPairError(f"{CERTIFICATE} changed while it was read")


def load(pair: TlsPair, into: ssl.SSLContext) -> None:
    """Load the pair for the next handshakes. A context in which this fails must not be used."""
    with _memory_file(pair.certificate) as certificate, _memory_file(pair.key) as key:
        try:
            into.load_cert_chain(certificate, key, password=_refuse_passphrase)
        except ssl.SSLError as error:
            raise InvalidPairError(f"{CERTIFICATE} and {KEY} are not a valid PEM pair: {error}") from error


def ends_at(pair: TlsPair) -> datetime:
    """When the certificate expires; its chain is not considered."""
    try:
        return x509.load_pem_x509_certificate(pair.certificate).not_valid_after_utc
    except ValueError as error:
        raise InvalidPairError(f"{CERTIFICATE} cannot be read: {error}") from error


def self_signed(names: Sequence[str], now: datetime, *, valid: timedelta) -> TlsPair:
    """A certificate that encrypts, but proves no identity."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
    certificate = (
        x509.CertificateBuilder(issuer_name=subject, subject_name=subject, public_key=key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCKS_DIFFER)
        .not_valid_after(now + valid)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    plain = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return TlsPair(certificate=certificate.public_bytes(pem), key=key.private_bytes(pem, *plain))


def _content(file: Path) -> bytes | None:
    try:
        with file.open("rb") as opened:
            return opened.read(LIMIT_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidPairError(f"{file.name} cannot be read ({error.strerror})") from error


def _refuse_passphrase() -> str:
    """Without this callback, OpenSSL prompts on a terminal."""
    raise InvalidPairError(f"{KEY} is encrypted; use a key without a passphrase")


@contextmanager
def _memory_file(content: bytes) -> Iterator[str]:
    """A file in memory: ssl reads certificates from files only, and the root file system is read-only."""
    with open(os.memfd_create("pair", os.MFD_CLOEXEC), "wb", buffering=0) as file:  # noqa: PTH123  # it has no path
        file.write(content)
        yield f"/proc/self/fd/{file.fileno()}"
