//! The rows of one table as an iterator of record batches.

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator,
    PartSuppGenerator, RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow,
    SupplierArrow,
};

use super::Table;

/// The rows of one table, made while they are read. [`Table::batches`] starts one.
///
/// Every batch has the schema of the table. An item is an error only if Arrow refuses to build a
/// batch from the generated columns.
pub struct Batches(Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>);

impl Batches {
    pub(super) fn new(table: Table, scale_factor: f64, batch_rows: usize) -> Batches {
        // The eight generators have types and functions alike, but no trait in common.
        macro_rules! batches {
            ($arrow:ident, $generator:ident) => {
                // The table in one piece: part 1 of 1.
                Box::new(
                    $arrow::new($generator::new(scale_factor, 1, 1)).with_batch_size(batch_rows),
                )
            };
        }
        Batches(match table {
            Table::Region => batches!(RegionArrow, RegionGenerator),
            Table::Nation => batches!(NationArrow, NationGenerator),
            Table::Supplier => batches!(SupplierArrow, SupplierGenerator),
            Table::Customer => batches!(CustomerArrow, CustomerGenerator),
            Table::Part => batches!(PartArrow, PartGenerator),
            Table::PartSupp => batches!(PartSuppArrow, PartSuppGenerator),
            Table::Orders => batches!(OrderArrow, OrderGenerator),
            Table::LineItem => batches!(LineItemArrow, LineItemGenerator),
        })
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;

    use super::*;

    fn batches(table: Table, scale_factor: f64, batch_rows: usize) -> Vec<RecordBatch> {
        table.batches(scale_factor, batch_rows).collect::<Result<_, _>>().unwrap()
    }

    fn row_count(batches: &[RecordBatch]) -> u64 {
        batches.iter().map(|batch| batch.num_rows() as u64).sum()
    }

    #[test]
    fn row_counts_at_scale_factor_0_01() {
        let check = |table: Table, expected_rows: u64| {
            let rows = row_count(&batches(table, 0.01, 8192));
            assert_eq!(rows, expected_rows, "{table}");
            assert!(table.rows(0.01).is_none_or(|exact| exact == rows), "{table}");
            assert!(table.expected_rows(0.01).abs_diff(rows) * 100 < rows, "{table}");
        };
        check(Table::Region, 5);
        check(Table::Nation, 25);
        check(Table::Supplier, 100);
        check(Table::Customer, 1500);
        check(Table::Part, 2000);
        check(Table::PartSupp, 8000);
        check(Table::Orders, 15000);
        check(Table::LineItem, 60175);
    }

    #[test]
    fn the_smallest_scale_factor_has_every_row_it_should() {
        for table in Table::ALL {
            let rows = row_count(&batches(table, 0.001, 8192));
            assert!(rows > 0, "{table}");
            assert!(table.rows(0.001).is_none_or(|exact| exact == rows), "{table}");
        }
    }

    #[test]
    fn every_batch_has_the_schema_of_the_table() {
        for table in Table::ALL {
            for batch in batches(table, 0.001, 1000) {
                assert_eq!(batch.schema(), table.schema(), "{table}");
            }
        }
    }

    #[test]
    fn two_generations_are_equal() {
        for table in Table::ALL {
            assert_eq!(batches(table, 0.001, 500), batches(table, 0.001, 500), "{table}");
        }
    }

    #[test]
    fn every_batch_but_the_last_is_full_and_no_row_depends_on_their_size() {
        const BATCH_ROWS: usize = 7;
        for table in Table::ALL {
            let whole = batches(table, 0.001, usize::MAX);
            assert_eq!(whole.len(), 1, "{table}");
            let mut start_row = 0;
            for batch in batches(table, 0.001, BATCH_ROWS) {
                let rows = BATCH_ROWS.min(whole[0].num_rows() - start_row);
                assert_eq!(batch, whole[0].slice(start_row, rows), "{table} from {start_row}");
                start_row += rows;
            }
            assert_eq!(start_row, whole[0].num_rows(), "{table}");
        }
    }

    #[test]
    fn keys_of_partsupp_repeat_only_where_suppliers_are_too_few() {
        let repeats = |scale_factor: f64| {
            let mut keys = BTreeSet::new();
            let mut row_count = 0;
            for batch in batches(Table::PartSupp, scale_factor, 8192) {
                let parts = batch["ps_partkey"].as_primitive::<Int64Type>();
                let suppliers = batch["ps_suppkey"].as_primitive::<Int64Type>();
                keys.extend(parts.values().iter().copied().zip(suppliers.values().iter().copied()));
                row_count += batch.num_rows();
            }
            keys.len() < row_count
        };
        assert!(repeats(0.001));
        assert!(!repeats(0.01));
        assert!(repeats(0.0228));
        assert!(!repeats(0.0229));
        for scale_factor in [0.001, 0.002, 0.003, 0.005, 0.01, 0.015, 0.02, 0.0228, 0.0229, 0.05] {
            let has_key = !Table::PartSupp.primary_key(scale_factor).is_empty();
            assert_eq!(has_key, !repeats(scale_factor), "{scale_factor}");
        }
    }

    #[test]
    fn batches_may_move_to_another_thread() {
        fn check<T: Send + 'static>(_: T) {}
        check(Table::LineItem.batches(0.001, 1));
    }
}
