package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func code(err error) string {
	var said *pgconn.PgError
	if errors.As(err, &said) {
		return said.Code
	}
	return fmt.Sprint(err)
}

func expect(want string, err error) {
	if code(err) != want {
		panic(fmt.Sprintf("%s where %s was expected", code(err), want))
	}
}

func dsn(user, password string) string {
	return fmt.Sprintf("host=%s port=%s dbname=%s user=%s password='%s' sslmode=require",
		os.Getenv("WEIR_PG_HOST"), os.Getenv("WEIR_PG_PORT"), os.Getenv("WEIR_PG_DATABASE"),
		user, strings.ReplaceAll(password, "'", `\'`))
}

func main() {
	ctx := context.Background()
	user, password := os.Getenv("WEIR_PG_USER"), os.Getenv("WEIR_PG_PASSWORD")
	_, err := pgx.Connect(ctx, dsn(user, "wrong"))
	expect("28P01", err)
	_, err = pgx.Connect(ctx, dsn("nobody", password))
	expect("28P01", err)

	pool, err := pgxpool.New(ctx, dsn(user, password))
	check(err)
	defer pool.Close()
	_, err = pool.Exec(ctx, "DROP TABLE IF EXISTS pgx_client")
	check(err)
	_, err = pool.Exec(ctx, "CREATE TABLE pgx_client (n int PRIMARY KEY, t text)")
	check(err)
	var all sync.WaitGroup
	for n := 0; n < 100; n++ {
		all.Add(1)
		go func(n int) {
			defer all.Done()
			_, err := pool.Exec(ctx, "INSERT INTO pgx_client VALUES ($1, $2)", n, fmt.Sprint("ü", n))
			check(err)
			var text string
			check(pool.QueryRow(ctx, "SELECT t FROM pgx_client WHERE n = $1", n).Scan(&text))
			if text != fmt.Sprint("ü", n) {
				panic(text)
			}
		}(n)
	}
	all.Wait()
	_, err = pool.Exec(ctx, "INSERT INTO pgx_client VALUES ($1, $2)", 1, "again")
	expect("23505", err)

	transaction, err := pool.Begin(ctx)
	check(err)
	_, err = transaction.Exec(ctx, "DELETE FROM pgx_client")
	check(err)
	_, err = transaction.Exec(ctx, "SELECT 1 / 0")
	expect("22012", err)
	check(transaction.Rollback(ctx))

	batch := &pgx.Batch{}
	for n := 0; n < 100; n++ {
		batch.Queue("SELECT $1::int + 1", n)
	}
	results := pool.SendBatch(ctx, batch)
	for n := 0; n < 100; n++ {
		var found int
		check(results.QueryRow().Scan(&found))
		if found != n+1 {
			panic(found)
		}
	}
	check(results.Close())

	rows := [][]any{}
	for n := 1000; n < 2000; n++ {
		rows = append(rows, []any{n, "copied"})
	}
	copied, err := pool.CopyFrom(ctx, pgx.Identifier{"pgx_client"}, []string{"n", "t"},
		pgx.CopyFromRows(rows))
	check(err)
	if copied != 1000 {
		panic(copied)
	}
	_, err = pool.Exec(ctx, "DROP TABLE pgx_client")
	check(err)
}
