package sqlite

import (
	"context"
	"database/sql"
)

// transaction is the connection that writes: it is in one transaction after the other.
type transaction struct {
	conn     *sql.Conn
	prepared map[string]*sql.Stmt
	durable  bool
	live     map[string]int // how many of an owner's tasks have not ended, as far as this transaction has counted them
	bytes    int64          // written by all transactions so far, of output and results: about what the state has grown by
	told     int64          // what bytes was when the sweeper was called last

	mostPages int // of the database: the limit of the state
	pages     int // when the transaction began

	wal        string // the write-ahead log
	longestWAL int64  // bytes
}

// begin starts a transaction. One that is durable is on the disk when it is committed, and all before it are;
// one that is not survives the end of the process, but not a loss of power.
func (tx *transaction) begin(durable bool) (err error) {
	if err := tx.boundWAL(); err != nil {
		return err
	}
	if durable != tx.durable {
		mode := "NORMAL"
		if durable {
			mode = "FULL"
		}
		if _, err := tx.exec("PRAGMA synchronous = " + mode); err != nil {
			return err
		}
		tx.durable = durable
	}
	tx.live = map[string]int{}
	if _, err := tx.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	tx.pages, err = tx.count("PRAGMA page_count")
	return err
}

// commit ends a transaction, unless it has made the state larger than its limit. Not SQLite checks this (max_page_count): it would
// report that as it reports a full disk, where nothing is won by deleting tasks.
func (tx *transaction) commit() error {
	pages, err := tx.count("PRAGMA page_count")
	if err == nil && pages > tx.mostPages && pages > tx.pages {
		err = errFull
	}
	if err == nil {
		_, err = tx.exec("COMMIT")
	}
	return err
}

func (tx *transaction) exec(query string, args ...any) (sql.Result, error) {
	s, err := tx.prepare(query)
	if err != nil {
		return nil, err
	}
	return s.ExecContext(context.Background(), args...)
}

// change is exec that tells how many rows it has changed.
func (tx *transaction) change(query string, args ...any) (int64, error) {
	r, err := tx.exec(query, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

func (tx *transaction) query(query string, args ...any) (*sql.Rows, error) {
	s, err := tx.prepare(query)
	if err != nil {
		return nil, err
	}
	return s.QueryContext(context.Background(), args...)
}

// count is the number that a query returns.
func (tx *transaction) count(query string, args ...any) (n int, err error) {
	err = tx.one(&n, query, args...)
	return n, err
}

// one reads the one value that a query returns, or fails with sql.ErrNoRows.
func (tx *transaction) one(value any, query string, args ...any) error {
	s, err := tx.prepare(query)
	if err != nil {
		return err
	}
	return s.QueryRowContext(context.Background(), args...).Scan(value)
}

// numbers are the numbers that a query returns.
func (tx *transaction) numbers(query string, args ...any) (list []int64, err error) {
	rows, err := tx.query(query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var n int64
		if err := rows.Scan(&n); err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, rows.Err()
}

// prepare keeps what it prepares: the queries are few, and the same again and again.
func (tx *transaction) prepare(query string) (*sql.Stmt, error) {
	s := tx.prepared[query]
	if s == nil {
		var err error
		if s, err = tx.conn.PrepareContext(context.Background(), query); err != nil {
			return nil, err
		}
		tx.prepared[query] = s
	}
	return s, nil
}

func (tx *transaction) close() {
	for _, s := range tx.prepared {
		_ = s.Close()
	}
	_ = tx.conn.Close()
}
