"""Sets the limit of this process's descriptors and divides it between logs and connections.

The system's soft limit is often 1,024 where the hard one is far higher: a server may raise it. Segment files get half, as they
can be closed and opened again as needed. Connections, which cannot, have the rest."""

import resource

from ...runtime.logs import get_logger
from ..errors import TooFewDescriptors
from ..log.segment import open_files

log = get_logger(__name__)

MOST_WANTED = 1 << 20
LEAST_FILES = 64
LEAST, COMFORTABLE = 64, 1_024
"""A broker without partitions and clients holds about 25 descriptors. With fewer than `LEAST` it would be ready and accept no
connection."""


def share_out() -> int:
    """Return the limit, raised as far as permitted; give segment files their half. Raises: TooFewDescriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_WANTED if hard == resource.RLIM_INFINITY else min(hard, MOST_WANTED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
        except (OSError, ValueError):
            pass  # a container may forbid it: the present limit has to do
    limit = MOST_WANTED if soft == resource.RLIM_INFINITY else soft
    if limit < LEAST:
        raise TooFewDescriptors(limit, LEAST)
    if limit < COMFORTABLE:
        log.warning("few_descriptors", limit=limit, comfortable=COMFORTABLE, what_to_do="raise it with `ulimit -n`")
    open_files.shared.limit = max(LEAST_FILES, limit // 2)
    return limit
