"""The certificate of /metrics: from files, or self-signed. It is replaced while the server listens."""

import asyncio
import logging
import ssl
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from disttest_operator.serving import tls_pair
from disttest_operator.serving.tls_pair import InvalidPairError, TlsPair

POLL_SECONDS = 10.0  # a kubelet takes up to a minute and a half to renew a Secret's files
VALID = timedelta(days=90)
RENEWED_BEFORE = timedelta(days=30)

log = logging.getLogger(__name__)


class Source(StrEnum):
    FILES = "files"
    OWN = "own"


class CertificateCounter(Protocol):
    def note_certificate(self, source: str, ends_at: datetime) -> None: ...

    def count_refused_certificate(self) -> None: ...


class Certificate:
    """`tls` is the context to listen with, always the same one; each handshake gets the current certificate.

    A context with two certificates of different key types presents either of them, so each has its own context.
    """

    def __init__(
        self,
        directory: Path | None,
        *,
        names: Sequence[str],
        clock: Callable[[], datetime],
        counter: CertificateCounter,
    ) -> None:
        self._directory = directory
        self._names = tuple(names)
        self._clock = clock
        self._counter = counter
        self._loaded: TlsPair | None = None  # from the directory
        self._own_ends_at: datetime | None = None
        self._refusal = ""
        self._current = _context()
        self.tls = _context()
        self.tls.sni_callback = self._choose
        self.reload()

    async def run(self, *, poll_seconds: float = POLL_SECONDS) -> None:
        while True:
            await asyncio.sleep(poll_seconds)
            try:
                self.reload()
            except Exception:
                # A bug in the operator must not end the task: the certificate would expire.
                log.exception("bug in the operator; the certificate does not change")

    def reload(self) -> None:
        """Load new files of the directory. If they cannot be used, log that and keep the current certificate."""
        try:
            found = self._read()
            if found and found != self._loaded:
                self._use(found, Source.FILES)
                self._loaded, self._own_ends_at = found, None
        except InvalidPairError as error:
            self._counter.count_refused_certificate()
            if str(error) != self._refusal:
                log.error("%s: %s; the previous certificate stays in use", self._directory, error)  # noqa: TRY400  # no use here
            self._refusal = str(error)
        else:
            self._refusal = ""
        if self._loaded is None:
            self._renew_self_signed()

    def _read(self) -> TlsPair | None:
        found = tls_pair.read(self._directory) if self._directory else None
        if found is None and self._loaded:
            raise InvalidPairError(f"{tls_pair.CERTIFICATE} and {tls_pair.KEY} were deleted")
        return found

    def _renew_self_signed(self) -> None:
        now = self._clock()
        if self._own_ends_at is None or now > self._own_ends_at - RENEWED_BEFORE:
            self._own_ends_at = self._use(tls_pair.self_signed(self._names, now, valid=VALID), Source.OWN)

    def _use(self, pair: TlsPair, source: Source) -> datetime:
        ends_at = tls_pair.ends_at(pair)
        context = _context()
        tls_pair.load(pair, context)
        self._current = context
        self._counter.note_certificate(source, ends_at)
        log.info("the certificate of /metrics (%s) is valid until %s", source, ends_at)
        return ends_at

    def _choose(self, handshake: ssl.SSLObject | ssl.SSLSocket, _: str | None, __: ssl.SSLContext) -> None:
        """Called in every handshake, also if the client sends no server name."""
        handshake.context = self._current


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
