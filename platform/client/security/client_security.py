"""How the connections of one cluster are secured: TLS contexts and SASL exchanges from one client configuration.

The files are checked before each new connection. When one has changed (certificates are rotated, a password is replaced), all
are read again. If what is there now cannot be used, as between two writes of a rotation, the connection uses what was read last.
"""

import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from ...runtime.backoff import Backoff
from ...runtime.logs import get_library_logger
from ..errors import ClientConfigRefused, ClientError, TlsFailed
from . import mechanisms, properties
from .oauth_tokens import OAuthTokens
from .secret_value import BadReference, is_open_to_others, read_text, resolve
from .settings import SecuritySettings, from_words
from .tls_files import BadCertificates, authorities_context, context_of
from .tls_socket import TlsSocket

log = get_library_logger(__name__)

IN_THE_PROGRAM = "(given in the program)"
_FIRST_PAUSE_MS, _LONGEST_PAUSE_MS = 1_000, 60_000
"""After a refused login the same broker is not asked again before a pause, which doubles."""
_MOST_REFUSALS = 1_000
"""Brokers whose refusals are remembered."""
_Signature = tuple[tuple[int, int, int] | None, ...]

_warned: set[str] = set()
"""Files that others can read; logged once in a process."""


@dataclass(frozen=True, slots=True)
class _Read:
    """What the files held when they were read."""

    settings: SecuritySettings
    context: ssl.SSLContext | None
    tokens: OAuthTokens | None
    files: tuple[Path, ...]
    signature: _Signature


@dataclass(slots=True)
class _Refusal:
    error: ClientError
    until_ms: int
    count: int


class ClientSecurity:
    """One client configuration. Any thread may call. It is not pickled: hand over its path."""

    def __init__(
        self,
        source: Path | Mapping[str, str],
        *,
        environment: Mapping[str, str] | None = None,
        monotonic_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
    ) -> None:
        """`source`: the properties file, or its names and values. Raises `ClientConfigRefused` with every fault."""
        self._source = source if isinstance(source, Path) else dict(source)
        self._environment = os.environ if environment is None else environment
        self._monotonic_ms = monotonic_ms
        self._lock = threading.Lock()
        self._refusals: dict[str, _Refusal] = {}
        self._pause = Backoff(first_ms=_FIRST_PAUSE_MS, longest_ms=_LONGEST_PAUSE_MS)
        self._unusable: _Signature | None = None
        self._read = self._load()

    def __repr__(self) -> str:
        return f"ClientSecurity({self.where})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a client's security is not pickled: pass the path of the client configuration and read it there")

    @property
    def where(self) -> str:
        """Return the file's path, for messages."""
        return str(self._source) if isinstance(self._source, Path) else IN_THE_PROGRAM

    @property
    def settings(self) -> SecuritySettings:
        return self._read.settings

    def look_again(self) -> None:
        """Read the files again if one has changed. What cannot be used is reported in the log; what was read last stays."""
        self._present()

    @property
    def mechanism(self) -> str | None:
        """Return the SASL mechanism; None: no login."""
        return self._read.settings.mechanism

    def wrapped(self, raw: socket.socket, host: str, address: str, timeout_s: float) -> socket.socket | TlsSocket:
        """Return the connected socket, with TLS if the configuration wants it. Takes over `raw`: closes it when it raises.

        Raises TlsFailed, OSError.
        """
        context = self._present().context
        if context is None:
            return raw
        secured = TlsSocket(raw, context, host)
        try:
            secured.handshake(timeout_s)
        except ssl.SSLError as error:
            raw.close()
            if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
                raise ConnectionResetError(
                    0,
                    "the broker ended the connection during the TLS handshake: does it support TLS, and accept our certificate?",
                ) from None
            self.refused(address, failure := tls_failure(address, error))
            raise failure from None
        except BaseException:
            raw.close()
            raise
        return secured

    def exchange(self) -> mechanisms.Exchange:
        """Return a new login's messages."""
        read = self._present()
        settings = read.settings
        match settings.mechanism:
            case "PLAIN":
                return mechanisms.plain(settings.username, settings.password)
            case "OAUTHBEARER":
                assert read.tokens is not None
                assert settings.oauth is not None
                return mechanisms.oauth_bearer(read.tokens.token, settings.oauth.extensions)
            case str(mechanism):
                return mechanisms.scram_login(mechanism, settings.username, settings.password)
        raise AssertionError("there is no login without a mechanism")

    def check_may_try(self, address: str) -> None:
        """Raise the last refusal again if the broker refused us a moment ago and no file has changed since."""
        self._present()
        with self._lock:
            refusal = self._refusals.get(address)
            if refusal is not None and self._monotonic_ms() < refusal.until_ms:
                raise refusal.error

    def refused(self, address: str, error: ClientError) -> None:
        """Note that the broker refused us: it is left in peace for a while."""
        with self._lock:
            count = self._refusals[address].count + 1 if address in self._refusals else 0
            if len(self._refusals) >= _MOST_REFUSALS:
                self._refusals.clear()
            pause_ms = self._pause.wait_ms(count)
            self._refusals[address] = _Refusal(error, self._monotonic_ms() + pause_ms, count)
        log.warning("refused_by_broker", address=address, file=self.where, times=count + 1, pause_ms=pause_ms, reason=str(error))

    def refusal_in(self, address: str, error: BaseException) -> TlsFailed | None:
        """Return the peer's refusal if that is why the first answer did not come. In TLS 1.3 a client learns only then that its
        certificate is not accepted.
        """
        if not isinstance(error.__cause__, ssl.SSLError):
            return None
        failure = tls_failure(address, error.__cause__)
        self.refused(address, failure)
        return failure

    def accepted(self, address: str) -> None:
        with self._lock:
            self._refusals.pop(address, None)

    def _present(self) -> _Read:
        """Return what the files hold now."""
        with self._lock:
            now = _signature(self._read.files)
            if now != self._read.signature and now != self._unusable:
                try:
                    self._read = self._load()
                    self._refusals.clear()
                    self._unusable = None
                    log.info("client_config_read_again", file=self.where)
                except ClientConfigRefused as error:
                    self._unusable = now
                    log.warning("client_config_not_usable_now", file=self.where, reason=str(error))
            return self._read

    def _load(self) -> _Read:
        files: list[Path] = []
        settings = from_words(self._words(files), where=self.where)
        tls, oauth = settings.tls, settings.oauth
        named = (tls.ca_file, tls.certificate_file, tls.key_file, oauth.ca_file if oauth else None)
        files += [Path(one) for one in named if one is not None]
        before = _signature(files)
        try:
            context = context_of(tls) if settings.uses_tls else None
            if oauth is not None and oauth.ca_file is not None:
                authorities_context(oauth.ca_file)
        except BadCertificates as error:
            raise ClientConfigRefused(self.where, [str(error)]) from None
        has_key = None if tls.key_pem is not None else tls.key_file or tls.certificate_file
        _warn_of_open_files([*files[: len(files) - sum(one is not None for one in named)], *([Path(has_key)] if has_key else [])])
        tokens = None if oauth is None else OAuthTokens(oauth)
        return _Read(settings, context, tokens, tuple(files), before)

    def _words(self, files: list[Path]) -> dict[str, str]:
        """Return names and values with references resolved, and put the files that were read into `files`."""
        if isinstance(self._source, Path):
            files.append(self._source)
            try:
                parsed = properties.parse(read_text(self._source, "it"))
            except BadReference as error:
                raise ClientConfigRefused(self.where, [str(error)]) from None
            except properties.BadProperties as error:
                raise ClientConfigRefused(self.where, [str(error)]) from None
            written = {name: value for name, (value, _) in parsed.items()}
        else:
            written = dict(self._source)
        words: dict[str, str] = {}
        faults: list[str] = []
        for name, value in written.items():
            try:
                words[name], found = resolve(value, self._environment)
                files += found
            except BadReference as error:
                faults.append(f"{name}: {error}")
        if faults:
            raise ClientConfigRefused(self.where, faults)
        return words


