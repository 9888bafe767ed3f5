"""DuckDB's part of the TPC-H benchmark.

    tpch.py FOLDER: makes FOLDER/tpch.duckdb of the Parquet files in FOLDER, and prints its bytes. Then each line of standard input
    is `anew` or `again`, and the path of a file with a query: the file is opened anew or not, and the milliseconds of both are printed.
    `close -` closes it, and prints 0.
"""

import os
import sys
import time

import duckdb

folder = sys.argv[1]
path = os.path.join(folder, "tpch.duckdb")


def connect():
    connection = duckdb.connect(path, config={"threads": len(os.sched_getaffinity(0))})
    # It would be among the figures.
    connection.execute("SET enable_progress_bar = false")
    return connection


with connect() as connection:
    for file in sorted(os.listdir(folder)):
        table, kind = os.path.splitext(file)
        if kind == ".parquet":
            connection.execute(f"CREATE TABLE {table} AS SELECT * FROM '{folder}/{file}'")
    connection.execute("CHECKPOINT")
print(os.path.getsize(path), flush=True)
open_connection = None
for line in sys.stdin:
    word, query = line.split()
    if word in ("anew", "close") and open_connection is not None:
        open_connection.close()
        open_connection = None
    if word == "close":
        print(0, flush=True)
        continue
    statement = open(query).read()
    began = time.perf_counter()
    if open_connection is None:
        open_connection = connect()
    open_connection.execute(statement).fetchall()
    print((time.perf_counter() - began) * 1000, flush=True)
