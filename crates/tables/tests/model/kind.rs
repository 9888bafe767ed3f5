//! Random tables, and changes of their rows.

use std::collections::BTreeMap;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Field, Schema};
use moirai_runtime::Random;
use moirai_tables::{Changes, Index, IndexDefinition, Layout, PageOptions, Table, TableDefinition};
use moirai_units::ByteCount;
use rand::Rng;

use crate::values::{Value, any_type, any_value, array_of, wrapped};

pub(crate) type Key = Vec<Value>;
pub(crate) type Row = Vec<Option<Value>>;
pub(crate) type Model = BTreeMap<Key, Row>;

/// A table's columns, and what its rows may be.
pub(crate) struct Kind {
    pub(crate) definition: TableDefinition,
    others: Vec<usize>,
}

impl Kind {
    pub(crate) fn any(random: &mut Random) -> Kind {
        let count = random.random_range(1..7);
        let fields: Vec<Field> = (0..count)
            .map(|column| {
                Field::new(format!("c{column}"), any_type(random), random.random_bool(0.8))
            })
            .collect();
        let is_key = |field: &&Field| *field.data_type() != DataType::Float64;
        let mut key: Vec<&str> =
            fields.iter().filter(is_key).map(|field| &**field.name()).collect();
        for at in (1..key.len()).rev() {
            key.swap(at, random.random_range(0..=at));
        }
        key.truncate(random.random_range(0..=3));
        let mut definition = TableDefinition::new(Schema::new(fields.clone()), &key).unwrap();
        let layout = Layout::ALL[random.random_range(0..3)];
        definition.pages = PageOptions {
            layout,
            rows_max: [3, 8, 30, 200][random.random_range(0..4)],
            // Rows of nsm are long values where they have more than a quarter of a page.
            page_bytes: match layout {
                Layout::Nsm => ByteCount([4 << 10, 8 << 10][random.random_range(0..2)]),
                _ => ByteCount([8 << 10, 32 << 10][random.random_range(0..2)]),
            },
            group_pages: random.random_range(1..9),
            staging_percent: [0, 50, 200][random.random_range(0..3)],
        };
        let others = (0..count).filter(|column| !definition.key().contains(column)).collect();
        let mut kind = Kind { definition, others };
        for _ in 0..random.random_range(0..3) {
            if let Some(index) = kind.any_index(random) {
                kind.definition = kind.definition.with_index(index).unwrap();
            }
        }
        kind
    }

    /// An index of some columns, where there are any for one.
    pub(crate) fn any_index(&self, random: &mut Random) -> Option<IndexDefinition> {
        let of_index = |column: &usize| *self.field(*column).data_type() != DataType::Float64;
        let mut columns: Vec<usize> = self.all().into_iter().filter(of_index).collect();
        for at in (1..columns.len()).rev() {
            columns.swap(at, random.random_range(0..=at));
        }
        // Long texts in three columns are too long for a key.
        columns.truncate(random.random_range(1..=2));
        let name = format!("i{}", random.random_range(0..u64::MAX));
        (!columns.is_empty()).then_some(IndexDefinition { name, columns, is_unique: false })
    }

    /// The values of columns of a row.
    pub(crate) fn values(&self, columns: &[usize], key: &Key, row: &Row) -> Row {
        let value =
            |column: &usize| match self.definition.key().iter().position(|one| one == column) {
                Some(part) => Some(key[part].clone()),
                None => row[self.others.iter().position(|one| one == column).unwrap()].clone(),
            };
        columns.iter().map(value).collect()
    }

