"""Describes the faults of the running platform, one line each: what, where, why, and what to do. Pure."""

from collections.abc import Iterable
from pathlib import Path

from .state import ProcessState

ADVICE = {
    "waiting": "it starts automatically once its dependencies are ready",
    "starting": "wait; its log says what it is at: {log}",
    "unhealthy": "repair what it names; if it does not recover then, `headrace restart {name}`; its log: {log}",
    "restarting": "it is restarted automatically; its log: {log}",
    "stopping": "wait; `headrace start {name}` starts it again",
    "stopped": "`headrace start {name}` starts it again",
}


def faults(processes: Iterable[ProcessState], logs: Path) -> list[str]:
    """Return a line for each process that is not ready."""
    return [fault(process, logs / f"{process.name}.log") for process in processes if process.state != "ready"]


def fault(process: ProcessState, log: Path) -> str:
    """Return the fault of a process that is not ready."""
    where = f" at {process.address}" if process.address else ""
    why = process.reason or "it gives no reason"
    return f"{process.name}{where} is {process.state}: {why}. What to do: {remedy(process, log)}"


def remedy(process: ProcessState, log: Path) -> str:
    """Return what to do about a process that is not ready."""
    return ADVICE[process.state].format(name=process.name, log=log)
