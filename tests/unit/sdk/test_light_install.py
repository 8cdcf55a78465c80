"""An application that installs only `headrace` gets five small wheels. Importing the SDK or the reader must not ask for more."""

import subprocess
import sys

LIGHT = {"fastavro", "kio", "crc32c", "crcmod", "cramjam", "headrace"}

PROGRAM = f"""
import importlib.abc, sys

class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        root = name.partition(".")[0]
        # kio brings typing_extensions itself.
        if root not in {sorted(LIGHT)} and root not in sys.stdlib_module_names and root != "typing_extensions":
            raise ImportError(f"the light install has no {{root}}")
        return None

sys.meta_path.insert(0, Refuse())
import headrace.sdk
from headrace.reader import EventReader, testing as reader_testing
reader = EventReader("t", group="g", bootstrap="127.0.0.1:1", registry_url="http://127.0.0.1:1")
reader._loop(None, 0)
from headrace.sdk import EventLogger, AuditedRequests, EventHandler, event_schema, testing
roots = {{name.partition(".")[0] for name in sys.modules}}
heavy = roots & {{"kazoo", "starlette", "uvicorn", "pyspark", "pyarrow", "pandas", "rich", "jinja2", "httpx"}}
assert not heavy, heavy
print("light")
"""


def test_importing_sdk_and_reader_needs_the_light_install_and_nothing_else() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "light", done.stderr
