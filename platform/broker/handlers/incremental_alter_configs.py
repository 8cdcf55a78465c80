"""IncrementalAlterConfigs, key 44, versions 0-1: sets single settings of a topic, or resets them to their defaults.

Changes by other clients at the same time stay: the change is made to the settings that ZooKeeper has. A request may append to a
list and subtract from it. There is one list, `cleanup.policy`, and it takes one value."""

from collections.abc import Callable, Mapping
from typing import Any

from ..event_loop.response_generators import ResponseGenerator
from ..settings import topic_settings
from ..settings.topic_settings import ConfigType
from .broker import Broker
from .config_changes import Operation, Plan, carry_out
from .request import Request

KEY = 44


Step = tuple[str, Operation, str]


def handle(broker: Broker, request: Request) -> ResponseGenerator:
    """Return the outcome for each resource."""
    return carry_out(broker, request, KEY, lambda resource, present: plan(resource.configs, present))


def plan(wanted: Any, present: Mapping[str, str]) -> Plan:
    """Return a topic's own settings after these single changes (name, config_operation, value)."""
    faults: list[str] = []
    steps: list[Step] = []
    for one in wanted:
        name = str(one.name)
        fault = _fault(name, int(one.config_operation), one.value, present)
        if fault is not None:
            faults.append(fault)
        else:
            steps.append((name, Operation(one.config_operation), "" if one.value is None else str(one.value)))
    change = _change(steps)
    return Plan(faults or topic_settings.conflicts_of(change(present)), change)


def _fault(name: str, operation: int, value: str | None, present: Mapping[str, str]) -> str | None:
    if operation == Operation.DELETE:
        return None  # Kafka's tools delete settings that were never set
    setting = topic_settings.TABLE.get(name)
    if operation not in (Operation.SET, Operation.APPEND, Operation.SUBTRACT):
        return f"{name}: there is no operation {operation}: SET (0), DELETE (1), APPEND (2), SUBTRACT (3)"
    if setting is not None and operation != Operation.SET and setting.type is not ConfigType.LIST:
        return f"{name}: {Operation(operation).name} is for lists, and this is a {setting.type.name}: use SET"
    if setting is not None and value is not None and operation != Operation.SET:
        value = _joined(present.get(name, setting.default), Operation(operation), value)
    return next(iter(topic_settings.faults_of({name: value})), None)


def _change(steps: list[Step]) -> Callable[[Mapping[str, str]], dict[str, str]]:
    def change(present: Mapping[str, str]) -> dict[str, str]:
        changed = dict(present)
        for name, operation, value in steps:
            if operation is Operation.DELETE:
                changed.pop(name, None)
            elif operation is Operation.SET:
                changed |= topic_settings.kept({name: value})
            else:
                changed[name] = _joined(changed.get(name, topic_settings.TABLE[name].default), operation, value)
        return changed

    return change


def _joined(present: str, operation: Operation, value: str) -> str:
    """Return the list with the values of another added or removed, each once."""
    there, given = present.split(",") if present else [], [one.strip() for one in value.split(",")]
    if operation is Operation.APPEND:
        return ",".join(dict.fromkeys([*there, *given]))
    return ",".join(one for one in there if one not in given)
