"""Clients of any Kafka-wire cluster: blocking sockets and threads, no framework. Import each class from its own module.

- Send records: `producer.producer.Producer`, over one `connection.cluster.Cluster`.
- Read chosen partitions by offset: `fetch.fetcher.Fetcher` (the newest batches), `fetch.read_range.read_range` (a whole range),
  `fetch.log_offsets.log_range` (where a log begins and ends).
- Read topics as a member of a group that coordinates through ZooKeeper: `consumer.zk_consumer.ZooKeeperConsumer`.
- Read them by several threads, as the paper does: `streams.ConsumerConnector`, `streams.GroupConnector`. Know what was processed
  before: `deduplication.Deduplicator`. See and move a group's offsets: `groups`.
- Create a topic: `admin.create_topic`. List, describe, delete and configure topics: `topic_admin`.
- Write a quarantine record: `quarantine.send_quarantined`.
- Catch what fails: `errors`, and `consumer.zk_errors` for groups.

`connection` is below them all: `cluster` finds the leaders, `connection` speaks to one broker, `control_plane` holds the small
requests.
"""
