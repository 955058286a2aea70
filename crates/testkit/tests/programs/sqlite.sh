# SQLite with a rollback journal and with a write-ahead log: many rows, two processes, and a check of the file.
rows="WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
      INSERT INTO t(value, text) SELECT i, hex(randomblob(20)) FROM n;"
for mode in DELETE TRUNCATE PERSIST WAL; do
    db=$mode.db
    test "$(sqlite3 $db "PRAGMA journal_mode=$mode;" | tr a-z A-Z)" = $mode
    sqlite3 $db "CREATE TABLE t(id INTEGER PRIMARY KEY, value INTEGER, text TEXT);"
    sqlite3 $db "$rows"
    # Each insert a transaction of its own, from two processes at once.
    insert() {
        for number in $(seq 40); do
            echo "PRAGMA busy_timeout=60000;"
            for one in 1 2 3 4 5; do echo "INSERT INTO t(value, text) VALUES ($number, '$1');"; done
        done | sqlite3 $db > /dev/null
    }
    insert first &
    insert second
    wait $!
    test "$(sqlite3 $db 'SELECT count(*) FROM t;')" = 20400
    test "$(sqlite3 $db 'SELECT sum(value) FROM t WHERE id <= 20000;')" = 200010000
    sqlite3 $db "CREATE INDEX by_text ON t(text); BEGIN; DELETE FROM t WHERE id % 2; ROLLBACK;"
    test "$(sqlite3 $db 'PRAGMA integrity_check;')" = ok
    sqlite3 $db "DELETE FROM t WHERE id % 3; VACUUM;"
    test "$(sqlite3 $db 'PRAGMA integrity_check;')" = ok
done
sqlite3 WAL.db ".backup copy.db"
test "$(sqlite3 copy.db 'SELECT count(*) FROM t;')" = "$(sqlite3 WAL.db 'SELECT count(*) FROM t;')"
# One connection that inserts 20,000 rows in as many statements: the log grows under a shared memory map.
{
    echo "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; CREATE TABLE t(v); BEGIN;"
    for number in $(seq 20000); do echo "INSERT INTO t VALUES($number);"; done
    echo "COMMIT; PRAGMA integrity_check;"
} | sqlite3 long.db | tail -1 | grep -qx ok
