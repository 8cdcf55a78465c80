package main

import (
	"context"
	"time"

	"github.com/IBM/sarama"
)

type saramaClient struct {
	topic    string
	producer sarama.SyncProducer
	consumer sarama.Consumer
}

func newSarama(brokers []string, topic string) (client, error) {
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	config.Net.MaxOpenRequests = 1
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Retry.Max = 300
	config.Producer.Retry.Backoff = 100 * time.Millisecond
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Consumer.Return.Errors = true
	config.Consumer.Retry.Backoff = 200 * time.Millisecond
	producer, err := sarama.NewSyncProducer(brokers, config)
	if err != nil {
		return nil, err
	}
	consumer, err := sarama.NewConsumer(brokers, config)
	return saramaClient{topic, producer, consumer}, err
}

func (by saramaClient) send(_ context.Context, value []byte) (int64, error) {
	_, offset, err := by.producer.SendMessage(&sarama.ProducerMessage{Topic: by.topic, Value: sarama.ByteEncoder(value)})
	return offset, err
}

// read ignores errors of connections, which sarama reports and retries. An offset that is out of range ends the partition's messages.
func (by saramaClient) read(ctx context.Context, take func(int64) bool) error {
	partition, err := by.consumer.ConsumePartition(by.topic, 0, 0)
	if err != nil {
		return err
	}
	var last error
	for {
		select {
		case message, more := <-partition.Messages():
			if !more {
				return last
			}
			if !take(message.Offset) {
				return nil
			}
		case fault, more := <-partition.Errors():
			if more {
				last = fault.Err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
