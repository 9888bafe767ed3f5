"""The part of other databases in the benchmark of rows that are updated by primary key.

    rows.py FOLDER WARM SECONDS MEMORY: for each database loads FOLDER/lineitem.parquet, sets two attributes of random rows for WARM
    seconds and then for SECONDS, with prepared statements, in commits of 1000 that are flushed, and prints `begin` and
    `end<TAB>NAME<TAB>UPDATES<TAB>SECONDS` around the latter, or why a database is left out. After each line it waits for one.
    MEMORY is the bytes of SQLite's and PostgreSQL's cache; DuckDB takes what it takes, as its indexes are in memory.
"""

import os
import random
import shutil
import sqlite3
import subprocess
import sys
import time

folder, warm_s, span_s, memory = sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
rows = os.path.join(folder, "lineitem.parquet")
GROUP = 1000
KEY = "l_orderkey, l_linenumber"
UPDATE = "UPDATE lineitem SET l_quantity = {0}, l_discount = {0} WHERE l_orderkey = {0} AND l_linenumber = {0}"


def say(line):
    print(line, flush=True)
    sys.stdin.readline()


def measure(name, keys, commit):
    def commits(seconds):
        began, count = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            of = [keys[random.randrange(len(keys))] for _ in range(GROUP)]
            commit([(random.randint(1, 50), random.randint(0, 10) / 100, order, line) for order, line in of])
            count += GROUP
        return count, time.perf_counter() - began

    commits(warm_s)
    say("begin")
    count, seconds = commits(span_s)
    say(f"end\t{name}\t{count}\t{seconds}")


def commit_to(connection):
    def commit(values):
        connection.execute("BEGIN")
        connection.executemany(UPDATE.format("?"), values)
        connection.execute("COMMIT")

    return commit


def sqlite(duck, keys):
    connection = sqlite3.connect(os.path.join(folder, "sqlite"), isolation_level=None)
    connection.execute("PRAGMA journal_mode = wal")
    connection.execute("PRAGMA synchronous = full")
    # A log of 256 MiB, so that not each commit copies it into the table.
    connection.execute("PRAGMA wal_autocheckpoint = 65536")
    connection.execute(f"PRAGMA cache_size = {-memory // 1024}")
    source = duck.execute(
        f"""SELECT * REPLACE (l_quantity::DOUBLE AS l_quantity, l_extendedprice::DOUBLE AS l_extendedprice,
        l_discount::DOUBLE AS l_discount, l_tax::DOUBLE AS l_tax, l_shipdate::VARCHAR AS l_shipdate,
        l_commitdate::VARCHAR AS l_commitdate, l_receiptdate::VARCHAR AS l_receiptdate) FROM '{rows}'"""
    )
    columns = [column[0] for column in source.description]
    connection.execute(f"CREATE TABLE lineitem ({', '.join(columns)}, PRIMARY KEY ({KEY})) WITHOUT ROWID")
    connection.execute("BEGIN")
    insert = f"INSERT INTO lineitem VALUES ({', '.join('?' for _ in columns)})"
    while batch := source.fetchmany(100_000):
        connection.executemany(insert, batch)
    connection.execute("COMMIT")

    measure(f"SQLite {sqlite3.sqlite_version}", keys, commit_to(connection))
    connection.close()


def duckdb_rows(duck, keys):
    connection = duckdb.connect(os.path.join(folder, "duckdb"))
    connection.execute("SET enable_progress_bar = false")
    columns = duck.execute(f"DESCRIBE SELECT * FROM '{rows}'").fetchall()
    columns = ", ".join(f"{column[0]} {column[1]}" for column in columns)
    connection.execute(f"CREATE TABLE lineitem ({columns}, PRIMARY KEY ({KEY}))")
    connection.execute(f"INSERT INTO lineitem SELECT * FROM '{rows}'")
    connection.execute("CHECKPOINT")

    measure(f"DuckDB {duckdb.__version__}", keys, commit_to(connection))
    connection.close()


def postgresql(duck, keys):
    import psycopg

    binaries = "/usr/lib/postgresql/15/bin"
    data, sockets = os.path.join(folder, "postgresql"), os.path.join(folder, "sockets")
    # The server refuses to run as root.
    is_root = os.geteuid() == 0
    for path in (data, sockets):
        os.mkdir(path)
        if is_root:
            shutil.chown(path, "postgres")
    os.chmod(folder, 0o755)
    before = ["runuser", "-u", "postgres", "--"] if is_root else []

    def run(*arguments):
        subprocess.run([*before, *arguments], check=True, stdout=subprocess.DEVNULL, cwd="/")

    run(f"{binaries}/initdb", "-D", data, "--username", "postgres", "--auth", "trust")
    settings = {
        "listen_addresses": "",
        "unix_socket_directories": sockets,
        "shared_buffers": f"{memory // 1024}kB",
        "max_wal_size": "4GB",
    }
    with open(os.path.join(data, "postgresql.conf"), "a") as file:
        file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
    control = [f"{binaries}/pg_ctl", "-D", data, "-l", os.path.join(data, "log"), "-w"]
    run(*control, "start")
    try:
        columns = duck.execute(f"DESCRIBE SELECT * FROM '{rows}'").fetchall()
        with psycopg.connect(f"host={sockets} user=postgres dbname=postgres", autocommit=True) as connection:
            connection.execute(f"CREATE TABLE lineitem ({', '.join(f'{column[0]} {column[1]}' for column in columns)})")
            text = os.path.join(folder, "lineitem.csv")
            duck.execute(f"COPY (SELECT * FROM '{rows}') TO '{text}' (HEADER false)")
            with connection.cursor().copy("COPY lineitem FROM STDIN (FORMAT csv)") as copy, open(text, "rb") as file:
                shutil.copyfileobj(file, copy, 1 << 20)
            os.remove(text)
            connection.execute(f"ALTER TABLE lineitem ADD PRIMARY KEY ({KEY})")
            connection.execute("VACUUM ANALYZE lineitem")
            connection.execute("CHECKPOINT")
            cursor = connection.cursor()

            def commit(values):
                with connection.transaction():
                    # Prepared, and sent without waiting for the answer of each.
                    cursor.executemany(UPDATE.format("%s"), values)

            measure(f"PostgreSQL {connection.info.server_version // 10000}", keys, commit)
    finally:
        run(*control, "-m", "immediate", "stop")


try:
    import duckdb
except ImportError as error:
    say(f"no other database: {error}")
    sys.exit()
duck = duckdb.connect()
duck.execute("SET enable_progress_bar = false")
keys = duck.execute(f"SELECT {KEY} FROM '{rows}'").fetchall()
for database in (sqlite, duckdb_rows, postgresql):
    try:
        database(duck, keys)
    except Exception as error:
        say(f"{database.__name__} is left out: {error}".replace("\n", " "))
