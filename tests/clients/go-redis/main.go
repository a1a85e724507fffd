package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

var background, cancel = context.WithTimeout(context.Background(), 2*time.Minute)

func check(err error, what string) {
	if err != nil {
		panic(fmt.Sprintf("%s: %v", what, err))
	}
}

func equal[T comparable](found, wanted T, what string) {
	if found != wanted {
		panic(fmt.Sprintf("%s: %v, not %v", what, found, wanted))
	}
}

func together(count int, work func(n int)) {
	var all sync.WaitGroup
	for n := 0; n < count; n++ {
		all.Add(1)
		go func(n int) {
			defer all.Done()
			work(n)
		}(n)
	}
	all.Wait()
}

func pooled(r *redis.Client) {
	check(r.Set(background, "{g}n", 0, 0).Err(), "set")
	together(40, func(n int) {
		for turn := 0; turn < 20; turn++ {
			key, value := fmt.Sprintf("g:%d", n), strings.Repeat(strconv.Itoa(n), turn*200+1)
			check(r.Set(background, key, value, time.Minute).Err(), "set")
			found, err := r.Get(background, key).Result()
			check(err, "get")
			equal(found, value, "get")
			check(r.Incr(background, "{g}n").Err(), "incr")
		}
	})
	found, err := r.Get(background, "{g}n").Int()
	check(err, "get")
	equal(found, 800, "all increments")
	big := strings.Repeat("v", 5<<20)
	check(r.Set(background, "g:big", big, 0).Err(), "big")
	heard, err := r.Get(background, "g:big").Result()
	check(err, "big")
	equal(heard == big, true, "big")
}

func pipelined(r *redis.Client) {
	together(10, func(n int) {
		commands, err := r.Pipelined(background, func(pipe redis.Pipeliner) error {
			for m := 0; m < 100; m++ {
				pipe.Set(background, fmt.Sprintf("g:%d:%d", n, m), m, 0)
				pipe.Get(background, fmt.Sprintf("g:%d:%d", n, m))
			}
			return nil
		})
		check(err, "a pipeline")
		for m := 0; m < 100; m++ {
			equal(commands[2*m+1].(*redis.StringCmd).Val(), strconv.Itoa(m), "a pipeline")
		}
	})
	iterator, count := r.Scan(background, 0, "g:*:*", 53).Iterator(), map[string]bool{}
	for iterator.Next(background) {
		count[iterator.Val()] = true
	}
	check(iterator.Err(), "scan")
	equal(len(count), 1000, "scan")
	var keys []string
	for key := range count {
		keys = append(keys, key)
	}
	equal(r.Del(background, keys...).Val(), 1000, "del")
}

func transactions(r *redis.Client) {
	check(r.Del(background, "{g}t").Err(), "del")
	add := func(tx *redis.Tx) error {
		n, err := tx.Get(background, "{g}t").Int()
		if err != nil && err != redis.Nil {
			return err
		}
		_, err = tx.TxPipelined(background, func(pipe redis.Pipeliner) error {
			pipe.Set(background, "{g}t", n+1, 0)
			return nil
		})
		return err
	}
	together(5, func(int) {
		for done := 0; done < 10; {
			err := r.Watch(background, add, "{g}t")
			if err == nil {
				done++
			} else if !errors.Is(err, redis.TxFailedErr) {
				panic(err)
			}
		}
	})
	found, err := r.Get(background, "{g}t").Int()
	check(err, "get")
	equal(found, 50, "transactions")
	commands, err := r.TxPipelined(background, func(pipe redis.Pipeliner) error {
		pipe.Set(background, "{g}s", "text", 0)
		pipe.Incr(background, "{g}s")
		pipe.Get(background, "{g}s")
		return nil
	})
	equal(err != nil, true, "an error in a transaction")
	equal(commands[2].(*redis.StringCmd).Val(), "text", "what is behind it")
}

func scripted(r *redis.Client) {
	script := redis.NewScript("return redis.call('INCRBY', KEYS[1], ARGV[1])")
	check(r.Del(background, "{g}x").Err(), "del")
	for _, wanted := range []int{3, 6, 9} {
		found, err := script.Run(background, r, []string{"{g}x"}, 3).Int()
		check(err, "a script")
		equal(found, wanted, "a script")
	}
	err := r.LPush(background, "{g}x", 1).Err()
	equal(err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE"), true, "a wrong type")
}

func blocking(r *redis.Client) {
	check(r.Del(background, "{g}q", "{g}st").Err(), "del")
	waiting := make(chan []string)
	go func() { waiting <- r.BLPop(background, 20*time.Second, "{g}q").Val() }()
	time.Sleep(50 * time.Millisecond)
	check(r.RPush(background, "{g}q", "late").Err(), "rpush")
	equal(strings.Join(<-waiting, " "), "{g}q late", "blpop")
	equal(r.BLPop(background, time.Second, "{g}nothing").Err(), error(redis.Nil), "blpop")
	check(r.XGroupCreateMkStream(background, "{g}st", "g", "0").Err(), "xgroup")
	id, err := r.XAdd(background, &redis.XAddArgs{Stream: "{g}st", Values: []string{"a", "1"}}).Result()
	check(err, "xadd")
	read, err := r.XReadGroup(background, &redis.XReadGroupArgs{
		Group: "g", Consumer: "c", Streams: []string{"{g}st", ">"}, Block: time.Second}).Result()
	check(err, "xreadgroup")
	equal(read[0].Messages[0].ID, id, "xreadgroup")
	equal(r.XAck(background, "{g}st", "g", id).Val(), 1, "xack")
}

func subscriptions(r *redis.Client) {
	ears := r.Subscribe(background, "news")
	check(ears.PSubscribe(background, "ne*"), "psubscribe")
	for n := 0; n < 2; n++ {
		_, err := ears.Receive(background)
		check(err, "subscribe")
	}
	check(r.Publish(background, "news", "one").Err(), "publish")
	heard := ears.Channel()
	first, second := <-heard, <-heard
	equal(first.Payload+second.Payload, "oneone", "messages")
	check(ears.Ping(background), "ping")
	check(ears.Unsubscribe(background, "news"), "unsubscribe")
	check(ears.PUnsubscribe(background), "punsubscribe")
	check(ears.Subscribe(background, "other"), "subscribe")
	// A confirmation is not waited for on a channel: it is published until it is heard.
	for {
		check(r.Publish(background, "other", "two").Err(), "publish")
		select {
		case said := <-heard:
			if said.Channel == "other" {
				equal(said.Payload, "two", "a message")
				check(ears.Close(), "close")
				return
			}
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func main() {
	defer cancel()
	port, protocol := os.Args[1], 2
	if os.Args[2] == "3" {
		protocol = 3
	}
	options := redis.Options{
		Addr: os.Getenv("WEIR_REDIS_HOST") + ":" + port, Protocol: protocol, PoolSize: 10,
		Username: os.Getenv("WEIR_REDIS_USER"), Password: os.Getenv("WEIR_REDIS_PASSWORD"),
		PoolTimeout: time.Minute,
	}
	wrong := options
	wrong.Password = "wrong"
	err := redis.NewClient(&wrong).Ping(background).Err()
	equal(err != nil && strings.HasPrefix(err.Error(), "WRONGPASS"), true, "a wrong password")
	r := redis.NewClient(&options)
	check(r.Ping(background).Err(), "ping")
	for _, part := range []func(*redis.Client){
		pooled, pipelined, transactions, scripted, blocking, subscriptions} {
		part(r)
	}
	check(r.Close(), "close")
	fmt.Printf("go-redis RESP%d\n", protocol)
}
