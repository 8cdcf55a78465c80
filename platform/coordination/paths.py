"""The path of each registry in ZooKeeper's tree, and which names a path may hold. Pure.

    /brokers/ids/{broker}                        ephemeral   JSON host, port, folder_id, timestamp
    /brokers/topics/{topic}                      persistent  JSON partitions, config
    /consumers/{group}/ids/{consumer}            ephemeral   JSON subscription, instance, timestamp
    /consumers/{group}/owners/{topic}/{part}     ephemeral   consumer id
    /consumers/{group}/offsets/{topic}/{part}    persistent  decimal: the next offset; then maybe a client's notes, JSON
    /audit/positions/{tier}/{topic}/{part}       persistent  decimal: how far the tier has reported
    /audit/restate/{tier}/{topic}/{part}         persistent  decimal: the tier is to report again from there on
    /mirror/sources/{topic}/{part}               persistent  id of the source's topic of which this is a copy
    /cluster/id                                  persistent  JSON cluster_id, producer_id_prefix
    /producer_ids/next                           persistent  decimal: the next id's lower 48 bits
    /rights/rules                                persistent  JSON rules: who may do what
    /config/users/{user}                         persistent  JSON config: what the user logs in with, as Kafka's tools write it
    /config/users/{user}/clients/{client}        persistent  JSON config: quotas of one client id of the user
    /config/clients/{client}                     persistent  JSON config: quotas of a client id
    /config/quota_changes                        persistent  JSON: whose quotas changed last
    /config/login_secret                         persistent  hex digits: a secret of all brokers
    /replicas/{topic id}/{part}                  persistent  JSON: leader, in-sync set and epochs of a replicated partition
    /brokers/lives/{broker}                      persistent  JSON started_ms; each start of a broker raises its version
    /leaders/{name}/holder                       ephemeral   JSON url, epoch: the process that leads
    /leaders/{name}/epoch                        persistent  decimal: the epoch of the last leader

`group_step` says how a group's id is written.

Source: the paper's registries under today's names of topic and partition (facts/zookeeper_paths_and_rebalance.md).
"""

import re
from urllib.parse import quote, unquote

from .errors import InvalidName

BROKER_IDS = "/brokers/ids"
BROKER_TOPICS = "/brokers/topics"
CONSUMERS = "/consumers"
CLUSTER_ID = "/cluster/id"
NEXT_PRODUCER_ID = "/producer_ids/next"
ACCESS_RULES = "/rights/rules"
CONFIG = "/config"
CONFIG_USERS = "/config/users"
CONFIG_CLIENTS = "/config/clients"
CLIENTS = "clients"
QUOTA_CHANGES = "/config/quota_changes"
LOGIN_SECRET = "/config/login_secret"
DEFAULT_USER = "<default>"
"""The step under which Kafka keeps settings of all users."""
REPLICAS = "/replicas"

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


def step(kind: str, name: str) -> str:
    """Return `name` when it can be one step of a path. Raises InvalidName where ZooKeeper refuses it or reads it differently."""
    if not name or name in (".", "..") or len(name) > 249:
        raise InvalidName(kind, name, "1 to 249 characters, not '.' or '..'")
    if "/" in name or any(ord(character) < 0x20 or 0x7F <= ord(character) <= 0x9F for character in name):
        raise InvalidName(kind, name, "no '/' and no control characters")
    if not name.isprintable():
        raise InvalidName(kind, name, "printable characters only")
    return name


def group_step(group: str) -> str:
    """Return a group's id as a step. Kafka allows any text, so characters that no step can hold, and '%', are written as %XX.

    Raises InvalidName for an empty id and for one of more than 249 characters.
    """
    if not 0 < len(group) <= 249:
        raise InvalidName("group", group, "1 to 249 characters")
    if group in (".", ".."):
        return group.replace(".", "%2E")
    return "".join(one if _is_plain(one) else "".join(f"%{byte:02X}" for byte in one.encode()) for one in group)


def group_of(step: str) -> str:
    """Return the group id that `group_step` wrote as this step."""
    return unquote(step)


def _is_plain(character: str) -> bool:
    # ZooKeeper refuses U+FFF0 to U+FFFF; some of them are printable.
    return character not in "%/" and character.isprintable() and not "\ufff0" <= character <= "\uffff"


