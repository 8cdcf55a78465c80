"""Intended differences between our responses and Apache Kafka's, with reasons. A difference that is not listed fails the test,
and so does a listed one that no longer exists.

By sequence, then by `step | field`, both as patterns. A field is a path without the names of list items; it ends in `:item` if
only one server has the item at all.
"""

from collections.abc import Mapping

EVERYWHERE: Mapping[str, str] = {
    "* | *topic_id": "ids are each server's own",
    "* | *configs:item": "settings that would do nothing here are not shown; `flush.ack` and `headrace.mirror` are ours",
    "* | *.config_source": "Kafka keeps min.insync.replicas as a setting of all brokers",
}

_NO_OPERATIONS = "there is no authorizer, so nobody's operations are told"
_EMPTY_POLICY = "an empty policy means 'never delete' since Kafka 4.2; here retention.ms=-1 and retention.bytes=-1 say that"
_BOUND = "a topic has at most 10,000 partitions; Kafka has no such bound, or fails with unknown_server_error"
_PLAIN_VALUES = "values are kept without blanks, signs, capitals and doubles; Kafka shows numbers so only when asked again"
_READ_ONLY = "a broker's own settings change by restart only, and one that there is not is refused by name"
_OTHER_KINDS = "of resources there are topics and brokers: no loggers, client metrics, groups"
_OPAQUE = "records are opaque to the broker: it looks at batch headers"
_SHORT = "what is cut or contradicts itself is called corrupt; Kafka overlooks that there is a batch at all"
_WHY_NOT = "log_start_offset is told where something was appended, and -1 where not; Kafka tells it for some errors"
_MORE_EXACT = "the error says what is wrong; Kafka's is a general one, or of an authorizer"
_SESSIONS = "a session without partitions is not kept: id 0 says so"
_LAST_EPOCH = "of a follower, which no Kafka consumer sends; our followers have a request of their own"
_LENIENT = "numbers without a meaning are overlooked; Kafka fails with unknown_server_error"
_REPLICAS = "who asks is a client, whatever replica id it gives"
_OUT_OF_RANGE = "where the log begins and ends is told with out-of-range errors too"

