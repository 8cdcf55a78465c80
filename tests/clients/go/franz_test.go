// franz-go, the most complete Go client, against our broker ($BOOTSTRAP). Run by `make test-clients`.
package clients

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

var bootstrap = os.Getenv("BOOTSTRAP")

const atMS = 1_700_000_000_000

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func client(t *testing.T, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	one, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(bootstrap), kgo.ProducerBatchMaxBytes(1_500_000)}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(one.Close)
	return one
}

// topic returns the name of a new topic.
func topic(t *testing.T, partitions int32) string {
	t.Helper()
	name := fmt.Sprintf("go-%d", time.Now().UnixNano())
	if _, err := kadm.NewClient(client(t)).CreateTopic(within(t), partitions, 1, nil, name); err != nil {
		t.Fatal(err)
	}
	return name
}

// read polls until so many records came.
func read(t *testing.T, from *kgo.Client, count int) []*kgo.Record {
	t.Helper()
	ctx := within(t)
	var records []*kgo.Record
	for len(records) < count {
		fetches := from.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			t.Fatalf("%d of %d records: %v", len(records), count, err)
		}
		fetches.EachError(func(topic string, partition int32, err error) { t.Fatal(topic, partition, err) })
		records = append(records, fetches.Records()...)
	}
	return records
}

func at(topic string, partition int32, offset kgo.Offset) kgo.Opt {
	return kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: offset}})
}

func TestEveryKindOfRecordInEachCodecWithIdempotenceAndWithout(t *testing.T) {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(),
		"zstd": kgo.ZstdCompression(),
	}
	for name, codec := range codecs {
		for _, idempotent := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/idempotent=%v", name, idempotent), func(t *testing.T) {
				topic := topic(t, 1)
				options := []kgo.Opt{kgo.ProducerBatchCompression(codec)}
				if !idempotent {
					options = append(options, kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck()))
				}
				sent := []*kgo.Record{
					{Key: []byte("key"), Value: []byte("value")},
					{Key: nil, Value: []byte("no key"), Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "a", Value: []byte{}}}},
					{Key: []byte("no value"), Value: nil},
					{Key: []byte{}, Value: []byte{}},
					{Key: []byte("large"), Value: []byte(strings.Repeat("x", 900_000))},
				}
				for i, record := range sent {
					record.Topic, record.Timestamp = topic, time.UnixMilli(atMS+int64(i))
				}
				if err := client(t, options...).ProduceSync(within(t), sent...).FirstErr(); err != nil {
					t.Fatal(err)
				}
				got := read(t, client(t, at(topic, 0, kgo.NewOffset().AtStart())), len(sent))
				for i, record := range sent {
					other := got[i]
					same := string(other.Key) == string(record.Key) && (other.Key == nil) == (record.Key == nil) &&
						string(other.Value) == string(record.Value) && (other.Value == nil) == (record.Value == nil) &&
						other.Timestamp.UnixMilli() == atMS+int64(i) && other.Offset == record.Offset && len(other.Headers) == len(record.Headers)
					if !same {
						t.Errorf("record %d came back as %v", i, other)
					}
				}
			})
		}
	}
}

func TestSeeksToBeginEndTimeMiddleAndGap(t *testing.T) {
	topic := topic(t, 1)
	var offsets []int64
	for batch := range 2 {
		producer := client(t, kgo.ProducerLinger(300*time.Millisecond))
		var records []*kgo.Record
		for i := range 5 {
			records = append(records, &kgo.Record{Topic: topic, Value: []byte("x"), Timestamp: time.UnixMilli(atMS + int64(1000*(5*batch+i)))})
		}
		if err := producer.ProduceSync(within(t), records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		for _, record := range records {
			offsets = append(offsets, record.Offset)
		}
	}
	for _, offset := range []int64{offsets[0], offsets[3], offsets[4] + 1, offsets[5] - 1, offsets[7]} {
		var want []int64
		for _, one := range offsets {
			if one >= offset {
				want = append(want, one)
			}
		}
		var got []int64
		for _, record := range read(t, client(t, at(topic, 0, kgo.NewOffset().At(offset))), len(want)) {
			got = append(got, record.Offset)
		}
		if !slices.Equal(got, want) {
			t.Errorf("from %d: %v, not %v", offset, got, want)
		}
	}
	byTime := read(t, client(t, at(topic, 0, kgo.NewOffset().AfterMilli(atMS+6_001))), 3)
	if byTime[0].Offset != offsets[7] {
		t.Errorf("by time: %d", byTime[0].Offset)
	}
	admin := kadm.NewClient(client(t))
	ends, err := admin.ListEndOffsets(within(t), topic)
	if err != nil {
		t.Fatal(err)
	}
	if end, _ := ends.Lookup(topic, 0); end.Offset != offsets[9]+1 {
		t.Errorf("end %d", end.Offset)
	}
}

func TestTransactionsAreRefusedClearly(t *testing.T) {
	producer := client(t, kgo.TransactionalID("refused"))
	if err := producer.BeginTransaction(); err != nil {
		return
	}
	err := producer.ProduceSync(within(t), &kgo.Record{Topic: topic(t, 1), Value: []byte("x")}).FirstErr()
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("refused by %v", err)
	}
}

