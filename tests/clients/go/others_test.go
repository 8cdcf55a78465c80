package clients

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/segmentio/kafka-go"
)

// segmentio/kafka-go: its own ideas of versions, groups and auto-created topics.
func TestKafkaGoWritesAndReadsInAGroup(t *testing.T) {
	topic := topic(t, 2)
	ctx := within(t)
	for _, codec := range []kafka.Compression{0, kafka.Gzip, kafka.Snappy, kafka.Lz4, kafka.Zstd} {
		writer := &kafka.Writer{Addr: kafka.TCP(bootstrap), Topic: topic, Compression: codec, BatchTimeout: 10 * time.Millisecond}
		if err := writer.WriteMessages(ctx, kafka.Message{Key: []byte("k"), Value: fmt.Append(nil, codec)}, kafka.Message{Value: []byte("")}); err != nil {
			t.Fatal(codec, err)
		}
		if err := writer.Close(); err != nil {
			t.Fatal(err)
		}
	}
	reader := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{bootstrap}, GroupID: topic, Topic: topic, MaxWait: 200 * time.Millisecond})
	defer reader.Close()
	for i := range 10 {
		message, err := reader.FetchMessage(ctx)
		if err != nil {
			t.Fatal(i, err)
		}
		if err := reader.CommitMessages(ctx, message); err != nil {
			t.Fatal(i, err)
		}
	}
}

func TestKafkaGoWritesToATopicThatIsMadeByIt(t *testing.T) {
	writer := &kafka.Writer{Addr: kafka.TCP(bootstrap), Topic: fmt.Sprintf("made-%d", time.Now().UnixNano()), AllowAutoTopicCreation: true}
	defer writer.Close()
	ctx := within(t)
	for {
		err := writer.WriteMessages(ctx, kafka.Message{Value: []byte("x")})
		if err == nil {
			return
		}
		if !errors.Is(err, kafka.UnknownTopicOrPartition) && !errors.Is(err, kafka.LeaderNotAvailable) {
			t.Fatal(err)
		}
	}
}

// IBM/sarama: asks each API at the versions that its configured Kafka version has, old ones by default.
func TestSaramaAtOldAndNewVersions(t *testing.T) {
	for _, version := range []sarama.KafkaVersion{sarama.V0_11_0_0, sarama.V1_0_0_0, sarama.V2_1_0_0, sarama.V2_8_0_0, sarama.V4_0_0_0} {
		t.Run(version.String(), func(t *testing.T) {
			topic := topic(t, 1)
			config := sarama.NewConfig()
			config.Version = version
			config.Producer.Return.Successes = true
			config.Consumer.Return.Errors = true
			producer, err := sarama.NewSyncProducer([]string{bootstrap}, config)
			if err != nil {
				t.Fatal(err)
			}
			defer producer.Close()
			for i := range 5 {
				if _, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(fmt.Sprint(i))}); err != nil {
					t.Fatal(err)
				}
			}
			consumer, err := sarama.NewConsumer([]string{bootstrap}, config)
			if err != nil {
				t.Fatal(err)
			}
			defer consumer.Close()
			partition, err := consumer.ConsumePartition(topic, 0, sarama.OffsetOldest)
			if err != nil {
				t.Fatal(err)
			}
			defer partition.AsyncClose()
			deadline := time.After(30 * time.Second)
			for i := range 5 {
				select {
				case message := <-partition.Messages():
					if string(message.Value) != fmt.Sprint(i) {
						t.Fatalf("%q where %d was due", message.Value, i)
					}
				case err := <-partition.Errors():
					t.Fatal(err)
				case <-deadline:
					t.Fatalf("%d of 5 messages", i)
				}
			}
		})
	}
}