def tls_failure(address: str, error: ssl.SSLError) -> TlsFailed:
    """Return the error in words: what is wrong with whose certificate, and what to do."""
    if isinstance(error, ssl.SSLCertVerificationError):
        if "hostname" in error.verify_message.lower() or "ip address mismatch" in error.verify_message.lower():
            advice = (
                "connect by a name that the certificate holds (advertised.listeners has the names), "
                "or set ssl.endpoint.identification.algorithm=none"
            )
        else:
            advice = "give ssl.cafile the CA that signed the broker's certificate, or renew the certificate"
        return TlsFailed(address, f"the broker's certificate is not accepted: {error.verify_message}", advice)
    reason = (error.reason or str(error)).replace("_", " ").lower()
    if "alert" in reason:
        advice = (
            "the broker refuses us: give ssl.certfile and ssl.keyfile a certificate that its CA signed and that has not expired"
        )
    elif "wrong version" in reason or "record layer" in reason or "http request" in reason or "packet length" in reason:
        advice = "this listener has no TLS: use its SSL listener, or set security.protocol=PLAINTEXT or SASL_PLAINTEXT"
    else:
        advice = "compare the TLS versions and ciphers of both sides"
    return TlsFailed(address, reason, advice)


def _signature(files: tuple[Path, ...] | list[Path]) -> _Signature:
    found: list[tuple[int, int, int] | None] = []
    for path in files:
        try:
            facts = os.stat(path)
            found.append((facts.st_mtime_ns, facts.st_ino, facts.st_size))
        except OSError:
            found.append(None)
    return tuple(found)


def _warn_of_open_files(files: list[Path]) -> None:
    for path in files:
        if str(path) not in _warned and is_open_to_others(path):
            _warned.add(str(path))
            log.warning("secret_file_readable_by_others", file=str(path), advice=f"chmod o-r {path}")
