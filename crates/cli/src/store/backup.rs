//! `moirai store backup` and `moirai store restore`: all trees and tables of a store, copied to a new store on another device.

use std::sync::Arc;

use futures::future::{Either, select};
use moirai::btree::Store;
use moirai::runtime::Interrupts;
use moirai::storage::DeviceUri;
use moirai::tables::{Copied, Tables};
use moirai::units::ByteCount;
use moirai::update::LogWriter;
use moirai::{NewFiles, NewTrees, TreesPlace};
use serde::Serialize;

use super::Place;
use crate::failure::Failure;
use crate::{kv, print, progress};

/// A new file has room for so many times what its source has in use, and for this; what is not used takes no space.
const ROOM: u64 = 2;
const ROOM_MORE: ByteCount = ByteCount(64 << 20);

/// Where copies go.
#[derive(clap::Args)]
pub(crate) struct Target {
    /// Create the store on a device that holds something else, which is lost
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Summary {
    tables: u64,
    rows: u64,
    trees: u64,
    records: u64,
    bytes: u64,
}

/// Copies all tables and trees of `source`, which is at `from`, to a new store at `to`.
pub(super) async fn copy(
    (source, from): (&Arc<Tables>, &str),
    to: &Place,
    target: &Target,
) -> Result<(), Failure> {
    let files = NewFiles::new();
    let done = copy_to((source, from), to, target, &files).await;
    if done.is_err() {
        files.remove();
    }
    let Copied { tables, rows, trees } = done?;
    let moirai::btree::Copied { trees, records, bytes } = trees;
    if target.json {
        return print::json(&Summary { tables, rows, trees, records, bytes });
    }
    let mut parts = Vec::new();
    if tables > 0 {
        parts.push(format!("{}, {}", print::counted(tables, "table"), print::counted(rows, "row")));
    }
    if trees > 0 {
        let trees = print::counted(trees, "tree");
        parts.push(format!("{trees}, {}, {}", print::counted(records, "record"), ByteCount(bytes)));
    }
    print::line(parts.join("; "))
}

async fn copy_to(
    (source, from): (&Arc<Tables>, &str),
    to: &Place,
    target: &Target,
    files: &NewFiles,
) -> Result<Copied, Failure> {
    if source.store().trees().await?.is_empty() && source.names().await?.is_empty() {
        return Err(Failure::Failed(format!(
            "{from} has no trees and no tables: nothing is copied; a copy that was interrupted has none"
        )));
    }
    let uri = with_size(source.store(), &to.store)?;
    let place = TreesPlace { data: &uri, logs: &to.log };
    let new = NewTrees {
        leaf: source.store().leaf_bytes(),
        log: None,
        writer: LogWriter::Append,
        files,
        overwrite: target.force,
    };
    let options = to.options();
    let created = moirai::create_trees(place, new, kv::kinds()?, options).await?;
    if !created.is_new {
        return Err(Failure::Failed(format!(
            "{} holds a store: name a blank device, or remove the file first",
            to.store
        )));
    }
    for (device, occupant) in &created.overwritten {
        print::note_of_loss(device, occupant);
    }
    let interrupts = Interrupts::listen()?;
    let bar = progress::clock("copying");
    let snapshot = source.snapshot().await;
    let created = Tables::over(created.store);
    let told = |copied: &Copied| {
        let Copied { rows, trees, .. } = copied;
        bar.set_message(format!("copying: {rows} rows, {} records", trees.records));
    };
    let copied = {
        let copying = std::pin::pin!(snapshot.copy_to(&created, told));
        let pressed = std::pin::pin!(interrupts.pressed());
        match select(copying, pressed).await {
            Either::Left((copied, _)) => Some(copied),
            Either::Right(_) => None,
        }
    };
    bar.finish_and_clear();
    let Some(copied) = copied else {
        return Err(Failure::Interrupted(format!(
            "interrupted: nothing is copied to {}",
            to.store
        )));
    };
    let copied = copied?;
    created.close().await?;
    Ok(copied)
}

/// The URI of a file that does not exist yet, with a size that the copy fits in.
fn with_size(source: &Store, to: &str) -> Result<String, Failure> {
    let uri: DeviceUri = to.parse()?;
    let is_new = uri.paths().first().is_some_and(|path| !path.exists());
    if !to.starts_with("file:") || !is_new || to.contains("size=") {
        return Ok(to.to_owned());
    }
    let figures = source.figures();
    let used = figures.data_bytes.saturating_sub(figures.data_free_bytes);
    let mib = (ROOM * used + ROOM_MORE.0).div_ceil(1 << 20);
    let separator = if to.contains('?') { '&' } else { '?' };
    Ok(format!("{to}{separator}size={mib}MiB"))
}
