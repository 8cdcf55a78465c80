"""Builds the logins of a broker from its settings: which mechanism is served by what."""

from collections.abc import Callable

from ...runtime.rate_limited_log import RateLimitedLog
from ..event_loop.loop import Loop
from ..event_loop.worker import Worker
from ..network.peer import Peer
from ..settings.broker_settings import BrokerSettings
from ..settings.login_settings import OAUTHBEARER, PLAIN
from .exchange import Exchange
from .login import Login, Logins, NoteFailure
from .oauth_exchange import OAuthExchange
from .oauth_keys import Keys
from .plain_exchange import PlainExchange
from .scram_exchange import ScramExchange
from .users import Users


def logins_of(
    settings: BrokerSettings,
    loop: Loop,
    users: Users,
    worker: Worker,
    now_ms: Callable[[], int],
    failures: RateLimitedLog,
    note_failure: NoteFailure | None = None,
) -> Callable[[Peer], Login]:
    """Return what makes the guard of a connection to a listener with a login. `failures` logs and counts failed logins;
    `note_failure` writes them down.
    """
    wanted = settings.logins
    assert wanted is not None, "a listener has a login"
    oauth = wanted.oauth
    keys = None if oauth is None else Keys(oauth)

    def exchange(mechanism: str) -> Exchange:
        if mechanism == PLAIN:
            return PlainExchange(users)
        if mechanism == OAUTHBEARER:
            assert oauth is not None
            assert keys is not None
            return OAuthExchange(oauth, keys, now_ms)
        return ScramExchange(mechanism, users)

    shared = Logins(
        exchange=exchange,
        worker=worker,
        call_at=loop.call_at,
        monotonic_ms=lambda: loop.now_ms,
        now_ms=now_ms,
        log=failures,
        max_reauth_ms=wanted.max_reauth_ms,
        failed_delay_ms=wanted.failed_delay_ms,
        within_ms=settings.request_read_timeout_ms,
        note_failure=note_failure,
    )
    return lambda peer: Login(shared, wanted.mechanisms[peer.listener], peer)
