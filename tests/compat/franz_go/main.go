// A franz-go client that logs in, sends records, and reads them again: `there and back`.
//
//	franz_go ADDRESS TOPIC RECORDS CA MECHANISM USER SECRET [CERTIFICATE]
//
// MECHANISM is SCRAM-SHA-256, SCRAM-SHA-512 (with -TOKEN: USER and SECRET are a delegation token), PLAIN, OAUTHBEARER (SECRET is the token) or "-"; CA "-" is no TLS.
// It prints the number of records that it read in order, or the client's own error, and ends with 1.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func mechanism(name, user, secret string) sasl.Mechanism {
	switch name {
	case "SCRAM-SHA-256":
		return scram.Auth{User: user, Pass: secret}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: user, Pass: secret}.AsSha512Mechanism()
	case "SCRAM-SHA-256-TOKEN":
		return scram.Auth{User: user, Pass: secret, IsToken: true}.AsSha256Mechanism()
	case "SCRAM-SHA-512-TOKEN":
		return scram.Auth{User: user, Pass: secret, IsToken: true}.AsSha512Mechanism()
	case "PLAIN":
		return plain.Auth{User: user, Pass: secret}.AsMechanism()
	case "OAUTHBEARER":
		return oauth.Auth{Token: secret}.AsMechanism()
	}
	return nil
}

func security(words []string) ([]kgo.Opt, error) {
	var options []kgo.Opt
	if words[3] != "-" {
		pem, err := os.ReadFile(words[3])
		if err != nil {
			return nil, err
		}
		config := &tls.Config{RootCAs: x509.NewCertPool()}
		config.RootCAs.AppendCertsFromPEM(pem)
		if len(words) > 7 {
			own, err := tls.LoadX509KeyPair(words[7], words[7])
			if err != nil {
				return nil, err
			}
			config.Certificates = []tls.Certificate{own}
		}
		options = append(options, kgo.DialTLSConfig(config))
	}
	if found := mechanism(words[4], words[5], words[6]); found != nil {
		options = append(options, kgo.SASL(found))
	}
	return options, nil
}

func thereAndBack(words []string) (int, error) {
	records, err := strconv.Atoi(words[2])
	if err != nil {
		return 0, err
	}
	options, err := security(words)
	if err != nil {
		return 0, err
	}
	options = append(options, kgo.SeedBrokers(words[0]), kgo.DefaultProduceTopic(words[1]),
		kgo.ConsumeTopics(words[1]), kgo.AllowAutoTopicCreation(), kgo.RecordRetries(3),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	client, err := kgo.NewClient(options...)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	limit, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := client.Ping(limit); err != nil {
		return 0, err
	}
	for number := 0; number < records; number++ {
		record := &kgo.Record{Value: []byte(strconv.Itoa(number))}
		client.Produce(limit, record, func(_ *kgo.Record, failed error) {
			if failed != nil {
				err = failed
			}
		})
	}
	if failed := client.Flush(limit); failed != nil || err != nil {
		return 0, fmt.Errorf("%v %v", failed, err)
	}
	found := 0
	for found < records {
		fetches := client.PollFetches(limit)
		if failed := fetches.Err(); failed != nil {
			return found, failed
		}
		for _, record := range fetches.Records() {
			if string(record.Value) != strconv.Itoa(found) {
				return found, fmt.Errorf("record %d is %q", found, record.Value)
			}
			found++
		}
	}
	return found, nil
}

func main() {
	if len(os.Args) < 8 {
		fmt.Println("usage: franz_go ADDRESS TOPIC RECORDS CA MECHANISM USER SECRET [CERTIFICATE]")
		os.Exit(2)
	}
	found, err := thereAndBack(os.Args[1:])
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(found)
}
