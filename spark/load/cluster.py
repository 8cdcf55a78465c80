"""A load on a Spark cluster: its code is sent along, and it waits a bounded time for executors.

Executors need the packages that this one requires (headrace's extra `spark`, an archive, or an image) and get this
package's own files from the driver: so both run the same version, whatever is installed there.
"""

import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext

_PACKAGE = Path(__file__).parents[2]
_CODE = "headrace-code.zip"
_WAIT = "spark.headrace.executors.wait"
_WAIT_S = 300
"""Autoscaled clusters bring machines in minutes."""
_EVERY_S = 1.0
_SIGNS = ("ModuleNotFoundError", "ImportError", "PYTHON_VERSION_MISMATCH", "Cannot run program", "AttributeError: Can't get")
_ADVICE = (
    "the executors' Python cannot run this load: install headrace[spark] of this version for the same Python on each machine, or "
    "send it along (spark-submit --archives environment.tar.gz#environment), and let PYSPARK_PYTHON name it; see docs/LOADING.md"
)


def is_local(master: str) -> bool:
    """Return whether a master is this process's own JVM."""
    return master == "local" or master.startswith("local[")


def send_code(context: "SparkContext", folder: Path) -> None:
    """Have each executor import this package as it is here, before any that is installed there."""
    archive = folder / _CODE
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as made:
        for path, name in _files(_PACKAGE, Path("headrace")):
            made.write(path, name)
    context.addPyFile(str(archive))


def _files(folder: Path, name: Path) -> Iterator[tuple[Path, Path]]:
    for path in sorted(folder.iterdir()):
        if path.is_dir() and path.name != "__pycache__":
            yield from _files(path, name / path.name)
        elif path.is_file() and path.suffix != ".pyc":
            yield path, name / path.name


@contextmanager
def executors_expected(context: "SparkContext") -> Iterator[list[str]]:
    """Cancel the jobs of the block if for long it has no executor at all; then the list names the reason.

    How long is Spark's setting `spark.headrace.executors.wait`, in seconds.
    """
    reasons: list[str] = []
    if is_local(str(context.master)):
        yield reasons
        return
    wait_s = int(str(context.getConf().get(_WAIT, str(_WAIT_S))).removesuffix("s"))
    is_over = threading.Event()
    watch = threading.Thread(target=_watch, args=(context, wait_s, is_over, reasons), name="executors", daemon=True)
    watch.start()
    try:
        yield reasons
    finally:
        is_over.set()
        watch.join(10)


def _watch(context: "SparkContext", wait_s: int, is_over: threading.Event, reasons: list[str]) -> None:
    without_s = 0.0
    with suppress(Exception):  # a JVM that is gone is found by the job itself
        while not is_over.wait(_EVERY_S):
            # The driver counts as one of them.
            others = int(context._jsc.sc().getExecutorMemoryStatus().size()) - 1
            without_s = 0.0 if others > 0 else without_s + _EVERY_S
            if without_s >= wait_s and not reasons:
                reasons.append(
                    f"the cluster {context.master} gave it no executor for {wait_s} s: look at its master whether workers are "
                    f"alive and have memory and cores free (--conf {_WAIT}=600 waits longer)"
                )
            if reasons:
                context.cancelAllJobs()  # and again, until the block ends: the job may only have been planned the first time


def unfit(words: str) -> str:
    """Return what is wrong with the executors' Python if that is what made a job fail; else nothing."""
    begins = [at for sign in _SIGNS if (at := words.find(sign)) >= 0]
    return f"{_ADVICE} ({words[min(begins) :].splitlines()[0][:300]})" if begins else ""
