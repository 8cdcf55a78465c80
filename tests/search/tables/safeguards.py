"""The safeguards of the table, each with the way to switch it off, as `tests.search.safeguards` has those of the verdict."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from headrace.spark.publish import gate, hour_files, publish_job
from headrace.spark.publish.gate import HourFacts
from headrace.spark.publish.publish_job import Gate
from headrace.spark.publish.read_back import Touched
from headrace.spark.warehouse.delete_files import Taken
from headrace.spark.warehouse.proofs import COMPACTED

Off = tuple[object, str, Any]


def _nothing(*_: Any, **__: Any) -> list[Any]:
    return []


def _each_once(main: Any, deletes: Any) -> Counter[str]:
    return Counter({one.file_path for one in main} | {one.path for one in deletes})


def _data_alone(main: Any, deletes: Any) -> Counter[str]:
    return Counter(one.file_path for one in main)


_EXAMINE: Callable[..., Any] = hour_files.examine


def _restored(*facts: Any, **words: Any) -> Any:
    return _EXAMINE(*facts, **{**words, "is_restored": True})


TABLE_SAFEGUARDS: dict[str, Off] = {
    "a file that is named twice is seen": (hour_files, "names_of", _each_once),
    "what others did to an hour is compared by row": (hour_files, "_touched", lambda *_: Touched(change=COMPACTED)),
    "a delete file is a change": (hour_files, "names_of", _data_alone),
    "a delete file takes rows": (Taken, "_of", _nothing),
    "fewer rows than the audit counted are REMOVED": (HourFacts, "lacking", 0),
    "what others removed is not added again": (publish_job, "examine", _restored),
    "a commit is read back": (Gate, "_read_back", _nothing),
    "a published file is as it was proven": (hour_files, "_spoiled", lambda *_, **__: ""),
    "a file is published as it was counted": (hour_files, "_is_counted", lambda *_: True),
    "a file of which a delete file takes rows is not added again": (hour_files, "_taken_of", lambda _: set()),
    "rows loaded again are no late rows": (hour_files, "_was_loaded_before", lambda *_: False),
    "an hour waits for the audit's word": (gate, "_unproven", lambda *_: ("", False)),
    "what the audit names of published rows withdraws them": (gate, "_spoiled", lambda *_: ""),
}