    /// Rows as an index has them, nulls behind the others.
    pub(crate) fn in_order_of<'m>(
        &self,
        index: &IndexDefinition,
        model: &'m Model,
    ) -> Vec<(&'m Key, &'m Row)> {
        let mut rows: Vec<_> = model.iter().collect();
        rows.sort_by_cached_key(|(key, row)| {
            let values = self.values(&index.columns, key, row);
            values.into_iter().map(|value| (value.is_none(), value)).collect::<Vec<_>>()
        });
        rows
    }

    /// Deletes entries of rows as they are in the model, as who has read them does.
    fn forget(
        &self,
        changes: &mut Changes,
        (table, index): (&Table, &Index),
        keys: &[Key],
        model: &Model,
    ) {
        let known = keys.iter().filter_map(|key| Some((key, model.get(key)?)));
        let rows = self.batch(&index.source_columns(), known);
        changes.forget(table, index, rows.columns()).unwrap();
    }

    pub(crate) fn has_key(&self) -> bool {
        !self.definition.key().is_empty()
    }

    pub(crate) fn field(&self, column: usize) -> &Field {
        self.definition.schema().field(column)
    }

    pub(crate) fn any_key(&self, random: &mut Random) -> Key {
        let key = self.definition.key().iter();
        key.map(|column| any_value(random, self.field(*column).data_type(), true)).collect()
    }

    fn any_of(&self, random: &mut Random, column: usize) -> Option<Value> {
        let field = self.field(column);
        let is_null = field.is_nullable() && random.random_bool(0.2);
        (!is_null).then(|| any_value(random, field.data_type(), false))
    }

    /// A row of the others than the key's columns.
    pub(crate) fn any_row(&self, random: &mut Random) -> Row {
        self.others.iter().map(|column| self.any_of(random, *column)).collect()
    }

    /// Columns of rows.
    pub(crate) fn batch<'a>(
        &self,
        columns: &[usize],
        rows: impl Iterator<Item = (&'a Key, &'a Row)>,
    ) -> RecordBatch {
        let rows: Vec<(&Key, &Row)> = rows.collect();
        let schema = self.definition.schema().project(columns).unwrap();
        let arrays = columns.iter().map(|column| {
            let value = |(key, row): &(&Key, &Row)| self.values(&[*column], key, row).remove(0);
            let values: Vec<Option<Value>> = rows.iter().map(value).collect();
            array_of(self.field(*column).data_type(), &values)
        });
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        RecordBatch::try_new_with_options(schema.into(), arrays.collect(), &options).unwrap()
    }

    pub(crate) fn all(&self) -> Vec<usize> {
        (0..self.definition.schema().fields().len()).collect()
    }

    pub(crate) fn keys(&self, keys: &[&Key]) -> Vec<ArrayRef> {
        let key = self.definition.key().iter().enumerate();
        key.map(|(part, column)| {
            let values: Vec<_> = keys.iter().map(|key| Some(key[part].clone())).collect();
            array_of(self.field(*column).data_type(), &values)
        })
        .collect()
    }

    /// Changes of some rows, also in the model.
    pub(crate) fn change(&self, random: &mut Random, table: &Table, model: &mut Model) -> Changes {
        let mut changes = Changes::new();
        for _ in 0..random.random_range(1..6) {
            let count = random.random_range(1..20);
            let keys: Vec<Key> = (0..count).map(|_| self.any_key(random)).collect();
            let refs: Vec<&Key> = keys.iter().collect();
            let forgets = random.random_bool(0.5);
            match random.random_range(0..10) {
                0..5 => {
                    for index in table.indexes().iter().filter(|_| forgets) {
                        self.forget(&mut changes, (table, index), &keys, model);
                    }
                    let rows: Vec<Row> = keys.iter().map(|_| self.any_row(random)).collect();
                    let batch = self.batch(&self.all(), keys.iter().zip(&rows));
                    changes.put(table, &batch).unwrap();
                    model.extend(keys.into_iter().zip(rows));
                }
                // All rows of a range.
                5 if random.random_bool(0.3) => {
                    let (from, to) = (self.any_key(random), self.any_key(random));
                    let gone = model.keys().filter(|key| **key >= from && **key < to);
                    let gone: Vec<Key> = gone.cloned().collect();
                    let refs: Vec<&Key> = gone.iter().collect();
                    changes.delete(table, &self.keys(&refs)).unwrap();
                    gone.iter().for_each(|key| drop(model.remove(key)));
                }
                5 | 6 => {
                    for index in table.indexes().iter().filter(|_| forgets) {
                        self.forget(&mut changes, (table, index), &keys, model);
                    }
                    changes.delete(table, &self.keys(&refs)).unwrap();
                    keys.iter().for_each(|key| drop(model.remove(key)));
                }
                kind => {
                    let is_number = |at: &usize| {
                        let data_type = self.field(self.others[*at]).data_type();
                        // Sums of others wrap around as their bits do.
                        matches!(data_type, DataType::Int32 | DataType::UInt8 | DataType::Int64)
                    };
                    let mut some: Vec<usize> = (0..self.others.len())
                        .filter(|at| random.random_bool(0.4) && (kind < 9 || is_number(at)))
                        .collect();
                    // What is set of a record has a quarter of a leaf at most.
                    if self.definition.pages.layout == Layout::Nsm {
                        some.truncate(4);
                    }
                    // Nothing is added to columns of an index.
                    if kind == 9 {
                        some.retain(|at| {
                            let column = self.others[*at];
                            !table.indexes().iter().any(|index| index.has_any([column].into_iter()))
                        });
                    }
                    // What is known of rows beside: the other columns of indexes.
                    let mut known: Vec<usize> = table
                        .indexes()
                        .iter()
                        .filter(|index| index.has_any(some.iter().map(|at| self.others[*at])))
                        .flat_map(|index| index.definition().columns.clone())
                        .filter(|column| !some.iter().any(|at| self.others[*at] == *column))
                        .filter(|column| self.others.contains(column))
                        .collect();
                    known.sort_unstable();
                    known.dedup();
                    let known: Vec<(usize, ArrayRef)> = known
                        .into_iter()
                        .map(|column| {
                            let mut value = |key: &Key| match model.get(key) {
                                Some(row) => self.values(&[column], key, row).remove(0),
                                // There is no such row: any value will do.
                                None => self.any_of(random, column),
                            };
                            let values: Vec<_> = keys.iter().map(&mut value).collect();
                            (column, array_of(self.field(column).data_type(), &values))
                        })
                        .collect();
                    some.sort_unstable();
                    some.reverse();
                    let touched = table.indexes().iter().filter(|index| {
                        forgets && index.has_any(some.iter().map(|at| self.others[*at]))
                    });
                    for index in touched {
                        self.forget(&mut changes, (table, index), &keys, model);
                    }
                    let values: Vec<Vec<Option<Value>>> = some
                        .iter()
                        .map(|at| {
                            keys.iter().map(|_| self.any_of(random, self.others[*at])).collect()
                        })
                        .collect();
                    let arrays: Vec<(usize, ArrayRef)> = some
                        .iter()
                        .zip(&values)
                        .map(|(at, values)| {
                            let column = self.others[*at];
                            (column, array_of(self.field(column).data_type(), values))
                        })
                        .collect();
                    match kind {
                        9 => changes.add(table, &self.keys(&refs), &arrays).unwrap(),
                        _ => changes.set(table, &self.keys(&refs), &arrays, &known).unwrap(),
                    }
                    for (index, key) in keys.iter().enumerate() {
                        let Some(row) = model.get_mut(key) else { continue };
                        for (at, values) in some.iter().zip(&values) {
                            let data_type = self.field(self.others[*at]).data_type();
                            row[*at] = match (kind, row[*at].take(), values[index].clone()) {
                                (9, Some(Value::Number(one)), Some(Value::Number(other))) => {
                                    Some(Value::Number(wrapped(data_type, one + other)))
                                }
                                // Nothing is added.
                                (9, one, _) => one,
                                (_, _, other) => other,
                            };
                        }
                    }
                }
            }
        }
        changes
    }
}
