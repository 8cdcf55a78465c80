package main

import (
	"context"
	"time"

	"github.com/IBM/sarama"
)

type saramaReader struct{ bootstrap string }

func (by saramaReader) client() (sarama.Client, error) {
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	config.Consumer.Return.Errors = true
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	return sarama.NewClient([]string{by.bootstrap}, config)
}

func (by saramaReader) ends(_ context.Context, topic string) (int64, int64, error) {
	client, err := by.client()
	if err != nil {
		return 0, 0, err
	}
	defer client.Close()
	begin, err := client.GetOffset(topic, 0, sarama.OffsetOldest)
	if err != nil {
		return 0, 0, err
	}
	end, err := client.GetOffset(topic, 0, sarama.OffsetNewest)
	return begin, end, err
}

func (by saramaReader) read(ctx context.Context, topic string, from, to int64, idle func(func() error) error) (int64, error) {
	client, err := by.client()
	if err != nil {
		return 0, err
	}
	defer client.Close()
	consumer, err := sarama.NewConsumerFromClient(client)
	if err != nil {
		return 0, err
	}
	defer consumer.Close()
	partition, err := consumer.ConsumePartition(topic, 0, from)
	if err != nil {
		return 0, err
	}
	defer partition.AsyncClose()
	position := from
	next := func(within <-chan time.Time) error {
		select {
		case message := <-partition.Messages():
			tell(message.Offset, message.Value)
			position = message.Offset + 1
		case err := <-partition.Errors():
			return err
		case <-within:
		case <-ctx.Done():
			return ctx.Err()
		}
		return nil
	}
	for position < to {
		if err := next(nil); err != nil {
			return position, stoppedAt(position, to, err)
		}
	}
	if idle == nil {
		return position, nil
	}
	return position, idle(func() error { return next(time.After(100 * time.Millisecond)) })
}

func (by saramaReader) group(ctx context.Context, topic, group string, most int, to int64) (int64, int64, error) {
	client, err := by.client()
	if err != nil {
		return 0, 0, err
	}
	defer client.Close()
	members, err := sarama.NewConsumerGroupFromClient(group, client)
	if err != nil {
		return 0, 0, err
	}
	handler := &member{most: most, to: to}
	ctx, handler.stop = context.WithCancel(ctx)
	defer handler.stop()
	for !handler.finished {
		if err := members.Consume(ctx, []string{topic}, handler); err != nil {
			return 0, 0, err
		}
		if ctx.Err() != nil && !handler.finished {
			return 0, 0, stoppedAt(handler.position, to, ctx.Err())
		}
	}
	if err := members.Close(); err != nil {
		return 0, 0, err
	}
	other, err := by.client() // the other one is closed with its group
	if err != nil {
		return 0, 0, err
	}
	defer other.Close()
	admin, err := sarama.NewClusterAdminFromClient(other)
	if err != nil {
		return 0, 0, err
	}
	offsets, err := admin.ListConsumerGroupOffsets(group, map[string][]int32{topic: {0}})
	if err != nil {
		return 0, 0, err
	}
	end, err := other.GetOffset(topic, 0, sarama.OffsetNewest)
	committed := offsets.GetBlock(topic, 0).Offset
	return committed, end - committed, err
}

type member struct {
	most     int
	to       int64
	position int64
	finished bool
	stop     context.CancelFunc
}

func (*member) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (*member) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	m.position = max(m.position, claim.InitialOffset())
	for count := 0; m.position < m.to && count < m.most; count++ {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			tell(message.Offset, message.Value)
			m.position = message.Offset + 1
			session.MarkMessage(message, "")
		case <-session.Context().Done():
			return nil
		}
	}
	session.Commit()
	m.finished = true
	m.stop()
	return nil
}
