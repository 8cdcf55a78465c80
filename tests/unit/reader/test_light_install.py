"""The reader in the light install: databases are imported where they are used, and a missing driver is named."""

import subprocess
import sys

PROGRAM = """
import importlib.abc, sys

class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"psycopg", "sqlite3", "kazoo"}:
            raise ImportError(f"the light install has no {name}")
        return None

sys.meta_path.insert(0, Refuse())
import headrace.reader
try:
    from headrace.reader import PostgresPositions
except ImportError as error:
    print(error)
"""


def test_importing_the_reader_needs_no_database_and_asking_for_one_names_its_driver() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60)
    assert "pip install 'headrace[postgresql]'" in done.stdout, done.stderr
