package main

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
)

type franz struct {
	topic            string
	sending, reading *kgo.Client
}

func newFranz(brokers []string, topic string) (client, error) {
	common := []kgo.Opt{kgo.SeedBrokers(brokers...), kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner())}
	sending, err := kgo.NewClient(common...)
	if err != nil {
		return nil, err
	}
	from := map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(0)}}
	reading, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumePartitions(from), kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	return franz{topic, sending, reading}, err
}

func (by franz) send(ctx context.Context, value []byte) (int64, error) {
	record, err := by.sending.ProduceSync(ctx, &kgo.Record{Value: value}).First()
	return record.Offset, err
}

func (by franz) read(ctx context.Context, take func(int64) bool) error {
	for {
		fetches := by.reading.PollFetches(ctx)
		if errors := fetches.Errors(); len(errors) > 0 {
			return errors[0].Err
		}
		for _, record := range fetches.Records() {
			if !take(record.Offset) {
				return nil
			}
		}
	}
}
