"""How many descriptors this process may have, and how they are shared out between logs and connections.

The system's soft limit is often 1,024 where the hard one is far higher: a server may raise it. Half go to segment files, which
are let go and opened again as needed; the rest is for connections, which are not."""

import resource

from ...runtime.logs import get_logger
from ..errors import TooFewDescriptors
from ..log.segment import open_files

log = get_logger(__name__)

MOST_WANTED = 1 << 20
LEAST_FILES = 64
LEAST, COMFORTABLE = 64, 1_024
"""A broker without partitions and clients holds about 25: with fewer than `LEAST` one would be ready and take nobody in."""


def share_out() -> int:
    """Raise the limit as far as permitted, give the logs their share, return the limit. Raises: TooFewDescriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_WANTED if hard == resource.RLIM_INFINITY else min(hard, MOST_WANTED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
        except (OSError, ValueError):
            pass  # A container may forbid it: what there is has to do.
    limit = MOST_WANTED if soft == resource.RLIM_INFINITY else soft
    if limit < LEAST:
        raise TooFewDescriptors(limit, LEAST)
    if limit < COMFORTABLE:
        log.warning("few_descriptors", limit=limit, comfortable=COMFORTABLE, what_to_do="raise it with `ulimit -n`")
    open_files.shared.limit = max(LEAST_FILES, limit // 2)
    return limit
