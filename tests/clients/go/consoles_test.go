// The calls that Redpanda Console makes, with the library that it uses (franz-go): docs/BROKER.md lists them. Each is answered, or
// refused with an error that the console shows.
package clients

import (
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// The requests without which Console hides a page.
var required = []kmsg.Request{
	&kmsg.DescribeConfigsRequest{}, &kmsg.DescribeGroupsRequest{}, &kmsg.ListGroupsRequest{}, &kmsg.DeleteRecordsRequest{},
	&kmsg.OffsetCommitRequest{}, &kmsg.DeleteGroupsRequest{}, &kmsg.OffsetDeleteRequest{}, &kmsg.ListPartitionReassignmentsRequest{},
	&kmsg.IncrementalAlterConfigsRequest{}, &kmsg.AlterPartitionAssignmentsRequest{}, &kmsg.DescribeClientQuotasRequest{},
	&kmsg.DescribeUserSCRAMCredentialsRequest{}, &kmsg.AlterUserSCRAMCredentialsRequest{},
}

func TestConsoleShowsEveryPage(t *testing.T) {
	request := kmsg.NewApiVersionsRequest()
	request.ClientSoftwareName, request.ClientSoftwareVersion = "console", "1"
	answer, err := request.RequestWith(within(t), client(t))
	if err != nil {
		t.Fatal(err)
	}
	versions := kversion.FromApiVersionsResponse(answer)
	for _, one := range required {
		if _, served := versions.LookupMaxKeyVersion(one.Key()); !served {
			t.Errorf("%s is not served", kmsg.NameForKey(one.Key()))
		}
	}
}

func TestConsoleReadsTheCluster(t *testing.T) {
	name, ctx, one := topic(t, 1), within(t), client(t)
	records := &kgo.Record{Topic: name, Value: []byte("x")}
	if err := one.ProduceSync(ctx, records).FirstErr(); err != nil {
		t.Fatal(err)
	}
	admin := kadm.NewClient(one)
	cluster, err := admin.Metadata(ctx)
	if err != nil || len(cluster.Brokers) != 1 || !cluster.Topics.Has(name) {
		t.Fatal(cluster, err)
	}
	folders, err := admin.DescribeAllLogDirs(ctx, nil)
	if err != nil || len(folders) != 1 {
		t.Fatal(folders, err)
	}
	folders.Each(func(one kadm.DescribedLogDir) {
		if one.Err != nil {
			t.Error(one.Err)
		}
	})
	configs, err := admin.DescribeTopicConfigs(ctx, name)
	if err != nil || len(configs) != 1 || configs[0].Err != nil {
		t.Fatal(configs, err)
	}
	brokers, err := admin.DescribeBrokerConfigs(ctx, cluster.Brokers[0].NodeID)
	if err != nil || len(brokers) != 1 || brokers[0].Err != nil {
		t.Fatal(brokers, err)
	}
	ends, err := admin.ListEndOffsets(ctx, name)
	if err != nil || ends.Error() != nil {
		t.Fatal(ends, err)
	}
	groups, err := admin.DescribeGroups(ctx)
	if err != nil || groups.Error() != nil {
		t.Fatal(groups, err)
	}
	quotas := kmsg.NewDescribeClientQuotasRequest()
	if answer, err := quotas.RequestWith(ctx, one); err != nil || answer.ErrorCode != 0 || len(answer.Entries) != 0 {
		t.Fatal(answer, err)
	}
	ann := kadm.UpsertSCRAM{User: "ann", Mechanism: kadm.ScramSha256, Iterations: 4096, Password: "secret"}
	changed, err := admin.AlterUserSCRAMs(ctx, nil, []kadm.UpsertSCRAM{ann})
	if err != nil || changed["ann"].Err != nil {
		t.Fatal(changed, err)
	}
	users, err := admin.DescribeUserSCRAMs(ctx)
	if err != nil || len(users) != 1 || users["ann"].Err != nil {
		t.Fatal(users, err)
	}
	changed, err = admin.AlterUserSCRAMs(ctx, []kadm.DeleteSCRAM{{User: "ann", Mechanism: kadm.ScramSha256}}, nil)
	if err != nil || changed["ann"].Err != nil {
		t.Fatal(changed, err)
	}
	moves := kmsg.NewListPartitionReassignmentsRequest()
	if answer, err := moves.RequestWith(ctx, one); err != nil || answer.ErrorCode != 0 || len(answer.Topics) != 0 {
		t.Fatal(answer, err)
	}
	if _, err := admin.DescribeACLs(ctx, kadm.NewACLs().Topics(name).AnyResource().Allow().AllowHosts().Operations(kadm.OpAny)); !errors.Is(
		err, kerr.SecurityDisabled) && err != nil {
		t.Fatal(err)
	}
}

func TestConsoleIsRefusedWhatThereIsNotInWords(t *testing.T) {
	name, ctx, one := topic(t, 1), within(t), client(t)
	move := kmsg.NewAlterPartitionAssignmentsRequest()
	partition := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	partition.Replicas = []int32{99}
	move.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{
		{Topic: name, Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{partition}},
	}
	answer, err := move.RequestWith(ctx, one)
	if err != nil {
		t.Fatal(err)
	}
	refused := answer.Topics[0].Partitions[0]
	if refused.ErrorCode != kerr.InvalidReplicaAssignment.Code || refused.ErrorMessage == nil {
		t.Fatal(refused)
	}
	transactional, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.TransactionalID("tx"))
	if err != nil {
		t.Fatal(err)
	}
	defer transactional.Close()
	err = transactional.BeginTransaction()
	if err == nil || !strings.Contains(err.Error(), kerr.UnsupportedVersion.Message) { // the client wraps no error here
		t.Fatal(err)
	}
}
