"""Sends a write to the leader as it came, and gives its answer back as it is. Bounded in time; never further than one step."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from ...runtime import http_credentials
from ...runtime.http_call import HttpAddress, HttpAnswer, HttpAnswerTooLong, NoHttpAnswer
from ..errors import RegistryError
from . import refusals
from .write_gate import MustForward

FORWARDED = "X-Forwarded-By-Registry"
"""On a request that came from another registry: it is not sent on."""
RETRY_EVERY_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """The request as it came."""

    method: str
    target: str
    body: bytes
    accept: str
    content_type: str
    authorization: str | None
    is_forwarded: bool


class Forwarding:
    """Answers a request: here if this process may write, else from the leader. While the leader changes, it waits."""

    def __init__(self, catch_up: Callable[[], None], *, within_ms: int) -> None:
        """`catch_up` makes what the leader wrote readable here."""
        self._catch_up = catch_up
        self._within_ms = within_ms
        self._pause = threading.Event()

    def answer(self, sent: Sent, act: Callable[[], object]) -> object:
        """Return what `act` returns, or the leader's answer, an `HttpAnswer`. Raises 50003, 50004 when the time is over."""
        deadline = time.monotonic() + self._within_ms / 1000
        while True:
            try:
                return act()
            except MustForward as elsewhere:
                if sent.is_forwarded:
                    raise refusals.forwarding_failed(
                        f"this registry does not lead any more, {elsewhere.leader_url} does"
                    ) from None
                url, why = elsewhere.leader_url, ""
            except refusals.NoLeader:
                if sent.is_forwarded or time.monotonic() >= deadline:
                    raise
                self._pause.wait(RETRY_EVERY_S)
                continue
            try:
                answer = _sent(url, sent, max(100, int((deadline - time.monotonic()) * 1000)))
            except (NoHttpAnswer, HttpAnswerTooLong) as error:
                # The leader may have written before it died: every write may be asked for again.
                why = str(error)
            else:
                if answer.status != 500 or (b"50003" not in answer.body[:200] and b"50004" not in answer.body[:200]):
                    self._follow(answer)
                    return answer
                why = "it does not lead any more"
            if time.monotonic() >= deadline:
                raise refusals.forwarding_failed(f"{url} did not take it within {self._within_ms} ms: {why}")
            self._pause.wait(RETRY_EVERY_S)

    def _follow(self, answer: HttpAnswer) -> None:
        if answer.status >= 300:
            return
        try:
            self._catch_up()
        except RegistryError:
            # It is written; only this process reads it a little later.
            return


def _sent(url: str, sent: Sent, within_ms: int) -> HttpAnswer:
    headers = {FORWARDED: "1", "Accept": sent.accept or "*/*", "Content-Type": sent.content_type}
    headers |= {"Authorization": sent.authorization} if sent.authorization else http_credentials.headers("REGISTRY")
    address = HttpAddress(url)
    tls = http_credentials.tls_context("REGISTRY") if address.is_tls else None
    return address.call(sent.method, sent.target, sent.body or None, headers, within_ms=within_ms, tls=tls)