def topic_step(topic: str) -> str:
    """Return `topic` when Kafka's rule for topic names allows it. Raises InvalidName."""
    if not _TOPIC.fullmatch(topic) or topic in (".", ".."):
        raise InvalidName("topic", topic, "1 to 249 of letters, digits, '.', '_' and '-', not '.' or '..'")
    return topic


def partition_step(partition: int) -> str:
    """Return the partition's number as a step. Raises InvalidName for a negative number."""
    if partition < 0:
        raise InvalidName("partition", str(partition), "partitions count from 0")
    return str(partition)


def broker(broker_id: int) -> str:
    if broker_id < 0:
        raise InvalidName("broker id", str(broker_id), "broker ids count from 0")
    return f"{BROKER_IDS}/{broker_id}"


def broker_life(broker_id: int) -> str:
    if broker_id < 0:
        raise InvalidName("broker id", str(broker_id), "broker ids count from 0")
    return f"/brokers/lives/{broker_id}"


def replica_states(topic_id: str) -> str:
    return f"{REPLICAS}/{step('topic id', topic_id)}"


def replica_state(topic_id: str, partition: int) -> str:
    return f"{replica_states(topic_id)}/{partition_step(partition)}"


def topic(name: str) -> str:
    return f"{BROKER_TOPICS}/{topic_step(name)}"


def user(name: str) -> str:
    """Return a user's path. In it, as in Kafka, what is no letter, digit, '.', '_' or '-' is %XX. Raises InvalidName."""
    return f"{CONFIG_USERS}/{user_step(name)}"


def user_step(name: str, kind: str = "user") -> str:
    """Return the step of a user's path; a client id's is written alike. Raises InvalidName."""
    if not name or name in (".", "..") or len(encoded := quote(name, safe="").replace("~", "%7E")) > 249:
        raise InvalidName(kind, name, "1 to 249 characters, counted as Kafka writes them (%XX), not '.' or '..'")
    return encoded


def quotas(user: str | None, client: str | None) -> str:
    """Return the path of the quotas of a user, a client id, or both, given as steps (`user_step`)."""
    if user is None:
        return f"{CONFIG_CLIENTS}/{client}"
    return f"{CONFIG_USERS}/{user}" if client is None else f"{CONFIG_USERS}/{user}/{CLIENTS}/{client}"


def user_of(step: str) -> str:
    """Return the name that `user_step` wrote as this step."""
    return unquote(step)


def group(name: str) -> str:
    return f"{CONSUMERS}/{group_step(name)}"


def consumer_ids(group: str) -> str:
    return f"/consumers/{group_step(group)}/ids"


def consumer(group: str, consumer_id: str) -> str:
    return f"{consumer_ids(group)}/{step('consumer id', consumer_id)}"


def group_owners(group: str) -> str:
    return f"/consumers/{group_step(group)}/owners"


def owners(group: str, topic: str) -> str:
    return f"{group_owners(group)}/{topic_step(topic)}"


def owner(group: str, topic: str, partition: int) -> str:
    return f"{owners(group, topic)}/{partition_step(partition)}"


def group_coordinator(group: str) -> str:
    return f"/consumers/{group_step(group)}/coordinator"


def group_offsets(group: str) -> str:
    return f"/consumers/{group_step(group)}/offsets"


def offset(group: str, topic: str, partition: int) -> str:
    return f"{group_offsets(group)}/{topic_step(topic)}/{partition_step(partition)}"


def positions(tier: str, topic: str) -> str:
    return f"/audit/positions/{step('tier', tier)}/{topic_step(topic)}"


def position(tier: str, topic: str, partition: int) -> str:
    return f"{positions(tier, topic)}/{partition_step(partition)}"


def restate_requests(tier: str) -> str:
    return f"/audit/restate/{step('tier', tier)}"


def restate_request(tier: str, topic: str, partition: int) -> str:
    return f"{restate_requests(tier)}/{topic_step(topic)}/{partition_step(partition)}"


def mirror_source(topic: str, partition: int) -> str:
    return f"/mirror/sources/{topic_step(topic)}/{partition_step(partition)}"


def leader_seat(name: str) -> str:
    return f"/leaders/{step('seat', name)}/holder"


def leader_epoch(name: str) -> str:
    return f"/leaders/{step('seat', name)}/epoch"
