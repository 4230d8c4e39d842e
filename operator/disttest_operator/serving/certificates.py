"""The certificate that scrapers are shown: a person's from files, else one of our own; changed while we listen."""

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

LOOK_SECONDS = 10.0  # a kubelet takes up to a minute and a half to renew a Secret's files
VALID = timedelta(days=90)
RENEWED_BEFORE = timedelta(days=30)

log = logging.getLogger(__name__)


class Source(StrEnum):
    FILES = "files"
    OWN = "own"


class CertificateCounter(Protocol):
    """Where it is counted."""

    def note_certificate(self, source: str, ends_at: datetime) -> None: ...

    def count_refused_certificate(self) -> None: ...


class Certificate:
    """`tls` is the context to listen with, always the same one; each handshake is given the certificate of now.

    A context that is given a second certificate of another kind of key shows either of them, so each gets its own.
    """

    def __init__(
        self, directory: Path | None, *, names: Sequence[str], clock: Callable[[], datetime], notes: CertificateCounter
    ) -> None:
        self._directory = directory
        self._names = tuple(names)
        self._clock = clock
        self._notes = notes
        self._taken: TlsPair | None = None  # from the directory
        self._own_ends_at: datetime | None = None
        self._refusal = ""
        self._shown = _context()
        self.tls = _context()
        self.tls.sni_callback = self._choose
        self.look()

    async def keep(self, *, look_seconds: float = LOOK_SECONDS) -> None:
        while True:
            await asyncio.sleep(look_seconds)
            try:
                self.look()
            except Exception:
                # A fault of ours here must not end the looks: the certificate would expire.
                log.exception("fault in the operator; the certificate stays as it is")

    def look(self) -> None:
        """Take what is new in the directory. What cannot be used is told, and what was shown stays."""
        try:
            found = self._found()
            if found and found != self._taken:
                self._show(found, Source.FILES)
                self._taken, self._own_ends_at = found, None
        except InvalidPairError as error:
            self._notes.count_refused_certificate()
            if str(error) != self._refusal:
                log.error("%s: %s; what was shown before stays", self._directory, error)  # noqa: TRY400  # no fault of ours
            self._refusal = str(error)
        else:
            self._refusal = ""
        if self._taken is None:
            self._renew_own()

    def _found(self) -> TlsPair | None:
        found = tls_pair.read(self._directory) if self._directory else None
        if found is None and self._taken:
            raise InvalidPairError(f"{tls_pair.CERTIFICATE} and {tls_pair.KEY} are gone")
        return found

    def _renew_own(self) -> None:
        now = self._clock()
        if self._own_ends_at is None or now > self._own_ends_at - RENEWED_BEFORE:
            self._own_ends_at = self._show(tls_pair.self_signed(self._names, now, valid=VALID), Source.OWN)

    def _show(self, pair: TlsPair, source: Source) -> datetime:
        ends_at = tls_pair.ends_at(pair)
        context = _context()
        tls_pair.load(pair, context)
        self._shown = context
        self._notes.note_certificate(source, ends_at)
        log.info("scrapers are shown a certificate (%s) that is valid until %s", source, ends_at)
        return ends_at

    def _choose(self, handshake: ssl.SSLObject | ssl.SSLSocket, _: str | None, __: ssl.SSLContext) -> None:
        """Called in every handshake, also where the scraper names no server."""
        handshake.context = self._shown


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