func TestAGroupRebalancesAndGoesOnWhereItsCommitsAre(t *testing.T) {
	for _, balancer := range []kgo.GroupBalancer{kgo.RangeBalancer(), kgo.CooperativeStickyBalancer()} {
		t.Run(balancer.ProtocolName(), func(t *testing.T) {
			topic := topic(t, 4)
			producer := client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
			const count = 400
			for i := range count {
				producer.Produce(within(t), &kgo.Record{Topic: topic, Partition: int32(i % 4), Value: fmt.Append(nil, i)}, nil)
			}
			if err := producer.Flush(within(t)); err != nil {
				t.Fatal(err)
			}
			seen := map[string]int{}
			member := func() *kgo.Client {
				return client(t, kgo.ConsumerGroup(topic), kgo.ConsumeTopics(topic), kgo.Balancers(balancer), kgo.DisableAutoCommit(),
					kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxPartitionBytes(2_000))
			}
			first, second := member(), member()
			members := []*kgo.Client{first, second}
			ctx := within(t)
			for len(seen) < count {
				for _, one := range members {
					poll, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
					fetches := one.PollRecords(poll, 40)
					cancel()
					if ctx.Err() != nil {
						t.Fatalf("%d of %d records", len(seen), count)
					}
					fetches.EachRecord(func(record *kgo.Record) { seen[string(record.Value)]++ })
					// A commit of one who has just lost its generation fails; what was not committed comes again to the other.
					_ = one.CommitRecords(ctx, fetches.Records()...)
				}
				if len(seen) > count/2 && len(members) == 2 {
					second.Close()
					members = members[:1]
				}
			}
		})
	}
}

func TestAdminCalls(t *testing.T) {
	topic := topic(t, 1)
	admin := kadm.NewClient(client(t))
	ctx := within(t)
	if _, err := admin.CreateTopic(ctx, 1, 1, nil, topic); !errors.Is(err, kerr.TopicAlreadyExists) {
		t.Errorf("created twice: %v", err)
	}
	if _, err := admin.UpdatePartitions(ctx, 3, topic); err != nil {
		t.Error(err)
	}
	value := "123456789"
	if _, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &value}}, topic); err != nil {
		t.Error(err)
	}
	configs, err := admin.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	found := slices.IndexFunc(configs[0].Configs, func(one kadm.Config) bool { return one.Key == "retention.ms" && one.MaybeValue() == value })
	if found < 0 {
		t.Errorf("retention.ms is not %s in %v", value, configs)
	}
	producer := client(t)
	if err := producer.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("x")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	offsets := kadm.Offsets{}
	offsets.AddOffset(topic, 0, 0, -1)
	if _, err := admin.CommitOffsets(ctx, topic, offsets); err != nil {
		t.Error(err)
	}
	groups, err := admin.ListGroups(ctx)
	if _, ok := groups[topic]; err != nil || !ok {
		t.Errorf("groups %v: %v", groups, err)
	}
	if _, err := admin.DeleteGroup(ctx, topic); err != nil {
		t.Error(err)
	}
	if metadata, err := admin.BrokerMetadata(ctx); err != nil || len(metadata.Brokers) != 1 {
		t.Errorf("%v: %v", metadata, err)
	}
	if _, err := admin.DescribeAllLogDirs(ctx, nil); err != nil {
		t.Error(err)
	}
	if deleted, err := admin.DeleteTopics(ctx, topic); err != nil || deleted.Error() != nil {
		t.Errorf("%v: %v", deleted, err)
	}
}
