//! Joins that compare each row with each: their inputs are cut, and no row is lost or comes twice.

use moirai_runtime::block_on_virtual;
use moirai_sql::arrow::array::AsArray;
use moirai_sql::arrow::datatypes::Int64Type;
use moirai_sql::memory_database;

/// Of 2,500 and 7,000 rows, the first nine and the last nine have 45 pairs; they are in different slices of both inputs.
#[test]
fn nested_loops_of_all_kinds_have_all_rows() {
    let a = "generate_series(1, 2500) a";
    let b = "generate_series(1, 7000) b";
    let far = "b.value - a.value > 6990";
    let expected = [
        (format!("{a} JOIN {b} ON {far}"), 45),
        (format!("{a} LEFT JOIN {b} ON {far}"), 45 + 2491),
        (format!("{a} RIGHT JOIN {b} ON {far}"), 45 + 6991),
        (format!("{a} FULL JOIN {b} ON {far}"), 45 + 2491 + 6991),
        (format!("{a} LEFT SEMI JOIN {b} ON {far}"), 9),
        (format!("{a} LEFT ANTI JOIN {b} ON {far}"), 2491),
        (format!("{a} RIGHT SEMI JOIN {b} ON {far}"), 9),
        (format!("{a} WHERE EXISTS (SELECT 1 FROM {b} WHERE {far}) OR a.value = 2500"), 10),
    ];
    block_on_virtual(1, async {
        let database = memory_database([]).unwrap();
        for (join, expected) in expected {
            let (_, plan) =
                database.query(&format!("EXPLAIN SELECT count(*) FROM {join}")).await.unwrap();
            let plan = format!("{plan:?}");
            assert!(
                plan.contains("NestedLoopJoinExec") && plan.contains("PacedExec"),
                "{join}: {plan}"
            );
            let (_, counted) =
                database.query(&format!("SELECT count(*) FROM {join}")).await.unwrap();
            let counted = counted.first().unwrap().column(0).as_primitive::<Int64Type>().value(0);
            assert_eq!(counted, expected, "{join}");
        }
    });
}