CHOSEN: Mapping[str, Mapping[str, str]] = {
    "metadata": {
        "with operations | *authorized_operations": _NO_OPERATIONS,
        "* | *leader_epoch": "leader epochs are -1: nobody is to validate positions by them",
    },
    "create_topics": {
        "segment of 14 | *": "segments may be smaller than the 1 MiB that Kafka 4 wants",
        "max.message.bytes 0 | *": "no batch is shorter than 61 bytes",
        "max.message.bytes 60 | *": "no batch is shorter than 61 bytes",
        "policy empty | *": _EMPTY_POLICY,
        "compaction | *": "removing batches would break byte offsets",
        "time over | *": "no time, or less, means as long as the broker waits at most; Kafka gives up at once, and makes it",
        "too many together | *": "of a request that wants too many partitions those topics are made that are within the bound",
        "collides | *": "Kafka's metrics cannot tell a.b from a_b, ours can",
        "setting with * | *.configs.value": _PLAIN_VALUES,
        "boolean in capitals | *.configs.value": _PLAIN_VALUES,
        "policy twice | *.configs.value": _PLAIN_VALUES,
    },
    "create_partitions": {"to 10001 | *": _BOUND, "to 2147483647 | *": _BOUND},
    "describe_configs": {
        "* | *synonyms*": "a synonym is shown where the broker has a setting by that name",
        "named twice | results:item": "a resource is described once, with all that was asked of it: its answer is long",
        "the broker* | *.read_only": _READ_ONLY,
        "the broker* | *.value": "retention in ms is set; Kafka's default is in hours",
        "the broker* | *.config_type": "a broker's numbers are all shown as LONG",
        "kind * | results.error_code": _OTHER_KINDS,
        "loggers | results.error_code": _OTHER_KINDS,
    },
    "alter_configs": {
        "bad names | *": "no name is a bad topic's name; Kafka takes it for the default of all topics, and refuses that",
        "named twice | *": "Kafka does not answer",
        "unknown setting of the broker | *": _READ_ONLY,
        "the broker | *": _READ_ONLY,
    },
    "incremental_alter_configs": {
        "subtracted all | *": _EMPTY_POLICY,
        "no such operation | *": _MORE_EXACT,
        "no operation | *": _MORE_EXACT,
        "bad names | *": "no name is a bad topic's name; Kafka takes it for the default of all topics, and refuses that",
        "named twice | *": "told once",
        "unknown setting of the broker | *": _READ_ONLY,
        "the broker | *": _READ_ONLY,
        "kind 32 | *": _OTHER_KINDS,
    },
    "produce_faults": {
        "* | *.log_start_offset": _WHY_NOT,
        "null | *": "Kafka does not answer",
        "magic [01] | *": _MORE_EXACT,
        "cut | *": _SHORT,
        "only a header | *": _SHORT,
        "half a header | *": _SHORT,
        "few bytes | *": _SHORT,
        "length too long | *": _SHORT,
        "no records, last offset -1 | *": _SHORT,
        "claims -1 records | *": _SHORT,
        "last offset delta below 0 | *": _SHORT,
        "garbage behind | *": "Kafka drops what follows a batch and is none in silence",
        "base offset not 0 | *": "it is replaced, whatever it was",
        "last offset delta wrong | *": "it is replaced, whatever it was",
        "transactional | *": _MORE_EXACT,
        "transactional id | *": "transactions are not supported: they are refused at once",
        "log append time | *": "only the broker may say that a batch bears its time; Kafka clears the bit in silence",
        "codec [567] | *": _MORE_EXACT,
        "codec ZSTD | *": "versions below 7 may bring zstd: nobody is harmed by it",
        "compressed garbage | *": _OPAQUE,
        "records that are garbage | *": _OPAQUE,
        "time in the far future | *": "events of any time are taken",
    },
    "produce_idempotent": {
        "* | *.log_start_offset": _WHY_NOT,
        "* | *.log_append_time_ms": "a duplicate on a topic that keeps event times is answered with time -1",
        "epoch below 0 | *": "a producer with an id has an epoch",
    },
    "fetch_": {
        "beyond the end | *": _OUT_OF_RANGE,
        "far beyond the end | *": _OUT_OF_RANGE,
        "below 0 | *": _OUT_OF_RANGE,
        "* | *.aborted": "no transactions, so null stands for none that were aborted",
        "partition bytes -1 | *": _LENIENT,
        "bytes -1 | *": _LENIENT,
        "isolation unknown | *": _LENIENT,
        "partition bytes * more than one | *.records": "whole batches only, as they leave by sendfile; Kafka cuts the last one",
        "no partitions | *": "a topic without partitions is named in the answer",
        "partition twice | *": "it is answered twice",
        "a follower | *": _REPLICAS,
        "its own | *": _REPLICAS,
        "last epoch 1 | *": _LAST_EPOCH,
        "empty new session | *": _SESSIONS,
    },
    "list_offsets_": {
        "time -3* | *": "versions below 7 may ask for the largest timestamp",
        "partition twice | *": "it is answered twice",
        "isolation unknown | *": _LENIENT,
    },
    "offset_for_leader_epoch": {"epoch -2* | *": _LENIENT, "current -2 | *": _LENIENT},
    "init_producer_id": {"transactional, * | *": "transactions are not supported: they are refused at once"},
    "api_versions": {
        "* | *features*": "features belong to Kafka's own controllers",
        "nameless | error_code": "what a client says of itself is not looked at",
        "bad name | error_code": "what a client says of itself is not looked at",
        "name that begins with a dash | error_code": "what a client says of itself is not looked at",
        "bad version | error_code": "what a client says of itself is not looked at",
        "no version | error_code": "what a client says of itself is not looked at",
    },
    "describe_cluster": {"with operations | *authorized_operations": _NO_OPERATIONS},
}
