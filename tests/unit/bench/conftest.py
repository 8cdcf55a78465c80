"""`bench` is a folder of the repository, not a part of the package: it is found from the root, as `python -m bench` finds it."""

import sys
from pathlib import Path

_ROOT = str(Path(__file__).parents[3])
if _ROOT not in sys.path:
    sys.path.append(_ROOT)
