//! Integers that overflow are errors, and answers keep their types.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::sync::Arc;

use moirai_runtime::block_on_virtual;
use moirai_sql::arrow::array::{Array, Int32Array, Int64Array, RecordBatch, UInt32Array};
use moirai_sql::arrow::datatypes::{DataType, Field, Schema};
use moirai_sql::arrow::util::display::array_value_to_string;
use moirai_sql::{Database, memory_database};

fn database() -> Database {
    let fields = vec![
        Field::new("big", DataType::Int64, true),
        Field::new("small", DataType::Int32, true),
        Field::new("whole", DataType::UInt32, true),
    ];
    let schema = Arc::new(Schema::new(fields));
    let big: Vec<i64> = (0..5000).map(|number| (1 << 53) + number).collect();
    let small: Vec<i32> = (0..5000).map(|number| i32::MAX - number).collect();
    let whole: Vec<u32> = (0..5000).map(|number| u32::MAX - number).collect();
    let columns: Vec<Arc<dyn Array>> = vec![
        Arc::new(Int64Array::from(big)),
        Arc::new(Int32Array::from(small)),
        Arc::new(UInt32Array::from(whole)),
    ];
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
    memory_database([("t".to_owned(), schema, vec![batch])]).unwrap()
}

/// The first value of an answer, and its type.
async fn first(statement: &str) -> Result<(String, DataType), String> {
    let answer = database().query(statement).await;
    let (schema, batches) = answer.map_err(|error| error.to_string())?;
    let column = batches.iter().find(|batch| batch.num_rows() > 0).unwrap().column(0);
    Ok((array_value_to_string(column, 0).unwrap(), schema.field(0).data_type().clone()))
}

#[test]
fn what_fits_is_as_it_was() {
    block_on_virtual(1, async {
        let max = i64::MAX.to_string();
        for (statement, value, data_type) in [
            ("select 9223372036854775806 + 1", max.as_str(), DataType::Int64),
            ("select 3 * 5 - 20", "-5", DataType::Int64),
            ("select sum(big - 9007199254740992) from t", "12497500", DataType::Int64),
            ("select sum(small) from t", "10737405737500", DataType::Int64),
            (
                "select sum(distinct big - 9007199254740992) as s from t",
                "12497500",
                DataType::Int64,
            ),
            (
                "select max(big) + 1 from t where small + 1 < 100 or big > 0",
                "9007199254745992",
                DataType::Int64,
            ),
            (
                "select sum(big - 9007199254740992) over (order by big) as s from t order by s desc",
                "12497500",
                DataType::Int64,
            ),
            // A comparison needs no cast back, and so it is right.
            ("select count(*) from t where big * big > 0", "5000", DataType::Int64),
            ("select count(*) from t where whole * whole > 0", "5000", DataType::Int64),
            ("select -small from t order by 1", "-2147483647", DataType::Int32),
            (
                "select sum(distinct small) over (order by big rows between 1 preceding and current row) as s \
                 from t order by s limit 1",
                "2147483647",
                DataType::Int64,
            ),
            ("select small - 1 from t order by 1 desc", "2147483646", DataType::Int64),
            (
                "select sum(case when big > 0 then 1 else 0 end) from t group by small % 1",
                "5000",
                DataType::Int64,
            ),
            (
                "select sum(big) / cast(0.5 as double) from t where big = 9007199254740992",
                "1.8014398509481984e16",
                DataType::Float64,
            ),
        ] {
            let found =
                first(statement).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
            let (found, found_type) = found;
            assert_eq!(found.trim_end_matches(".0"), value, "{statement}");
            assert_eq!(found_type, data_type, "{statement}");
        }
    });
}

#[test]
fn what_does_not_fit_is_an_error() {
    block_on_virtual(1, async {
        for statement in [
            "select 9223372036854775807 + 1 as x",
            "select -9223372036854775807 - 2 as x",
            "select sum(big) from t",
            "select sum(big) over () as s from t",
            "select big * big from t",
            "select small + small from t",
            "select whole * whole from t",
            "select -(big * 0 - 9223372036854775807 - 1) from t",
            "select big from t order by big * big",
        ] {
            match first(statement).await {
                Ok(found) => panic!("{statement}: {found:?}"),
                Err(error) => {
                    assert!(error.contains("decimal(38, 0)"), "{statement}: {error}");
                }
            }
        }
        let (sum, _) = first("select sum(cast(big as decimal(38, 0))) from t").await.unwrap();
        assert_eq!(sum, "45035996273717457500");
    });
}
