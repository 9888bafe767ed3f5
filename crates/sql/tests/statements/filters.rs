//! Filters that scans know of.

use moirai::runtime::{block_on_real, block_on_virtual};
use moirai_sql::Database;
use moirai_tables::Layout;

use crate::{in_layout, run, tables};

/// Numbers in the order of the key, and scattered; texts, and some nulls.
async fn fill(database: &Database, layout: Layout, rows: u64) {
    let columns = "(id INT PRIMARY KEY, near BIGINT, far BIGINT, text TEXT, third INT)";
    let create = match layout {
        Layout::Nsm => in_layout(&format!("CREATE TABLE t {columns}"), layout),
        _ => {
            format!("CREATE TABLE t {columns} WITH (layout = '{}', page_rows = 100)", layout.name())
        }
    };
    assert_eq!(run(database, &create).await, "");
    let insert = format!(
        "INSERT INTO t SELECT value, value / 100, value * 7919 % {rows}, concat('text ', value % 1000), \
         CASE WHEN value % 3 = 0 THEN value END FROM generate_series(1, {rows})"
    );
    assert_eq!(run(database, &insert).await, format!("count {rows}"));
}

/// The figure that `EXPLAIN ANALYZE` shows of the scan of `table`.
fn shown(plan: &str, table: &str, figure: &str) -> u64 {
    let scan = plan.split("MoiraiScan").find(|scan| scan.contains(&format!("table={table},")));
    let scan = scan.unwrap_or_else(|| panic!("no scan of {table}: {plan}"));
    let found = scan.split(&format!("{figure}=")).nth(1).unwrap_or_else(|| panic!("{scan}"));
    let number: String = found.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    let number: f64 = number.parse().unwrap();
    let is_thousands =
        found.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').starts_with(" K");
    (if is_thousands { number * 1000.0 } else { number }) as u64
}

const FILTERS: [&str; 15] = [
    "near = 17",
    "near < 50 OR near > 190",
    "far < 50",
    "far % 2 = 0",
    "far BETWEEN 1000 AND 1020 AND near > 5",
    "third IS NULL AND far < 300",
    "third > 19000",
    "text = 'text 77'",
    "text LIKE '%99' AND third % 2 = 1",
    "id > 10000 AND far < 20",
    "far = -1",
    "far >= 0",
    "near > 100",
    "near < 100",
    "abs(far - 10000) < 5",
];

/// Compares what queries find with an aggregate that looks at all rows; gives the plans of one of them.
async fn check_filters(layout: Layout) -> Vec<String> {
    let tables = tables().await;
    let database = Database::over(&tables);
    fill(&database, layout, 20_000).await;
    let mut plans = Vec::new();
    // Inserted and not yet swept; in pages; pages with changes; pages again.
    for part in 0..4 {
        match part {
            0 => {}
            2 => {
                run(&database, "UPDATE t SET far = far + 3, third = 7 WHERE id % 97 = 5").await;
                run(&database, "DELETE FROM t WHERE near = 50").await;
            }
            _ => tables.store().checkpoint().await.unwrap(),
        }
        plans.push(run(&database, "EXPLAIN ANALYZE SELECT text FROM t WHERE near = 17").await);
        for filter in FILTERS {
            let columns = ["count(*)", "sum(id)", "sum(near)", "sum(third)", "max(text)"];
            let select = |of: &str| {
                let columns = columns.iter().enumerate();
                let columns = columns.map(|(number, column)| format!("{column} {of} AS c{number}"));
                format!("SELECT {} FROM t", columns.collect::<Vec<_>>().join(", "))
            };
            let right = run(&database, &select(&format!("FILTER (WHERE {filter})"))).await;
            let found = run(&database, &format!("{} WHERE {filter}", select(""))).await;
            assert_eq!(found, right, "{layout:?}, {part}, {filter}");
            assert!(right.starts_with("c0,c1,c2,c3,c4 "), "{right}");
        }
    }
    plans
}

#[test]
fn filtered_scans_leave_out_nothing() {
    for layout in Layout::ALL {
        let plans = block_on_virtual(1, check_filters(layout));
        for (part, plan) in plans.iter().enumerate() {
            let is_told = layout != Layout::Nsm;
            assert_eq!(plan.contains("filter="), is_told, "{plan}");
            let passes = is_told && part > 0;
            assert_eq!(
                shown(plan, "t", "passed_pages") > 100,
                passes,
                "{layout:?}, {part}: {plan}"
            );
        }
    }
}

/// In virtual time a scan has one part.
#[test]
fn parts_of_filtered_scans_leave_out_nothing() {
    let plans = block_on_real(1, check_filters(Layout::Csm));
    let has_parts = |plan: &String| plan.contains(", by key");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    assert_eq!(plans.iter().any(has_parts), cores > 1, "{plans:?}");
}

/// A table without a key is changed by the numbers of its rows, which no filter looks at.
#[test]
fn filtered_rows_of_tables_without_a_key_are_changed() {
    block_on_virtual(1, async {
        let tables = tables().await;
        let database = Database::over(&tables);
        let create = "CREATE TABLE t (near BIGINT, far BIGINT, text TEXT) WITH (page_rows = 100)";
        assert_eq!(run(&database, create).await, "");
        let insert = "INSERT INTO t SELECT value / 100, value * 7919 % 40000, 'old' FROM generate_series(1, 40000)";
        assert_eq!(run(&database, insert).await, "count 40000");
        tables.store().checkpoint().await.unwrap();
        for _ in 0..2 {
            let update = "UPDATE t SET text = 'new' WHERE near = 17";
            assert_eq!(run(&database, update).await, "count 100");
            let update = "UPDATE t SET text = 'far' WHERE far = 77";
            assert_eq!(run(&database, update).await, "count 1");
            let changed =
                "SELECT count(*) AS c, min(near) AS a, max(near) AS b FROM t WHERE text = 'new'";
            assert_eq!(run(&database, changed).await, "c,a,b 100,17,17");
            let changed = "SELECT far FROM t WHERE text = 'far'";
            assert_eq!(run(&database, changed).await, "far 77");
            tables.store().checkpoint().await.unwrap();
        }
        assert_eq!(run(&database, "DELETE FROM t WHERE near = 18").await, "count 100");
        assert_eq!(run(&database, "SELECT count(*) AS c FROM t").await, "c 39900");
    });
}

#[test]
fn pages_without_rows_are_passed_over() {
    block_on_virtual(1, async {
        let tables = tables().await;
        let database = Database::over(&tables);
        fill(&database, Layout::Csm, 40_000).await;
        tables.store().checkpoint().await.unwrap();
        let analyze = async |query: &str| run(&database, &format!("EXPLAIN ANALYZE {query}")).await;
        let all = analyze("SELECT sum(id), sum(near), max(text), sum(third) FROM t").await;
        let bytes = shown(&all, "t", "bytes_read");
        // One page in 400.
        let few = analyze("SELECT id, text, third FROM t WHERE far = 77").await;
        assert!(shown(&few, "t", "passed_pages") > 300, "{few}");
        let far = analyze("SELECT sum(far) FROM t").await;
        let far = shown(&far, "t", "bytes_read");
        let read = shown(&few, "t", "bytes_read");
        assert!(read < far + bytes / 4, "{read} of {bytes} and {far}: {few}");
        // Most pages: after some of them, all are read as they are.
        let most = analyze("SELECT id, text, third FROM t WHERE far % 2 = 0").await;
        assert_eq!(shown(&most, "t", "passed_pages"), 0, "{most}");
    });
}
