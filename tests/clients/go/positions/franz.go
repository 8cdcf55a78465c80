package main

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

type franz struct{ bootstrap string }

func (by franz) client(options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(options, kgo.SeedBrokers(by.bootstrap))...)
}

func (by franz) ends(ctx context.Context, topic string) (int64, int64, error) {
	client, err := by.client()
	if err != nil {
		return 0, 0, err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	begins, err := admin.ListStartOffsets(ctx, topic)
	if err != nil {
		return 0, 0, err
	}
	ends, err := admin.ListEndOffsets(ctx, topic)
	return begins[topic][0].Offset, ends[topic][0].Offset, err
}

func (by franz) read(ctx context.Context, topic string, from, to int64, idle func(func() error) error) (int64, error) {
	start := kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(from)}})
	client, err := by.client(start, kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	if err != nil {
		return 0, err
	}
	defer client.Close()
	position := from
	for position < to {
		if position, err = poll(ctx, client, 0, position); err != nil {
			return position, stoppedAt(position, to, err)
		}
	}
	if idle == nil {
		return position, nil
	}
	return position, idle(func() error {
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		if position, err = poll(short, client, 0, position); errors.Is(err, context.DeadlineExceeded) {
			return nil
		}
		return err
	})
}

func (by franz) group(ctx context.Context, topic, group string, most int, to int64) (int64, int64, error) {
	options := []kgo.Opt{kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit()}
	client, err := by.client(append(options, kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	if err != nil {
		return 0, 0, err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	before, err := admin.FetchOffsets(ctx, group)
	if err != nil {
		return 0, 0, err
	}
	position, count := int64(0), 0
	if was, found := before.Lookup(topic, 0); found {
		position = was.At
	}
	for position < to && count < most {
		fetches := client.PollRecords(ctx, most-count)
		if err := fetches.Err(); err != nil {
			return 0, 0, stoppedAt(position, to, err)
		}
		for _, record := range fetches.Records() {
			tell(record.Offset, record.Value)
			position = record.Offset + 1
			count++
		}
		if err := client.CommitRecords(ctx, fetches.Records()...); err != nil {
			return 0, 0, err
		}
	}
	lags, err := admin.Lag(ctx, group)
	if err != nil {
		return 0, 0, err
	}
	lag, _ := lags[group].Lag.Lookup(topic, 0)
	return lag.Commit.At, lag.Lag, nil
}

// poll tells what comes next, all of it when `most` is 0, and returns the position behind it.
func poll(ctx context.Context, client *kgo.Client, most int, position int64) (int64, error) {
	fetches := client.PollRecords(ctx, most)
	if err := fetches.Err(); err != nil {
		return position, err
	}
	for _, record := range fetches.Records() {
		tell(record.Offset, record.Value)
		position = record.Offset + 1
	}
	return position, nil
}
