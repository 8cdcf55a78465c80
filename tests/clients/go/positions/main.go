// Go clients as readers of tests/clients/positions: a command a line, answered in lines.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

const patience = 20 * time.Second

var out = bufio.NewWriterSize(os.Stdout, 1<<16)

// reader is one client. Each method tells the records that it is given and returns where it stands.
type reader interface {
	ends(ctx context.Context, topic string) (begin, end int64, err error)
	// read reads from an offset until it stands at `to`, and goes on for a while when `idle` is not nil.
	read(ctx context.Context, topic string, from, to int64, idle func(more func() error) error) (position int64, err error)
	// group reads what its group has not committed, at most so many records, and commits. lag is -1 where the client has no word for it.
	group(ctx context.Context, topic, group string, most int, to int64) (committed, lag int64, err error)
}

func main() {
	readers := map[string]reader{"franz-go": franz{os.Args[2]}, "sarama": saramaReader{os.Args[2]}}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		if err := carryOut(readers[os.Args[1]], strings.Fields(in.Text())); err != nil {
			say("failed %s", strings.ReplaceAll(err.Error(), "\n", " "))
		} else {
			say("done")
		}
	}
}

func carryOut(by reader, words []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	number := func(at int) int64 {
		value, err := strconv.ParseInt(words[at], 10, 64)
		if err != nil {
			panic(err)
		}
		return value
	}
	switch words[0] {
	case "ends":
		begin, end, err := by.ends(ctx, words[1])
		say("begin %d", begin)
		say("end %d", end)
		return err
	case "read":
		position, err := by.read(ctx, words[1], number(2), number(3), nil)
		say("position %d", position)
		return err
	case "idle":
		_, err := by.read(ctx, words[1], number(2), number(3), func(more func() error) error {
			say("idle")
			end := time.Now().Add(time.Duration(number(4)) * time.Millisecond)
			for time.Now().Before(end) {
				if err := more(); err != nil {
					return err
				}
			}
			say("over")
			return nil
		})
		return err
	case "group":
		committed, lag, err := by.group(ctx, words[1], words[2], int(number(3)), number(4))
		say("committed %d", committed)
		if lag >= 0 {
			say("lag %d", lag)
		}
		return err
	}
	return fmt.Errorf("no such command: %s", words[0])
}

func tell(offset int64, value []byte) {
	fmt.Fprintf(out, "record %d %s\n", offset, value)
}

func say(format string, values ...any) {
	fmt.Fprintf(out, format+"\n", values...)
	out.Flush()
}

func stoppedAt(position, to int64, err error) error {
	return fmt.Errorf("at %d on the way to %d: %w", position, to, err)
}
