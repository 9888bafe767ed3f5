//! Moirai: tables in rows or in columns.

use std::sync::Arc;

use moirai::tables::{Isolation, Layout, Tables};
use moirai::units::ByteCount;
use moirai::update::{Kinds, Options};
use moirai::{NewFiles, NewTrees, TreesPlace};
use moirai_workloads::tpcc::{Terminal, load};

use super::ledger::{LEDGER_TABLES, Ledger};
use super::{Arguments, Measured, Setup, measure as measure_with};
use crate::Outcome;

/// A warehouse takes some 80 MB; orders come to it, and extents move.
const WAREHOUSE_MIB: i64 = 256;

pub(super) async fn measure(
    setup: Setup<'_>,
    layout: Layout,
    arguments: &Arguments,
) -> Outcome<Vec<Measured>> {
    let mib = setup.scale.warehouses * WAREHOUSE_MIB + 2048;
    let uri = format!("file:{}?size={mib}MiB", setup.folder.join("store").display());
    let options = Options { memory: ByteCount(setup.memory), ..Options::default() };
    let files = NewFiles::new();
    // As the tool does.
    let new = NewTrees::new(ByteCount(8 << 10), &files);
    let place = TreesPlace { data: &uri, logs: &[] };
    let store = moirai::create_trees(place, new, Kinds::new(), options).await?.store;
    let tables = Tables::over(store);
    let database = Arc::new(load(&tables, setup.scale, tables.page_options(layout), |_| ()).await?);
    let terminal = |number| Terminal::new(&database, number, Isolation::Snapshot);
    let measured = measure_with(setup, arguments, terminal).await?;
    drop(database);
    check(&tables, setup.scale.warehouses).await?;
    tables.close().await?;
    Ok(measured)
}

async fn check(tables: &Arc<Tables>, warehouses: i64) -> Outcome<()> {
    let mut ledger = Ledger::default();
    let snapshot = tables.snapshot().await;
    for (name, columns) in LEDGER_TABLES {
        let table = tables.table(name).await?;
        // One warehouse after the other, where rows have it first: they are held in memory.
        let prefixes = match name {
            "history" => vec![Vec::new()],
            _ => {
                (1..=warehouses).map(|one| table.key_of(&[one.into()])).collect::<Result<_, _>>()?
            }
        };
        for prefix in prefixes {
            let rows = snapshot.first_rows(&table, (&prefix, &[]), columns, usize::MAX).await?;
            rows.iter().for_each(|row| ledger.take(name, row));
        }
    }
    ledger.check()
}
