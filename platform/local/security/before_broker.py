"""Gives a secured platform's ZooKeeper the users and rules of its roles, and becomes the broker.

`python -m headrace.local.security.before_broker FOLDER CLUSTER ZOOKEEPER COMMAND…`: no user can log in before this has run once.
"""

import os
import sys
from pathlib import Path

from ...errors import HeadraceError
from . import apply


def main() -> None:
    folder, cluster, zookeeper, *command = sys.argv[1:]
    try:
        apply.in_zookeeper(zookeeper, apply.wanted(Path(folder), cluster))
    except HeadraceError as error:
        sys.exit(f"headrace: {error}")
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
