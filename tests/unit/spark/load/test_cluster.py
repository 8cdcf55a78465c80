"""What a cluster's errors are reported as, and what is a master of this process's own."""

import subprocess
import sys
from pathlib import Path

import pytest

from headrace.spark.load.cluster import is_local, send_code, unfit


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("Trace\nModuleNotFoundError: No module named 'pyarrow'\nDriver", "(ModuleNotFoundError: No module named 'pyarrow')"),
        (': aborted: Cannot run program "/nowhere/python": error=2\nat x', '(Cannot run program "/nowhere/python": error=2)'),
        ("[PYTHON_VERSION_MISMATCH] Python in worker has different version", "(PYTHON_VERSION_MISMATCH] Python in worker"),
    ],
)
def test_an_executors_python_that_cannot_run_a_load_is_told_with_its_reason(words: str, told: str) -> None:
    assert told in unfit(words)
    assert unfit("Python worker exited unexpectedly (crashed)") == ""


def test_only_a_jvm_of_this_process_is_local() -> None:
    assert [is_local(one) for one in ("local", "local[2]", "local[*]")] == [True] * 3
    assert [is_local(one) for one in ("local-cluster[2,1,512]", "spark://host:7077", "yarn", "k8s://https://host")] == [False] * 4


def test_the_code_that_is_sent_can_be_imported_and_is_all_of_it(tmp_path: Path) -> None:
    class Context:
        sent = ""

        def addPyFile(self, path: str) -> None:
            self.sent = path

    context = Context()
    send_code(context, tmp_path)  # type: ignore[arg-type]
    asked = "import sys; sys.path.insert(0, sys.argv[1]); import headrace.spark.load.split_task as s; print(s.__file__)"
    done = subprocess.run([sys.executable, "-c", asked, context.sent], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.startswith(context.sent), done.stderr
