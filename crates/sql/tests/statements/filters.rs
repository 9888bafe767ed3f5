//! Filters that scans know of.

use moirai::runtime::block_on_virtual;
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

/// Rows that a scan leaves out are those that the query does not want: an aggregate that looks at all rows says the same.
#[test]
fn filtered_scans_leave_out_nothing() {
    let filters = [
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
    for layout in Layout::ALL {
        block_on_virtual(1, async {
            let tables = tables().await;
            let database = Database::over(&tables);
            fill(&database, layout, 20_000).await;
            for part in 0..3 {
                match part {
                    0 => {}
                    1 => {
                        run(&database, "UPDATE t SET far = far + 3, third = 7 WHERE id % 97 = 5")
                            .await;
                        run(&database, "DELETE FROM t WHERE near = 50").await;
                    }
                    _ => tables.store().checkpoint().await.unwrap(),
                }
                for filter in filters {
                    let columns = ["count(*)", "sum(id)", "sum(near)", "sum(third)", "max(text)"];
                    let select = |of: &str| {
                        let columns = columns.iter().enumerate();
                        let columns =
                            columns.map(|(number, column)| format!("{column} {of} AS c{number}"));
                        format!("SELECT {} FROM t", columns.collect::<Vec<_>>().join(", "))
                    };
                    let right = select(&format!("FILTER (WHERE {filter})"));
                    let right = run(&database, &right).await;
                    let found = run(&database, &format!("{} WHERE {filter}", select(""))).await;
                    assert_eq!(found, right, "{layout:?}, {part}, {filter}");
                    assert!(right.starts_with("c0,c1,c2,c3,c4 "), "{right}");
                }
            }
        });
    }
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
