// Go clients through a change of leader: each sends numbers with its idempotent producer, one after the other, and reads them from
// the start of the partition, while the test kills the partition's leader. An offset that does not grow is a fault, in both.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	pause    = 3 * time.Millisecond
	patience = 80 * time.Second
)

// client is one library. send returns the offset of the record. read calls take with each record until that returns false.
type client interface {
	send(ctx context.Context, value []byte) (offset int64, err error)
	read(ctx context.Context, take func(offset int64) bool) error
}

func main() {
	brokers, topic := strings.Split(os.Getenv("BOOTSTRAP"), ","), os.Getenv("TOPIC")
	count, err := strconv.Atoi(os.Getenv("COUNT"))
	if err != nil {
		fail("COUNT", err)
	}
	made := map[string]func([]string, string) (client, error){"franz-go": newFranz, "sarama": newSarama}
	by, err := made[os.Args[1]](brokers, topic)
	if err != nil {
		fail("no client", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	read := make(chan int)
	go func() {
		number, last := 0, int64(-1)
		err := by.read(ctx, func(offset int64) bool {
			if offset <= last {
				fail("read", fmt.Errorf("offset %d after %d", offset, last))
			}
			last = offset
			number++
			if number == 100 {
				fmt.Println("read 100")
			}
			return number < count
		})
		if err != nil {
			fail("read", fmt.Errorf("%d of %d: %w", number, count, err))
		}
		read <- number
	}()
	last := int64(-1)
	for number := range count {
		offset, err := by.send(ctx, []byte(strconv.Itoa(number)))
		if err != nil {
			fail("send", fmt.Errorf("%d of %d: %w", number, count, err))
		}
		if offset <= last {
			fail("send", fmt.Errorf("number %d has offset %d after %d", number, offset, last))
		}
		last = offset
		time.Sleep(pause)
	}
	fmt.Printf("sent %d, read %d of them\n", count, <-read)
}

func fail(what string, err error) {
	fmt.Println(what, "failed:", err)
	os.Exit(1)
}
