"""Refuses a topic whose broker puts its own time in place of the events' (`message.timestamp.type=LogAppendTime`).

Such a broker changes each batch's time and CRC, and what the producer sent could not be compared with what the log holds: every
window would look altered or incomplete.
"""

from ...client.connection.cluster import Cluster
from ...client.errors import UnknownTopic
from ...client.topic_admin import topic_settings
from ..errors import TopicRefused

SETTING = "message.timestamp.type"


def check(cluster: Cluster, topic: str) -> None:
    """Return if the topic keeps its producers' times, or is not there yet. Raises TopicRefused; the client's errors where the
    broker does not tell.
    """
    try:
        settings = topic_settings(cluster, topic)
    except UnknownTopic:
        return
    setting = next((one for one in settings if one.name == SETTING), None)
    if setting is None or setting.value != "LogAppendTime":
        return
    whose = "its own setting" if setting.source == "topic" else "its broker's default"
    raise TopicRefused(
        f"topic {topic!r} on {cluster.bootstrap} has {SETTING}=LogAppendTime ({whose}): the broker puts the time of arrival in "
        "place of the events' times and so changes each batch's checksum; the audit could not compare what was sent with what is "
        f"stored. Give the topic CreateTime: `headrace topic config {topic} --set {SETTING}=CreateTime`, or log to another topic"
    )
