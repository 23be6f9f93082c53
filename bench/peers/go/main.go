// Pairs of acquire and release, and handoffs of one contended lock, by the locks that Go programs use: redsync on Redis, and the Mutex
// of etcd's own client.
//
// Usage: peers redsync HOST:PORT | peers etcd HOST:PORT[,HOST:PORT…]
//
// Each line "pairs TASKS MILLIS" or "handoffs WAITERS MILLIS" on standard input is answered with one line: how many there were, and
// the 50th and 99th percentile and the mean of one in µs. It ends with its input.
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis9 "github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// A lock of one task.
type lock interface {
	acquire(ctx context.Context) error
	release(ctx context.Context) error
}

// What makes a task's lock on a key. Tasks that contend are as different to it as processes are.
type locks interface {
	of(task int, key string) (lock, error)
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: peers redsync|etcd HOST:PORT")
	}
	peer, err := open(os.Args[1], os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		var what string
		var tasks, millis int
		if _, err := fmt.Sscan(input.Text(), &what, &tasks, &millis); err != nil {
			log.Fatalf("%q: %v", input.Text(), err)
		}
		measure := map[string]func(locks, int, time.Duration) ([]time.Duration, error){"pairs": pairs, "handoffs": handoffs}[what]
		if measure == nil {
			log.Fatalf("%q is neither pairs nor handoffs", what)
		}
		all, err := measure(peer, tasks, time.Duration(millis)*time.Millisecond)
		if err != nil {
			log.Fatal(err)
		}
		slices.Sort(all)
		fmt.Println(len(all), percentile(all, 50), percentile(all, 99), mean(all))
	}
}

func open(peer, address string) (locks, error) {
	switch peer {
	case "redsync":
		client := goredis9.NewClient(&goredis9.Options{Addr: address, PoolSize: 64})
		return redsyncLocks{redsync.New(goredis.NewPool(client))}, client.Ping(context.Background()).Err()
	case "etcd":
		client, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(address, ","), DialTimeout: 5 * time.Second})
		return &etcdLocks{client: client, sessions: map[int]*concurrency.Session{}}, err
	}
	return nil, fmt.Errorf("%q is neither redsync nor etcd", peer)
}

type redsyncLocks struct{ all *redsync.Redsync }

func (locks redsyncLocks) of(_ int, key string) (lock, error) {
	// It polls, at random times 50 to 250 ms apart, unless told otherwise; without a limit here, as the others have none.
	return redsyncLock{locks.all.NewMutex("peer/"+key, redsync.WithTries(1_000_000))}, nil
}

type redsyncLock struct{ *redsync.Mutex }

func (lock redsyncLock) acquire(ctx context.Context) error { return lock.LockContext(ctx) }

func (lock redsyncLock) release(ctx context.Context) error {
	_, err := lock.UnlockContext(ctx)
	return err
}

// A task has a session, as a process has.
type etcdLocks struct {
	client   *clientv3.Client
	mutex    sync.Mutex
	sessions map[int]*concurrency.Session
}

func (locks *etcdLocks) of(task int, key string) (lock, error) {
	locks.mutex.Lock()
	defer locks.mutex.Unlock()
	session := locks.sessions[task]
	if session == nil {
		var err error
		if session, err = concurrency.NewSession(locks.client, concurrency.WithTTL(10)); err != nil {
			return nil, err
		}
		locks.sessions[task] = session
	}
	return etcdLock{concurrency.NewMutex(session, "peer/"+key)}, nil
}

type etcdLock struct{ *concurrency.Mutex }

func (lock etcdLock) acquire(ctx context.Context) error { return lock.Lock(ctx) }

func (lock etcdLock) release(ctx context.Context) error { return lock.Unlock(ctx) }

// Each task has a key of its own.
func pairs(peer locks, tasks int, span time.Duration) ([]time.Duration, error) {
	return together(tasks, func(task int) ([]time.Duration, error) {
		lock, err := peer.of(task, fmt.Sprintf("task/%d", task))
		if err != nil {
			return nil, err
		}
		ctx, all := context.Background(), []time.Duration(nil)
		for end := time.Now().Add(span); time.Now().Before(end); {
			began := time.Now()
			if err := lock.acquire(ctx); err != nil {
				return nil, err
			}
			if err := lock.release(ctx); err != nil {
				return nil, err
			}
			all = append(all, time.Since(began))
		}
		return all, nil
	})
}

// All want one key. A handoff is from the call of one's release to the next one's having it; whoever has released waits until somebody
// else has it. It is held for 2 ms.
func handoffs(peer locks, waiters int, span time.Duration) ([]time.Duration, error) {
	var mutex sync.Mutex
	taken := sync.NewCond(&mutex)
	holder, released, end := -1, time.Time{}, time.Now().Add(span)
	return together(waiters, func(task int) ([]time.Duration, error) {
		lock, err := peer.of(task, "contended")
		if err != nil {
			return nil, err
		}
		ctx, all := context.Background(), []time.Duration(nil)
		for time.Now().Before(end) {
			if err := lock.acquire(ctx); err != nil {
				return nil, err
			}
			now := time.Now()
			mutex.Lock()
			if !released.IsZero() && now.Before(end) {
				all = append(all, now.Sub(released))
			}
			holder = task
			mutex.Unlock()
			taken.Broadcast()
			time.Sleep(2 * time.Millisecond)
			mutex.Lock()
			released = time.Now()
			mutex.Unlock()
			if err := lock.release(ctx); err != nil {
				return nil, err
			}
			mutex.Lock()
			for holder == task && time.Now().Before(end) {
				taken.Wait()
			}
			mutex.Unlock()
			taken.Broadcast()
		}
		return all, nil
	})
}

func together(tasks int, run func(task int) ([]time.Duration, error)) ([]time.Duration, error) {
	type result struct {
		all []time.Duration
		err error
	}
	results := make(chan result)
	for task := range tasks {
		go func() {
			all, err := run(task)
			results <- result{all, err}
		}()
	}
	var all []time.Duration
	var failed error
	for range tasks {
		result := <-results
		all = append(all, result.all...)
		if result.err != nil {
			failed = result.err
		}
	}
	return all, failed
}

func mean(all []time.Duration) int64 {
	var sum time.Duration
	for _, one := range all {
		sum += one
	}
	return sum.Microseconds() / int64(max(len(all), 1))
}

func percentile(sorted []time.Duration, percent int) int64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)-1)*percent/100].Microseconds()
}
