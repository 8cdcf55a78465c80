"""What `headrace agent status` shows: the running agent's last words about itself, else what its state holds."""

import fcntl
import os
from contextlib import closing
from pathlib import Path
from typing import Any

from ...runtime.status import read_status
from ..settings import AgentSettings
from ..state.database import FILE, read_only
from .agent import STATUS_FILE
from .snapshot import Snapshot

NOT_RUNNING = "it is not running"


def status_of(settings: AgentSettings) -> dict[str, Any]:
    """Return the names of `Snapshot`, `is_running` and `pid`. Raises StateRefused where no agent has ever run."""
    state = Path(settings.state)
    if _is_running(state):
        found = read_status(state / STATUS_FILE)
        if found is not None:
            return {**found, "is_running": True}
        return {**_stored(settings), "is_running": True, "pid": None, "reason": "it has made no turn yet"}
    return {**_stored(settings), "is_running": False, "pid": None}


def _is_running(state: Path) -> bool:
    """Return whether a process holds the state's lock."""
    try:
        lock = os.open(state / f"{FILE}.lock", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False


def _stored(settings: AgentSettings) -> dict[str, Any]:
    with closing(read_only(Path(settings.state))) as db:
        totals = dict(db.execute("SELECT name, count FROM totals").fetchall())
        sources = db.execute("SELECT name, settled FROM sources ORDER BY name").fetchall()
        ((batches,),) = db.execute("SELECT count(*) FROM batches").fetchall()
        ((reports,),) = db.execute("SELECT count(*) FROM reports").fetchall()
    words = Snapshot(
        name=settings.name,
        instance=settings.instance,
        at_ms=0,
        is_ready=False,
        reason=NOT_RUNNING,
        source_count=len(sources),
        acknowledged=totals.pop("acknowledged", 0),
        ambiguous=totals.pop("ambiguous", 0),
        losses=totals,
        batches=batches,
        reports=reports,
    ).words()
    # How far behind they are, only an agent that opens them can say.
    unknown = {"topic": "?", "lag_bytes": 0, "lag_ms": 0, "trouble": None}
    return {**words, "sources": [{"name": name, "settled": settled, **unknown} for name, settled in sources]}
