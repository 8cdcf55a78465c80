"""Settings of one listener: `listener.name.<name>.<setting>` counts before `<setting>` itself, as in Kafka (KIP-103). Pure.

Kafka spells the listener's name in lower case; here the case does not matter."""

from collections.abc import Callable, Mapping, Sequence

from .listeners import Listener
from .sources import Given, did_you_mean

PREFIX = "listener.name."
MECHANISMS_SETTING = "sasl.enabled.mechanisms"

Values = Mapping[str, str | None]
Take = Callable[[str, str, Given], str | None]
"""Gets the whole name, the setting's own name and what was given. Notes a fault under the whole name, and returns the value."""


def is_of_listener(name: str) -> bool:
    return name.startswith(PREFIX)


def is_for_listeners(setting: str) -> bool:
    """Return whether a listener can have a value of its own."""
    return setting.startswith("ssl.") or setting == MECHANISMS_SETTING


def of_listeners(
    given: Mapping[str, Given], settings: Sequence[str], listeners: Sequence[Listener], take: Take, faults: list[str]
) -> dict[str, dict[str, str | None]]:
    """Return the values by listener and setting. `given` has whole names, `settings` are those that a listener can have."""
    found: dict[str, dict[str, str | None]] = {}
    for whole, one in given.items():
        setting = next((setting for setting in settings if whole.endswith(f".{setting}")), None)
        if setting is None:
            known = [f"{PREFIX}{listener.name.lower()}.{setting}" for listener in listeners for setting in settings]
            why = did_you_mean(whole, known) or f": a listener can have {', '.join(settings)}"
            faults.append(f"{whole}: there is no such setting of a listener ({one.source}){why}")
            continue
        name = whole[len(PREFIX) : -len(setting) - 1].upper()
        is_login = setting == MECHANISMS_SETTING
        if not any(listener.name == name and (listener.has_login if is_login else listener.has_tls) for listener in listeners):
            what = "a login (SASL_SSL or SASL_PLAINTEXT)" if is_login else "TLS (SSL or SASL_SSL)"
            faults.append(f"{whole}: no listener {name} has {what} ({one.source})")
            continue
        found.setdefault(name, {})[setting] = take(whole, setting, one)
    return found


def in_force(values: Values, its: Mapping[str, Values], listener: str) -> Values:
    """Return the values for one listener: its own, else those for all."""
    return {**values, **its.get(listener, {})}
