//! The tables of TPC-H: names, schemas and how many rows they have.

use std::fmt;

use arrow_schema::SchemaRef;
use tpchgen::generators::{
    CustomerGenerator, OrderGenerator, PartGenerator, PartSuppGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow,
    SupplierArrow,
};

use super::Batches;

/// The smallest scale factor that data is generated for.
///
/// The specification begins at 1; smaller factors are for tests. With fewer than 229 suppliers, that
/// is below 0.0229, its rule for spreading them over the parts (clause 4.2.3, `PS_SUPPKEY`) can give
/// a part the same supplier twice, and `partsupp` repeats a key: it does at 0.001, not at 0.01.
pub const SCALE_FACTOR_MIN: f64 = 0.001;

const REGION_ROWS: u64 = 5;
const NATION_ROWS: u64 = 25;

/// Suppliers of each part (clause 4.2.3, `PARTSUPP`).
const SUPPLIERS_PER_PART: u64 = 4;

/// Line items of an order, on average: their number is drawn evenly from 1 to 7 (clause 4.2.3).
const LINE_ITEMS_PER_ORDER_MEAN: u64 = 4;

/// Whether a part has a supplier twice (clause 4.2.3, `PS_SUPPKEY`): supplier `i` of part `p` is, of `s` suppliers, the one behind
/// `p + i (s / 4 + (p - 1) / s)`, modulo `s`.
fn parts_repeat_suppliers(scale_factor: f64) -> bool {
    let suppliers = Table::Supplier.expected_rows(scale_factor).max(1);
    let steps = Table::Part.expected_rows(scale_factor).saturating_sub(1) / suppliers;
    let repeats = |step: u64| {
        (1..SUPPLIERS_PER_PART)
            .any(|times| (times * (suppliers / 4 + step)).is_multiple_of(suppliers))
    };
    (0..=steps).any(repeats)
}

/// A table of TPC-H (clause 1.4), in an order in which every foreign key points backwards.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Table {
    /// The five regions.
    Region,
    /// The 25 nations.
    Nation,
    /// Suppliers: 10,000 times the scale factor.
    Supplier,
    /// Customers: 150,000 times the scale factor.
    Customer,
    /// Parts: 200,000 times the scale factor.
    Part,
    /// Which supplier has which part: four rows for each part.
    PartSupp,
    /// Orders: 1,500,000 times the scale factor.
    Orders,
    /// The items of the orders: one to seven rows for each order.
    LineItem,
}

impl Table {
    /// Every table, in ascending order.
    pub const ALL: [Table; 8] = [
        Table::Region,
        Table::Nation,
        Table::Supplier,
        Table::Customer,
        Table::Part,
        Table::PartSupp,
        Table::Orders,
        Table::LineItem,
    ];

