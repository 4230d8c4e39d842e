"""What scrapers are shown in real handshakes while files come, change, break and go."""

import asyncio
import contextlib
import logging
import shutil
import ssl
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from disttest_operator.serving import servers, tls_pair
from disttest_operator.serving.certificates import RENEWED_BEFORE, VALID, Certificate
from disttest_operator.serving.tls_pair import TlsPair
from tests.support import patience

NAMES = ("disttest-operator", "disttest-operator.disttest-system.svc")
NOW = datetime.now(UTC)  # of the handshakes too: certificates are checked by the real clock
MONTH = timedelta(days=30)
DEADLINE_SECONDS = 5


class RecordedCounter:
    def __init__(self) -> None:
        self.shown: list[tuple[str, datetime]] = []
        self.refused = 0
        self.is_shown = asyncio.Event()

    def note_certificate(self, source: str, ends_at: datetime) -> None:
        self.shown.append((source, ends_at))
        self.is_shown.set()

    def count_refused_certificate(self) -> None:
        self.refused += 1


@dataclass
class Scene:
    certificate: Certificate
    counter: RecordedCounter
    directory: Path
    port: int = 0

    async def shown(self, name: str | None = None) -> bytes:
        """The certificate of one new handshake, as PEM; with or without a name that is asked for."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        _, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=context, server_hostname=name or "")
        der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        with contextlib.suppress(ssl.SSLError):
            await writer.wait_closed()
        return ssl.DER_cert_to_PEM_cert(der).encode()

    async def scrape(self, ca: bytes, name: str) -> str:
        """Over a connection on which everything is verified; the protocol that was agreed on."""
        context = ssl.create_default_context(cadata=ca.decode())
        _, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=context, server_hostname=name)
        version = str(writer.get_extra_info("ssl_object").version())
        writer.close()
        with contextlib.suppress(ssl.SSLError):
            await writer.wait_closed()
        return version


def pair(*names: str, valid: timedelta = MONTH) -> TlsPair:
    return tls_pair.self_signed(names or NAMES, NOW, valid=valid)


def rsa_pair(passphrase: bytes = b"") -> TlsPair:
    """With another key type than the self-signed one, as by default from cert-manager."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "rsa")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), NOW, NOW + MONTH)
    certificate = builder.sign(key, hashes.SHA256())
    locked = serialization.BestAvailableEncryption(passphrase) if passphrase else serialization.NoEncryption()
    pem = serialization.Encoding.PEM
    return TlsPair(
        certificate=certificate.public_bytes(pem),
        key=key.private_bytes(pem, serialization.PrivateFormat.PKCS8, locked),
    )


def put(directory: Path, found: TlsPair) -> None:
    (directory / tls_pair.CERTIFICATE).write_bytes(found.certificate)
    (directory / tls_pair.KEY).write_bytes(found.key)


def put_in_place_of_all(directory: Path, found: TlsPair) -> None:
    shutil.rmtree(directory)
    directory.mkdir()
    put(directory, found)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    place = tmp_path / "certificates"
    place.mkdir()
    return place


def play(directory: Path | None, scenario: Callable[[Scene], Awaitable[None]]) -> None:
    """With a server that listens."""

    async def whole() -> None:
        counter = RecordedCounter()
        certificate = Certificate(directory, names=NAMES, clock=lambda: NOW, counter=counter)
        app = servers.metrics_app(lambda _: (b"", "text/plain"), authorize=servers.allow_all, count=lambda _: None)
        runner = await servers.serve(app, "127.0.0.1:0", certificate.tls)
        try:
            await scenario(Scene(certificate, counter, directory or Path(), runner.addresses[0][1]))
        finally:
            await runner.cleanup()

    asyncio.run(whole())


