"""The listeners of a broker: names, protocols and addresses. Pure.

Source: Kafka's settings `listeners`, `advertised.listeners`, `listener.security.protocol.map` and `inter.broker.listener.name`
(KIP-103). Other brokers connect to the listener that `inter.broker.listener.name` names; without it, to the first."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL = "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"
PROTOCOLS = (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)
DEFAULT_MAP = ",".join(f"{one}:{one}" for one in PROTOCOLS)
ALL_ADDRESSES = ("0.0.0.0", "::")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """One address that a broker listens on."""

    name: str
    protocol: str
    """One of `PROTOCOLS`."""
    host: str
    port: int
    """0: the system chooses."""
    advertised_host: str
    advertised_port: int | None
    """None: the port listened on."""

    @property
    def has_tls(self) -> bool:
        return self.protocol in (SSL, SASL_SSL)

    @property
    def has_login(self) -> bool:
        """Whether clients must log in (SASL)."""
        return self.protocol in (SASL_PLAINTEXT, SASL_SSL)


def listener_parts(value: str) -> tuple[str, str, str]:
    """Return name, host and port of `NAME://HOST:PORT` or `HOST:PORT`."""
    name, mark, address = value.partition("://")
    if not mark:
        name, address = PLAINTEXT, value
    host, _, port = address.rpartition(":")
    return name.strip().upper(), host.strip("[]"), port


def split(value: str) -> list[str]:
    """Return the listeners of a setting with commas between them."""
    return [one.strip() for one in value.split(",") if one.strip()]


def listeners_of(
    *, listeners: str, advertised: str | None, protocol_map: str, inter_broker: str | None, faults: list[str]
) -> tuple[list[Listener], str]:
    """Return the listeners, and the name of the one for other brokers. Each setting has been checked alone (`definitions`).

    Adds to `faults` what does not fit together. Returns an empty list only with a fault.
    """
    protocols = dict(_protocols(protocol_map, faults))
    advertised_parts = {name: (host, port) for name, host, port in map(listener_parts, split(advertised or ""))}
    found: dict[str, Listener] = {}
    taken: set[tuple[str, str]] = set()
    for text in split(listeners):
        name, host, port = listener_parts(text)
        if name in found:
            faults.append(f"listeners: two are called {name}: give each a name of its own in listener.security.protocol.map")
            continue
        if port != "0" and (host, port) in taken:
            faults.append(f"listeners: two have the address {host}:{port}")
        taken.add((host, port))
        protocol = protocols.get(name)
        if protocol is None:
            faults.append(f"listeners: {name} has no protocol: add {name}:SASL_SSL, say, to listener.security.protocol.map")
            continue
        host = host or ALL_ADDRESSES[0]
        shown_host, shown_port = advertised_parts.pop(name, (host, "0"))
        shown_host = shown_host or host
        if shown_host in ALL_ADDRESSES:
            faults.append(
                f"listeners: {name} listens on every address of this machine ({host}): say with --advertised-host or "
                "advertised.listeners where clients find it"
            )
        found[name] = Listener(
            name=name,
            protocol=protocol,
            host=host,
            port=int(port),
            advertised_host=shown_host,
            advertised_port=int(shown_port) or None,
        )
    faults.extend(f"advertised.listeners: {name} is not one of listeners" for name in advertised_parts)
    first = next(iter(found), PLAINTEXT)
    between = first if inter_broker is None else inter_broker.upper()
    if found and between not in found:
        faults.append(f"inter.broker.listener.name: {between} is not one of listeners ({', '.join(found)})")
    return list(found.values()), between


def _protocols(protocol_map: str, faults: list[str]) -> Iterator[tuple[str, str]]:
    for entry in split(protocol_map):
        name, mark, protocol = entry.partition(":")
        name, protocol = name.strip().upper(), protocol.strip().upper()
        if not mark or not name:
            faults.append(f"listener.security.protocol.map: {entry!r} is not NAME:PROTOCOL")
        elif protocol not in PROTOCOLS:
            faults.append(f"listener.security.protocol.map: {name} has {protocol!r}, which is none of {', '.join(PROTOCOLS)}")
        else:
            yield name, protocol


def advertised(listeners: Sequence[Listener], ports: Mapping[str, int]) -> dict[str, tuple[str, int]]:
    """Return host and port for clients, by the listener's name. `ports` are those listened on."""
    return {one.name: (one.advertised_host, one.advertised_port or ports[one.name]) for one in listeners}
