//! Rows that come from files and queries in large numbers, and files that are made of them.

use moirai::runtime::block_on_virtual;
use moirai_sql::Database;

use crate::{check, run, tables};

#[test]
fn files_are_copied_into_tables_and_out_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let csv = path("in.csv");
    std::fs::write(&csv, "code,id,price\n007,1,0.50\n\"a \"\"q\"\", b\",2,\n").unwrap();
    block_on_virtual(1, async {
        let database = Database::over(&tables().await);
        let create = "CREATE TABLE t (id INT PRIMARY KEY, code TEXT, price DECIMAL(8, 2), at TIME DEFAULT '12:00:00')";
        assert_eq!(run(&database, create).await, "");
        let from = format!("COPY t FROM '{csv}'");
        assert_eq!(run(&database, &from).await, "count 2");
        let all = "id,code,price,at 1,007,0.50,12:00:00 2,\"a \"\"q\"\", b\",,12:00:00";
        assert_eq!(run(&database, "SELECT * FROM t").await, all);
        assert_eq!(run(&database, &from).await, "error: `t` has a row with id=1 already");
        for (out, options) in [
            ("out.csv", ""),
            ("out.parquet", ""),
            ("semi.txt", " WITH (FORMAT csv, DELIMITER ';', NULL 'NA')"),
        ] {
            let out = path(out);
            let to = format!("COPY t TO '{out}'{options}");
            assert_eq!(run(&database, &to).await, "count 2", "{to}");
            assert!(run(&database, &to).await.contains("exists"), "{to}");
            assert_eq!(run(&database, "TRUNCATE t").await, "");
            assert_eq!(run(&database, &format!("COPY t FROM '{out}'{options}")).await, "count 2");
            assert_eq!(run(&database, "SELECT * FROM t").await, all, "{to}");
        }
        let text = std::fs::read_to_string(path("semi.txt")).unwrap();
        assert_eq!(
            text,
            "id;code;price;at\n1;007;0.50;12:00:00\n2;\"a \"\"q\"\", b\";NA;12:00:00\n"
        );
        let some = path("some.csv");
        let to = format!("COPY (SELECT id FROM t WHERE price > 0) TO '{some}' WITH (HEADER false)");
        assert_eq!(run(&database, &to).await, "count 1");
        assert_eq!(std::fs::read_to_string(&some).unwrap(), "1\n");
        // Nothing is left of what fails, in the table and of a file.
        std::fs::write(&some, "id,code\n5,x\ny,z\n").unwrap();
        let error = run(&database, &format!("COPY t FROM '{some}'")).await;
        assert!(error.contains("line 3") && error.contains("id"), "{error}");
        std::fs::write(&some, "id,nothing\n5,x\n").unwrap();
        let error = run(&database, &format!("COPY t FROM '{some}'")).await;
        assert_eq!(error, "error: `t` has no column `nothing`; it has id, code, price, at");
        assert_eq!(run(&database, "SELECT count(*) AS n FROM t").await, "n 2");
        let out = path("none.csv");
        let failing = format!("COPY (SELECT CAST(code AS INT) FROM t) TO '{out}'");
        assert!(run(&database, &failing).await.starts_with("error"));
        assert!(!std::path::Path::new(&out).exists());
        let names = std::fs::read_dir(folder.path()).unwrap();
        assert!(names.flatten().all(|name| !name.file_name().to_str().unwrap().starts_with('.')));
        let error = run(&database, &format!("COPY t TO '{}'", path("t.json"))).await;
        assert!(error.contains("FORMAT csv"), "{error}");
        std::fs::write(&some, "id;code\n5;x\n").unwrap();
        let error = run(&database, &format!("COPY t FROM '{some}'")).await;
        assert!(error.contains("DELIMITER ';'"), "{error}");
        let error = run(&database, "COPY t FROM STDIN").await;
        assert!(error.contains("name one"), "{error}");
    });
}

/// Rows that come into an empty table in large numbers are loaded, all or none.
#[test]
fn many_rows_are_loaded() {
    check(&[
        ("CREATE TABLE t (id BIGINT PRIMARY KEY, v INT)", ""),
        ("CREATE INDEX by_v ON t (v)", ""),
        ("INSERT INTO t SELECT value, 5 FROM generate_series(1, 10)", "count 10"),
        ("DELETE FROM t", "count 10"),
        (
            "INSERT INTO t SELECT value % 100000, 1 FROM generate_series(1, 200000)",
            "error: table `t`: 100000 rows have keys that others have, too; sorted by the key they would be named",
        ),
        ("SELECT count(*) AS n FROM t", "n 0"),
        ("INSERT INTO t SELECT value, value % 7 FROM generate_series(1, 200000)", "count 200000"),
        ("SELECT count(*) AS n, sum(id) AS s FROM t WHERE v = 3", "n,s 28572,2857242858"),
        ("UPDATE t SET v = 100 WHERE id = 77", "count 1"),
        ("SELECT id FROM t WHERE v = 100", "id 77"),
        ("INSERT INTO t SELECT value, 1 FROM generate_series(200001, 300000)", "count 100000"),
        ("SELECT count(*) AS n FROM t", "n 300000"),
    ]);
}

#[test]
fn what_is_copied_out_is_the_same_when_it_is_copied_in() {
    let folder = tempfile::tempdir().unwrap();
    block_on_virtual(1, async {
        let database = Database::over(&tables().await);
        for (name, columns, rows) in [
            (
                "t",
                "id INT PRIMARY KEY, a TEXT, b BYTEA",
                "(1, '', x'00ff'), (2, NULL, NULL), (3, 'NA', x''), (4, 'a\nb', x'61')",
            ),
            ("u", "a TEXT NOT NULL", "(''), ('x'), ('\"')"),
        ] {
            let file = folder.path().join(format!("{name}.csv"));
            let file = file.to_str().unwrap();
            for options in ["", " WITH (NULL 'NA')", " WITH (HEADER false, DELIMITER '|')"] {
                for copy in [name.to_owned(), format!("{name}_copy")] {
                    run(&database, &format!("DROP TABLE IF EXISTS {copy}")).await;
                    assert_eq!(
                        run(&database, &format!("CREATE TABLE {copy} ({columns})")).await,
                        ""
                    );
                }
                let inserted = run(&database, &format!("INSERT INTO {name} VALUES {rows}")).await;
                assert!(inserted.starts_with("count"), "{inserted}");
                let out = run(&database, &format!("COPY {name} TO '{file}'{options}")).await;
                assert!(out.starts_with("count"), "{out}");
                let back = format!("COPY {name}_copy FROM '{file}'{options}");
                assert_eq!(run(&database, &back).await, out, "{back}");
                let select = |of: &str| format!("SELECT * FROM {of}");
                let [one, other] = [
                    run(&database, &select(name)).await,
                    run(&database, &select(&format!("{name}_copy"))).await,
                ];
                assert_eq!(one, other, "{back}");
                std::fs::remove_file(file).unwrap();
            }
        }
        let lone = folder.path().join("lone.csv");
        let lone = lone.to_str().unwrap();
        let error = run(&database, &format!("COPY (SELECT a FROM t) TO '{lone}'")).await;
        assert!(error.contains("NULL 'NA'"), "{error}");
        assert!(!std::path::Path::new(lone).exists());
        let commented = format!("-- out\nCOPY(SELECT a FROM u) TO '{lone}'");
        assert_eq!(run(&database, &commented).await, "count 3");
        let twice = run(&database, &format!("COPY u (a, a) FROM '{lone}'")).await;
        assert!(twice.contains("named twice"), "{twice}");
    });
}