@pytest.mark.parametrize("place", [True, False], ids=["empty directory", "no directory"])
def test_without_files_a_self_signed_certificate_is_used(place: bool, directory: Path) -> None:  # noqa: FBT001  # a parameter
    async def scenario(scene: Scene) -> None:
        shown = await scene.shown()
        names = x509.load_pem_x509_certificate(shown).extensions.get_extension_for_class(x509.SubjectAlternativeName)
        assert names.value.get_values_for_type(x509.DNSName) == list(NAMES)
        [(source, ends_at)] = scene.counter.shown
        assert (source, ends_at) == ("own", (NOW + VALID).replace(microsecond=0))
        for name in NAMES:
            assert await scene.scrape(shown, name) == "TLSv1.3"
        assert scene.certificate.tls.minimum_version is ssl.TLSVersion.TLSv1_2

    play(directory if place else None, scenario)


@pytest.mark.parametrize("name", [None, "disttest-operator"], ids=["by address", "by name"])
@pytest.mark.parametrize("make", [pair, rsa_pair], ids=["same kind of key", "another kind of key"])
def test_files_that_appear_and_change_are_used_from_the_next_handshake_on(
    make: Callable[[], TlsPair], name: str | None, directory: Path
) -> None:
    async def scenario(scene: Scene) -> None:
        own = await scene.shown(name)
        before = own
        for _ in range(2):
            given = make()
            put(directory, given)
            assert await scene.shown(name) == before
            scene.certificate.reload()
            assert await scene.shown(name) == given.certificate
            before = given.certificate
        assert [source for source, _ in scene.counter.shown] == ["own", "files", "files"]
        assert scene.counter.refused == 0

    play(directory, scenario)


def test_what_lies_there_already_is_shown_from_the_beginning(directory: Path) -> None:
    given = pair("scraped.example.com")
    put(directory, given)

    async def scenario(scene: Scene) -> None:
        assert await scene.scrape(given.certificate, "scraped.example.com")
        with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
            await scene.scrape(given.certificate, NAMES[0])
        assert scene.counter.shown == [("files", (NOW + MONTH).replace(microsecond=0))]

    play(directory, scenario)


def test_a_connection_that_is_open_stays_open(directory: Path) -> None:
    async def scenario(scene: Scene) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        reader, writer = await asyncio.open_connection("127.0.0.1", scene.port, ssl=context)
        for _ in range(2):
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
            put(directory, pair())
            scene.certificate.reload()
        writer.close()

    play(directory, scenario)


def foreign_key(directory: Path) -> None:
    (directory / tls_pair.KEY).write_bytes(pair().key)


def no_key(directory: Path) -> None:
    (directory / tls_pair.KEY).unlink()


def no_certificate(directory: Path) -> None:
    (directory / tls_pair.CERTIFICATE).unlink()


def garbage(directory: Path) -> None:
    (directory / tls_pair.CERTIFICATE).write_bytes(b"-----BEGIN CERTIFICATE-----\nno\n-----END CERTIFICATE-----\n")


def empty(directory: Path) -> None:
    put(directory, TlsPair(certificate=b"", key=b""))


def locked(directory: Path) -> None:
    put(directory, rsa_pair(b"secret"))


def no_files(directory: Path) -> None:
    no_key(directory)
    no_certificate(directory)


def a_directory(directory: Path) -> None:
    no_key(directory)
    (directory / tls_pair.KEY).mkdir()


BROKEN = {
    foreign_key: "tls.crt and tls.key are not a valid PEM pair: [X509: KEY_VALUES_MISMATCH]",
    no_key: "tls.key is missing",
    no_certificate: "tls.crt is missing",
    garbage: "tls.crt cannot be read",
    empty: "tls.crt cannot be read",
    locked: "tls.key is encrypted; use a key without a passphrase",
    no_files: "tls.crt and tls.key were deleted",
    a_directory: "tls.key cannot be read (Is a directory)",
}