    /// The name that the queries use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Table::Region => "region",
            Table::Nation => "nation",
            Table::Supplier => "supplier",
            Table::Customer => "customer",
            Table::Part => "part",
            Table::PartSupp => "partsupp",
            Table::Orders => "orders",
            Table::LineItem => "lineitem",
        }
    }

    /// The primary key, as the specification has it (TPC-H 1.4.2); none where rows repeat it, which those of `partsupp` do at some
    /// small scale factors: see [`SCALE_FACTOR_MIN`].
    #[must_use]
    pub fn primary_key(self, scale_factor: f64) -> &'static [&'static str] {
        match self {
            Table::PartSupp if parts_repeat_suppliers(scale_factor) => &[],
            Table::Region => &["r_regionkey"],
            Table::Nation => &["n_nationkey"],
            Table::Supplier => &["s_suppkey"],
            Table::Customer => &["c_custkey"],
            Table::Part => &["p_partkey"],
            Table::PartSupp => &["ps_partkey", "ps_suppkey"],
            Table::Orders => &["o_orderkey"],
            Table::LineItem => &["l_orderkey", "l_linenumber"],
        }
    }

    /// The schema of the batches: no column is nullable, keys are `Int64`, text is `Utf8View`.
    #[must_use]
    pub fn schema(self) -> SchemaRef {
        match self {
            Table::Region => RegionArrow::schema_ref(),
            Table::Nation => NationArrow::schema_ref(),
            Table::Supplier => SupplierArrow::schema_ref(),
            Table::Customer => CustomerArrow::schema_ref(),
            Table::Part => PartArrow::schema_ref(),
            Table::PartSupp => PartSuppArrow::schema_ref(),
            Table::Orders => OrderArrow::schema_ref(),
            Table::LineItem => LineItemArrow::schema_ref(),
        }
    }

    /// The rows of the table in key order, `batch_rows` at a time; the last batch may be shorter.
    ///
    /// Rows are made while the iterator is read, so memory holds one batch, and beside it the pool
    /// of text that all comments are cut from: 300 MiB for the whole process, filled by the first
    /// call for any table.
    ///
    /// # Panics
    ///
    /// If `scale_factor` is not finite or lies below [`SCALE_FACTOR_MIN`], or `batch_rows` is zero.
    #[must_use]
    pub fn batches(self, scale_factor: f64, batch_rows: usize) -> Batches {
        assert!(
            scale_factor.is_finite() && scale_factor >= SCALE_FACTOR_MIN,
            "scale factor {scale_factor} is not a number from {SCALE_FACTOR_MIN} up"
        );
        assert!(batch_rows > 0, "a batch must have room for a row");
        Batches::new(self, scale_factor, batch_rows)
    }

    /// The exact number of rows, where it follows from the scale factor.
    ///
    /// That of `lineitem` does not: it is known once the last order has been made.
    #[must_use]
    pub fn rows(self, scale_factor: f64) -> Option<u64> {
        // The generators' own arithmetic, because it truncates. It counts one part of one.
        let count = |rows: fn(f64, i32, i32) -> i64| rows(scale_factor, 1, 1).unsigned_abs();
        match self {
            Table::Region => Some(REGION_ROWS),
            Table::Nation => Some(NATION_ROWS),
            Table::Supplier => Some(count(SupplierGenerator::calculate_row_count)),
            Table::Customer => Some(count(CustomerGenerator::calculate_row_count)),
            Table::Part => Some(count(PartGenerator::calculate_row_count)),
            // Here the generator counts parts, not its rows.
            Table::PartSupp => {
                Some(count(PartSuppGenerator::calculate_row_count) * SUPPLIERS_PER_PART)
            }
            Table::Orders => Some(count(OrderGenerator::calculate_row_count)),
            Table::LineItem => None,
        }
    }

    /// The number of rows to expect: exact where [`rows`](Self::rows) is, and for `lineitem` the
    /// mean, which is 0.3 % off at scale factor 0.01 and 0.02 % at 1.
    #[must_use]
    pub fn expected_rows(self, scale_factor: f64) -> u64 {
        self.rows(scale_factor).unwrap_or_else(|| {
            Table::Orders.expected_rows(scale_factor) * LINE_ITEMS_PER_ORDER_MEAN
        })
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_every_table_in_order() {
        assert!(Table::ALL.is_sorted());
        assert_eq!(Table::ALL.last(), Some(&Table::LineItem));
        assert_eq!(Table::ALL.len(), Table::LineItem as usize + 1);
    }

    #[test]
    fn rows_of_scale_factor_1_are_those_of_the_specification() {
        // Clause 4.2.5, table 3.
        let check = |table: Table, expected: Option<u64>| {
            assert_eq!(table.rows(1.0), expected, "{table}");
        };
        check(Table::Region, Some(5));
        check(Table::Nation, Some(25));
        check(Table::Supplier, Some(10_000));
        check(Table::Customer, Some(150_000));
        check(Table::Part, Some(200_000));
        check(Table::PartSupp, Some(800_000));
        check(Table::Orders, Some(1_500_000));
        check(Table::LineItem, None);
        assert_eq!(Table::LineItem.expected_rows(1.0), 6_000_000);
    }

    #[test]
    fn columns_are_named_after_their_table_and_never_null() {
        for table in Table::ALL {
            let schema = table.schema();
            let prefixes: std::collections::BTreeSet<_> = schema
                .fields()
                .iter()
                .map(|field| field.name().split('_').next().unwrap().to_owned())
                .collect();
            assert_eq!(prefixes.len(), 1, "{table}: {prefixes:?}");
            assert!(schema.fields().iter().all(|field| !field.is_nullable()), "{table}");
        }
    }

    #[test]
    #[should_panic(expected = "scale factor 0.0001 is not")]
    fn a_scale_factor_below_the_smallest_is_refused() {
        let _ = Table::Region.batches(0.0001, 1);
    }

    #[test]
    #[should_panic(expected = "scale factor NaN is not")]
    fn a_scale_factor_that_is_no_number_is_refused() {
        let _ = Table::Region.batches(f64::NAN, 1);
    }

    #[test]
    #[should_panic(expected = "room for a row")]
    fn batches_of_no_rows_are_refused() {
        let _ = Table::Region.batches(1.0, 0);
    }
}
