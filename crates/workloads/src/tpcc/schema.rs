//! The nine tables (clause 1.3), and how large they are.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, TimeUnit};
use moirai_tables::{IndexDefinition, PageOptions, Result, Table, TableDefinition, Tables};

/// The tables, in the order in which they are loaded.
pub const TABLES: [&str; 9] = [
    "warehouse",
    "district",
    "customer",
    "history",
    "orders",
    "new_order",
    "order_line",
    "item",
    "stock",
];

/// How large a database is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Warehouses.
    pub warehouses: i64,
    /// Items, and rows of stock for each warehouse; 100,000 in the specification.
    pub items: i64,
    /// Customers of a district, and its orders at first; 3,000 in the specification.
    pub customers: i64,
}

/// Districts of a warehouse.
pub(crate) const DISTRICTS: i64 = 10;

impl Scale {
    /// As the specification has it.
    #[must_use]
    pub fn of(warehouses: i64) -> Scale {
        Scale { warehouses, items: 100_000, customers: 3000 }
    }

    /// Orders of a district that are delivered at first: 2,100 of 3,000.
    pub(crate) fn delivered(&self) -> i64 {
        self.customers * 7 / 10
    }
}

/// A type of a column.
#[derive(Clone, Copy)]
enum Of {
    Int,
    /// Digits, and how many of them come after the point.
    Dec(u8, i8),
    Text,
    Time,
}

impl Of {
    fn data_type(self) -> DataType {
        match self {
            Of::Int => DataType::Int32,
            Of::Dec(digits, scale) => DataType::Decimal128(digits, scale),
            Of::Text => DataType::Utf8View,
            Of::Time => DataType::Timestamp(TimeUnit::Microsecond, None),
        }
    }
}

use Of::{Dec, Int, Text, Time};

const ADDRESS: [(&str, Of); 5] =
    [("street_1", Text), ("street_2", Text), ("city", Text), ("state", Text), ("zip", Text)];

/// The columns of a table with their types, and how many of them are its key. A question mark is behind those that may be null.
fn columns(table: &str) -> (Vec<(String, Of)>, usize) {
    let address = |prefix: &str| ADDRESS.map(|(name, of)| (format!("{prefix}_{name}"), of));
    let named = |columns: &[(&str, Of)]| -> Vec<(String, Of)> {
        columns.iter().map(|(name, of)| ((*name).to_owned(), *of)).collect()
    };
    match table {
        "warehouse" => {
            let mut columns = named(&[("w_id", Int), ("w_name", Text)]);
            columns.extend(address("w"));
            columns.extend(named(&[("w_tax", Dec(4, 4)), ("w_ytd", Dec(12, 2))]));
            (columns, 1)
        }
        "district" => {
            let mut columns = named(&[("d_w_id", Int), ("d_id", Int), ("d_name", Text)]);
            columns.extend(address("d"));
            columns.extend(named(&[
                ("d_tax", Dec(4, 4)),
                ("d_ytd", Dec(12, 2)),
                ("d_next_o_id", Int),
            ]));
            (columns, 2)
        }
        "customer" => {
            let mut columns = named(&[
                ("c_w_id", Int),
                ("c_d_id", Int),
                ("c_id", Int),
                ("c_first", Text),
                ("c_middle", Text),
                ("c_last", Text),
            ]);
            columns.extend(address("c"));
            columns.extend(named(&[
                ("c_phone", Text),
                ("c_since", Time),
                ("c_credit", Text),
                ("c_credit_lim", Dec(12, 2)),
                ("c_discount", Dec(4, 4)),
                ("c_balance", Dec(12, 2)),
                ("c_ytd_payment", Dec(12, 2)),
                ("c_payment_cnt", Int),
                ("c_delivery_cnt", Int),
                ("c_data", Text),
            ]));
            (columns, 3)
        }
        "history" => (
            named(&[
                ("h_c_id", Int),
                ("h_c_d_id", Int),
                ("h_c_w_id", Int),
                ("h_d_id", Int),
                ("h_w_id", Int),
                ("h_date", Time),
                ("h_amount", Dec(6, 2)),
                ("h_data", Text),
            ]),
            0,
        ),
        "orders" => (
            named(&[
                ("o_w_id", Int),
                ("o_d_id", Int),
                ("o_id", Int),
                ("o_c_id", Int),
                ("o_entry_d", Time),
                ("o_carrier_id?", Int),
                ("o_ol_cnt", Int),
                ("o_all_local", Int),
            ]),
            3,
        ),
        "new_order" => (named(&[("no_w_id", Int), ("no_d_id", Int), ("no_o_id", Int)]), 3),
        "order_line" => (
            named(&[
                ("ol_w_id", Int),
                ("ol_d_id", Int),
                ("ol_o_id", Int),
                ("ol_number", Int),
                ("ol_i_id", Int),
                ("ol_supply_w_id", Int),
                ("ol_delivery_d?", Time),
                ("ol_quantity", Int),
                ("ol_amount", Dec(6, 2)),
                ("ol_dist_info", Text),
            ]),
            4,
        ),
        "item" => (
            named(&[
                ("i_id", Int),
                ("i_im_id", Int),
                ("i_name", Text),
                ("i_price", Dec(5, 2)),
                ("i_data", Text),
            ]),
            1,
        ),
        _ => {
            let mut columns = named(&[("s_w_id", Int), ("s_i_id", Int), ("s_quantity", Int)]);
            columns.extend((1..=DISTRICTS).map(|district| (format!("s_dist_{district:02}"), Text)));
            columns.extend(named(&[
                ("s_ytd", Int),
                ("s_order_cnt", Int),
                ("s_remote_cnt", Int),
                ("s_data", Text),
            ]));
            (columns, 2)
        }
    }
}