@pytest.mark.parametrize(("breaks", "words"), BROKEN.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_a_broken_pair_is_logged_and_the_previous_certificate_stays_until_a_valid_one_is_loaded(
    breaks: Callable[[Path], None], words: str, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    given = pair()
    put(directory, given)

    async def scenario(scene: Scene) -> None:
        breaks(directory)
        for _ in range(3):
            scene.certificate.reload()
        assert await scene.shown() == given.certificate
        assert await scene.scrape(given.certificate, NAMES[0])
        assert scene.counter.refused == 3
        better = pair()
        put_in_place_of_all(directory, better)
        scene.certificate.reload()
        assert await scene.shown() == better.certificate
        assert scene.counter.refused == 3

    with caplog.at_level(logging.ERROR):
        play(directory, scenario)
    [record] = [record for record in caplog.records if record.name == "disttest_operator.serving.certificates"]
    assert record.getMessage().startswith(f"{directory}: {words}")
    assert record.getMessage().endswith("the previous certificate stays in use")


def test_a_pair_that_is_invalid_at_start_leaves_the_self_signed_certificate(directory: Path) -> None:
    put(directory, pair())
    foreign_key(directory)

    async def scenario(scene: Scene) -> None:
        assert [source for source, _ in scene.counter.shown] == ["own"]
        assert scene.counter.refused == 1
        assert await scene.scrape(await scene.shown(), NAMES[0])

    play(directory, scenario)


def test_a_secret_that_the_kubelet_replaces_is_loaded_as_a_whole(directory: Path) -> None:
    """It writes new files next to the old ones and changes one link."""

    def mount(version: str, given: TlsPair) -> None:
        (directory / version).mkdir()
        put(directory / version, given)
        link = directory / "..new"
        link.symlink_to(version)
        link.rename(directory / "..data")

    first, second = pair(), pair()
    mount("..1", first)
    for name in (tls_pair.CERTIFICATE, tls_pair.KEY):
        (directory / name).symlink_to(f"..data/{name}")

    async def scenario(scene: Scene) -> None:
        assert await scene.shown() == first.certificate
        mount("..2", second)
        scene.certificate.reload()
        assert await scene.shown() == second.certificate

    play(directory, scenario)


def test_a_self_signed_certificate_is_renewed_in_time_and_one_from_files_is_not(directory: Path) -> None:
    now = NOW
    counter = RecordedCounter()
    certificate = Certificate(directory, names=NAMES, clock=lambda: now, counter=counter)
    now = NOW + VALID - RENEWED_BEFORE - timedelta(hours=1)
    certificate.reload()
    assert len(counter.shown) == 1
    now = NOW + VALID - RENEWED_BEFORE + timedelta(hours=1)
    certificate.reload()
    certificate.reload()
    assert counter.shown[1:] == [("own", (now + VALID).replace(microsecond=0))]
    put(directory, pair(valid=timedelta(days=1)))
    certificate.reload()
    now += timedelta(days=400)
    certificate.reload()
    assert [source for source, _ in counter.shown] == ["own", "own", "files"]


def test_files_are_reloaded_while_the_server_runs_even_after_a_bug(directory: Path) -> None:
    async def scenario() -> None:
        failed = asyncio.Event()
        answers = iter([NOW])

        def clock() -> datetime:
            if not (answer := next(answers, None)):
                failed.set()
                raise ZeroDivisionError
            return answer

        counter = RecordedCounter()
        certificate = Certificate(directory, names=NAMES, clock=clock, counter=counter)
        keeping = asyncio.create_task(certificate.run(poll_seconds=0.001))
        async with asyncio.timeout(patience.stretched(DEADLINE_SECONDS)):
            await failed.wait()
            counter.is_shown.clear()
            put(directory, pair())
            await counter.is_shown.wait()
        keeping.cancel()
        assert [source for source, _ in counter.shown] == ["own", "files"]

    asyncio.run(scenario())


def test_polling_of_the_files_ends_with_the_server(directory: Path) -> None:
    async def scenario() -> None:
        certificate = Certificate(directory, names=NAMES, clock=lambda: NOW, counter=RecordedCounter())
        app = web.Application()
        servers.reload_while_serving(certificate, app)
        runner = await servers.serve(app, "127.0.0.1:0", certificate.tls)
        assert looks() == 1
        await runner.cleanup()
        assert looks() == 0

    asyncio.run(scenario())


def looks() -> int:
    return sum(task.get_name() == "certificate" for task in asyncio.all_tasks())


@pytest.fixture(autouse=True)
def no_descriptor_is_left_open() -> Iterator[None]:
    """A look every ten seconds for months must not use them up."""
    before = len(list(Path("/proc/self/fd").iterdir()))
    yield
    assert len(list(Path("/proc/self/fd").iterdir())) <= before
