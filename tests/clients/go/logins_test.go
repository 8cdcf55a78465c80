// Logins over TLS: franz-go and sarama on a broker whose sessions last 1.5 s ($SECURED, $CA, $MTLS, $CERTIFICATE, $KEY).
package clients

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func trusting(t *testing.T) *tls.Config {
	t.Helper()
	pem, err := os.ReadFile(os.Getenv("CA"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	return &tls.Config{RootCAs: pool, ServerName: "localhost"}
}

func ways(password string) map[string]sasl.Mechanism {
	auth := scram.Auth{User: "alice", Pass: password}
	return map[string]sasl.Mechanism{
		"PLAIN":         plain.Auth{User: "alice", Pass: password}.AsMechanism(),
		"SCRAM-SHA-256": auth.AsSha256Mechanism(),
		"SCRAM-SHA-512": auth.AsSha512Mechanism(),
	}
}

func writeAndRead(t *testing.T, name string, forMS int, options ...kgo.Opt) {
	t.Helper()
	options = append(options, kgo.ConsumeTopics(name), kgo.DefaultProduceTopic(name))
	one, err := kgo.NewClient(options...)
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if _, err := kadm.NewClient(one).CreateTopic(ctx, 1, 1, nil, name); err != nil {
		t.Fatal(err)
	}
	count, end := 0, time.Now().Add(time.Duration(forMS)*time.Millisecond)
	for ok := true; ok; ok = time.Now().Before(end) {
		if err := one.ProduceSync(ctx, kgo.StringRecord("value")).FirstErr(); err != nil {
			t.Fatal(count, err)
		}
		count++
	}
	if got := read(t, one, count); len(got) != count {
		t.Fatal(len(got), count)
	}
}

func TestAUserWritesAndReads(t *testing.T) {
	for name, way := range ways("secret") {
		writeAndRead(t, "go-"+name, 0, kgo.SeedBrokers(os.Getenv("SECURED")), kgo.DialTLSConfig(trusting(t)), kgo.SASL(way))
	}
}

func TestASessionIsRenewedWhileItWrites(t *testing.T) {
	way := ways("secret")["SCRAM-SHA-512"]
	writeAndRead(t, "go-renewed", 4_000, kgo.SeedBrokers(os.Getenv("SECURED")), kgo.DialTLSConfig(trusting(t)), kgo.SASL(way))
}

func TestAClientWithACertificateWritesAndReads(t *testing.T) {
	own, err := tls.LoadX509KeyPair(os.Getenv("CERTIFICATE"), os.Getenv("KEY"))
	if err != nil {
		t.Fatal(err)
	}
	config := trusting(t)
	config.Certificates = []tls.Certificate{own}
	writeAndRead(t, "go-mtls", 0, kgo.SeedBrokers(os.Getenv("MTLS")), kgo.DialTLSConfig(config))
}

func TestAWrongPasswordIsRefused(t *testing.T) {
	for name, way := range ways("wrong") {
		one, err := kgo.NewClient(kgo.SeedBrokers(os.Getenv("SECURED")), kgo.DialTLSConfig(trusting(t)), kgo.SASL(way))
		if err != nil {
			t.Fatal(err)
		}
		if err := one.Ping(within(t)); !errors.Is(err, kerr.SaslAuthenticationFailed) {
			t.Fatal(name, err)
		}
		one.Close()
	}
}

func TestSaramaLogsIn(t *testing.T) {
	config := sarama.NewConfig()
	config.Net.TLS.Enable, config.Net.TLS.Config = true, trusting(t)
	config.Net.SASL.Enable, config.Net.SASL.Mechanism = true, sarama.SASLTypePlaintext
	config.Net.SASL.User, config.Net.SASL.Password = "alice", "secret"
	one, err := sarama.NewClient([]string{os.Getenv("SECURED")}, config)
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	if _, err := one.Topics(); err != nil {
		t.Fatal(err)
	}
}