/// The columns of a table, and how many of the first are its key.
#[must_use]
pub fn column_names(table: &str) -> (Vec<String>, usize) {
    let (columns, key) = columns(table);
    (columns.into_iter().map(|(name, _)| name.trim_end_matches('?').to_owned()).collect(), key)
}

/// What a table is.
pub(crate) fn definition(name: &str, pages: PageOptions) -> Result<TableDefinition> {
    let (columns, key) = columns(name);
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, of)| {
            let plain = name.trim_end_matches('?');
            Field::new(plain, of.data_type(), plain.len() < name.len())
        })
        .collect();
    let key: Vec<&str> = columns.iter().take(key).map(|(name, _)| name.as_str()).collect();
    let mut definition = TableDefinition::new(Arc::new(Schema::new(fields)), &key)?;
    definition.pages = pages;
    Ok(definition)
}

/// The indexes, with the tables that they are of: of customers by their names (clause 1.4 leaves that open), and of their orders.
pub(crate) fn indexes() -> [(&'static str, IndexDefinition); 2] {
    let index = |name: &str, columns: &[usize]| IndexDefinition {
        name: name.to_owned(),
        columns: columns.to_vec(),
        is_unique: false,
    };
    [
        ("customer", index("customer_by_name", &[0, 1, 5, 3])),
        ("orders", index("orders_by_customer", &[0, 1, 3])),
    ]
}

/// The tables of a database, in the order of [`TABLES`].
#[derive(Clone, Debug)]
pub(crate) struct Opened {
    pub(crate) warehouse: Table,
    pub(crate) district: Table,
    pub(crate) customer: Table,
    pub(crate) history: Table,
    pub(crate) orders: Table,
    pub(crate) new_order: Table,
    pub(crate) order_line: Table,
    pub(crate) item: Table,
    pub(crate) stock: Table,
}

/// The tables of a store, and how large the database was made.
///
/// # Errors
/// [`moirai_tables::Error::NoTable`] where one is missing.
pub async fn open(tables: &Arc<Tables>) -> Result<Database> {
    let opened = Opened {
        warehouse: tables.table("warehouse").await?,
        district: tables.table("district").await?,
        customer: tables.table("customer").await?,
        history: tables.table("history").await?,
        orders: tables.table("orders").await?,
        new_order: tables.table("new_order").await?,
        order_line: tables.table("order_line").await?,
        item: tables.table("item").await?,
        stock: tables.table("stock").await?,
    };
    let snapshot = tables.snapshot().await;
    let last = async |table: &Table, prefix: &[u8], column: usize| -> Result<i64> {
        let rows = snapshot.first_rows(table, (prefix, &[]), &[column], usize::MAX).await?;
        let last = rows.last().and_then(|row| row.first()?.number());
        Ok(last.unwrap_or(0) as i64)
    };
    let one = opened.customer.key_of(&[1_i64.into(), 1_i64.into()])?;
    let scale = Scale {
        warehouses: last(&opened.warehouse, &[], 0).await?,
        items: last(&opened.item, &[], 0).await?,
        customers: last(&opened.customer, &one, 2).await?,
    };
    Ok(Database { tables: Arc::clone(tables), opened, scale })
}

/// A loaded database.
#[derive(Clone, Debug)]
pub struct Database {
    pub(crate) tables: Arc<Tables>,
    pub(crate) opened: Opened,
    /// How large it is.
    pub scale: Scale,
}
