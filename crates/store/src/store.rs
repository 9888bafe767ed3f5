//! A store: the tables on one device.
//!
//! Invariants:
//! 1. The device always holds the superblock of one whole catalog, and every block that catalog
//!    names holds what was written to it: nothing that a valid superblock names is overwritten.
//! 2. A table is in the catalog when its load was flushed, and not before.
//! 3. After a failed commit nothing more is written: which catalog counts is known at the next open.

use std::sync::Arc;

use arrow_schema::Schema;
use moirai_storage::{Device, IoBuf};
use moirai_units::{BlockCount, BlockRange, Lbn};
use parking_lot::Mutex;

use crate::blob;
use crate::catalog::{CATALOG_VERSION, Catalog, PageLayout, TableEntry};
use crate::load::{Load, LoadOptions};
use crate::schema::attributes_of;
use crate::space::Space;
use crate::superblock::{Found, RUNS_MAX, SUPERBLOCK_VERSION, Superblock};
use crate::table::Table;
use crate::{Error, Result};

/// The tables on one device.
#[derive(Debug)]
pub struct Store {
    device: Arc<dyn Device>,
    /// What readers see.
    tables: Mutex<Vec<TableEntry>>,
    /// What the one writer works on.
    writer: Arc<tokio::sync::Mutex<WriterState>>,
}

/// The catalog and the free space, as far as they are committed.
#[derive(Debug)]
pub(crate) struct WriterState {
    pub(crate) catalog: Catalog,
    pub(crate) space: Space,
    /// The superblock that counts; `None` on a blank device.
    superblock: Option<Superblock>,
    /// Set when a commit failed.
    failed: bool,
}

/// Where the superblocks are: the first two volume blocks.
fn superblock_places(device: &dyn Device) -> [Lbn; 2] {
    [Lbn(0), Lbn(device.inquiry().volume_block.0)]
}

impl Store {
    /// Opens the store on `device`. On a blank device ([`moirai_storage::occupant`]) the store has no tables, and nothing
    /// is written before the first load.
    ///
    /// # Errors
    /// [`Error::NotAStore`] where the device holds something else.
    pub async fn open(device: Arc<dyn Device>) -> Result<Arc<Store>> {
        Store::open_as(device, false).await
    }

    /// The same on a device whose ends were cleared: what else it holds may be lost.
    pub async fn open_cleared(device: Arc<dyn Device>) -> Result<Arc<Store>> {
        Store::open_as(device, true).await
    }

    async fn open_as(device: Arc<dyn Device>, is_cleared: bool) -> Result<Arc<Store>> {
        let inquiry = device.inquiry();
        let reserved = BlockCount(2 * inquiry.volume_block.0);
        let need = BlockCount(reserved.0 + 2 * crate::heap::UNIT.0);
        if inquiry.capacity < need {
            if inquiry.keeps_data
                && !is_cleared
                && let Some(occupant) = moirai_storage::occupant(&*device).await?
            {
                return Err(Error::NotAStore { device: inquiry.name.clone(), occupant });
            }
            return Err(moirai_storage::Error::TooSmall {
                device: inquiry.name.clone(),
                have: inquiry.capacity.bytes(),
                need: need.bytes(),
            }
            .into());
        }
        let superblock = match inquiry.keeps_data {
            true => newest_superblock(&*device).await?,
            false => None,
        };
        if superblock.is_none()
            && inquiry.keeps_data
            && !is_cleared
            && let Some(occupant) = moirai_storage::occupant(&*device).await?
        {
            return Err(Error::NotAStore { device: inquiry.name.clone(), occupant });
        }
        let catalog = match &superblock {
            None => Catalog::default(),
            Some(superblock) => read_catalog(&*device, superblock).await?,
        };
        let mut space = Space::new(Arc::clone(&device), reserved)?;
        occupy(&device, &mut space, &catalog, superblock.as_ref())?;
        Ok(Arc::new(Store {
            tables: Mutex::new(catalog.tables.clone()),
            writer: Arc::new(tokio::sync::Mutex::new(WriterState {
                catalog,
                space,
                superblock,
                failed: false,
            })),
            device,
        }))
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// Whether no table was ever loaded: the device is blank.
    pub async fn is_blank(&self) -> bool {
        self.writer.lock().await.superblock.is_none()
    }

    /// The names of the tables, in the order they were loaded.
    #[must_use]
    pub fn table_names(&self) -> Vec<String> {
        self.tables.lock().iter().map(|table| table.name.clone()).collect()
    }

    /// Opens a table.
    pub fn table(&self, name: &str) -> Result<Arc<Table>> {
        let tables = self.tables.lock();
        match tables.iter().find(|table| table.name == name) {
            Some(entry) => Ok(Arc::new(Table::new(Arc::clone(&self.device), entry.clone()))),
            None => Err(Error::NoTable {
                name: name.to_owned(),
                known: match tables.as_slice() {
                    [] => "none".to_owned(),
                    some => some.iter().map(|t| t.name.as_str()).collect::<Vec<_>>().join(", "),
                },
            }),
        }
    }

    /// Begins to load a table with the columns of `schema`. Waits for another load to end.
    pub async fn load(
        self: &Arc<Self>,
        name: &str,
        schema: &Schema,
        layout: PageLayout,
        options: LoadOptions,
    ) -> Result<Load> {
        if name.is_empty() || name.len() > 255 || name.chars().any(char::is_control) {
            return Err(Error::BadName { name: name.to_owned() });
        }
        let attributes = attributes_of(schema)?;
        let mut writer = self.begin_write().await?;
        if writer.superblock.is_none() {
            // The device is a store before anything else is written: a crash in the load must not leave bytes
            // that nobody knows.
            writer.claim(&*self.device).await?;
        }
        if !options.replace && writer.catalog.tables.iter().any(|table| table.name == name) {
            return Err(Error::TableExists { name: name.to_owned() });
        }
        let store = Arc::clone(self);
        Ok(Load::new(store, writer, name.to_owned(), attributes, layout, options))
    }

    /// Drops a table. Open [`Table`]s of it must not be read any more.
    pub async fn drop_table(&self, name: &str) -> Result<()> {
        self.table(name)?;
        let mut writer = self.begin_write().await?;
        let mut catalog = writer.catalog.clone();
        catalog.tables.retain(|table| table.name != name);
        let space = writer.space.clone();
        writer.commit(&*self.device, catalog, space).await?;
        self.show(&writer);
        self.free_dropped(&mut writer)
    }

    /// Frees the blocks of tables that the catalog no longer has; no superblock names them any more.
    pub(crate) fn free_dropped(&self, writer: &mut WriterState) -> Result<()> {
        let reserved = BlockCount(2 * self.device.inquiry().volume_block.0);
        let mut space = Space::new(Arc::clone(&self.device), reserved)?;
        occupy(&self.device, &mut space, &writer.catalog, writer.superblock.as_ref())?;
        writer.space = space;
        Ok(())
    }

    async fn begin_write(&self) -> Result<tokio::sync::OwnedMutexGuard<WriterState>> {
        let inquiry = self.device.inquiry();
        if inquiry.read_only {
            return Err(moirai_storage::Error::ReadOnly { device: inquiry.name.clone() }.into());
        }
        let writer = Arc::clone(&self.writer).lock_owned().await;
        if writer.failed {
            return Err(moirai_storage::Error::Latched { device: inquiry.name.clone() }.into());
        }
        Ok(writer)
    }

    /// Shows readers what was committed.
    pub(crate) fn show(&self, writer: &WriterState) {
        self.tables.lock().clone_from(&writer.catalog.tables);
    }
}

impl WriterState {
    /// Makes a blank device a store without tables: a superblock whose catalog has no bytes.
    async fn claim(&mut self, device: &dyn Device) -> Result<()> {
        let catalog = blob::write(device, &mut self.space, &[]).await?;
        self.failed = true;
        self.write_superblock(device, Superblock { generation: 1, catalog }).await?;
        self.failed = false;
        Ok(())
    }

    /// Writes a superblock to both places, first over the copy that does not count and then over the one that no
    /// longer does. So either copy alone is enough, and no valid superblock names what the caller frees then.
    /// Gives the superblock that counted before.
    async fn write_superblock(
        &mut self,
        device: &dyn Device,
        superblock: Superblock,
    ) -> Result<Option<Superblock>> {
        let [even, odd] = superblock_places(device);
        let is_even = superblock.generation.is_multiple_of(2);
        for place in if is_even { [even, odd] } else { [odd, even] } {
            let mut block = IoBuf::zeroed(device.inquiry().volume_block);
            for (to, from) in block.iter_mut().zip(superblock.encode()) {
                *to = from;
            }
            device.write(place, block).await?;
            device.flush().await?;
        }
        Ok(self.superblock.replace(superblock))
    }

    /// Replaces the catalog by `catalog`, on the device and here; `space` is what it leaves over.
    /// When it fails before the superblock is written, nothing has changed.
    pub(crate) async fn commit(
        &mut self,
        device: &dyn Device,
        catalog: Catalog,
        mut space: Space,
    ) -> Result<()> {
        let content = encode_catalog(&catalog)?;
        let blob = blob::write(device, &mut space, &content).await?;
        if blob.runs.len() > RUNS_MAX {
            return Err(Error::TooLarge {
                what: "the catalog".into(),
                problem: format!(
                    "the catalog lies in {} runs of blocks, and the superblock names at most {RUNS_MAX}",
                    blob.runs.len()
                ),
            });
        }
        // From here on it is not known which catalog a reopened store would find.
        self.failed = true;
        device.flush().await?;
        let generation = self.superblock.as_ref().map_or(1, |old| old.generation + 1);
        let old = self.write_superblock(device, Superblock { generation, catalog: blob }).await?;
        for run in old.iter().flat_map(|old| &old.catalog.runs) {
            space.free_run(run.range())?;
        }
        self.catalog = catalog;
        self.space = space;
        self.failed = false;
        Ok(())
    }
}

/// The valid superblock of the highest generation; `None` where no superblock was ever written.
async fn newest_superblock(device: &dyn Device) -> Result<Option<Superblock>> {
    let unit = device.inquiry().volume_block;
    let mut newest: Option<Superblock> = None;
    let mut problem = None;
    for place in superblock_places(device) {
        // One by one: either alone is enough.
        let found = match device.read(BlockRange::new(place, unit)).await {
            Ok(block) => Superblock::decode(&block),
            Err(error) => {
                problem.get_or_insert(error.into());
                continue;
            }
        };
        let found_problem = match found {
            Found::Blank => continue,
            Found::Valid(superblock) => {
                if newest.as_ref().is_none_or(|newest| newest.generation < superblock.generation) {
                    newest = Some(superblock);
                }
                continue;
            }
            Found::Version(found) => {
                return Err(Error::Version {
                    device: device.inquiry().name.clone(),
                    found,
                    known: SUPERBLOCK_VERSION,
                });
            }
            // What lies there is named when no superblock is found.
            Found::Foreign => continue,
            Found::Damaged => Error::Damaged {
                device: device.inquiry().name.clone(),
                what: "the superblock".into(),
                blocks: BlockRange::new(place, BlockCount(1)),
                offset: place.byte_offset(),
                problem: "the checksum does not match".into(),
            },
        };
        problem.get_or_insert(found_problem);
    }
    match (newest, problem) {
        (Some(newest), _) => Ok(Some(newest)),
        (None, Some(problem)) => Err(problem),
        (None, None) => Ok(None),
    }
}

/// The catalog as it is written: only what can be read back.
fn encode_catalog(catalog: &Catalog) -> Result<Vec<u8>> {
    let content = serde_json::to_vec(catalog);
    content
        .and_then(|content| serde_json::from_slice::<Catalog>(&content).map(|_| content))
        .map_err(|error| Error::Unwritable { problem: error.to_string() })
}

async fn read_catalog(device: &dyn Device, superblock: &Superblock) -> Result<Catalog> {
    let content = blob::read(device, &superblock.catalog, "the catalog").await?;
    if content.is_empty() {
        return Ok(Catalog::default());
    }
    let parsed = serde_json::from_slice::<Catalog>(&content).map_err(|error| error.to_string());
    let problem = match parsed {
        Ok(catalog) if catalog.version == CATALOG_VERSION => {
            match catalog.check(device.inquiry()) {
                Ok(()) => return Ok(catalog),
                Err(problem) => problem,
            }
        }
        Ok(catalog) => format!("the catalog has version {}", catalog.version),
        Err(problem) => problem,
    };
    Err(damaged_catalog(device, superblock, problem))
}

fn damaged_catalog(device: &dyn Device, superblock: &Superblock, problem: String) -> Error {
    let first = superblock.catalog.runs.first().map_or(Lbn(0), |run| run.range().first);
    Error::Damaged {
        device: device.inquiry().name.clone(),
        what: "the catalog".into(),
        blocks: BlockRange::new(first, BlockCount(1)),
        offset: first.byte_offset(),
        problem,
    }
}

/// Takes everything that the catalog names, and the catalog.
fn occupy(
    device: &Arc<dyn Device>,
    space: &mut Space,
    catalog: &Catalog,
    superblock: Option<&Superblock>,
) -> Result<()> {
    let Some(superblock) = superblock else {
        return Ok(());
    };
    let overlap = |what: &str| {
        damaged_catalog(&**device, superblock, format!("{what} overlaps another object"))
    };
    for run in &superblock.catalog.runs {
        if !space.take_run(run.range())? {
            return Err(overlap("the catalog"));
        }
    }
    for table in &catalog.tables {
        let bounds = table.bounds.iter().filter_map(|bounds| bounds.by_page.as_ref());
        let directories = table.heaps.iter().map(|heap| &heap.directory);
        let blobs = bounds.chain(directories).flat_map(|blob| &blob.runs);
        for run in blobs.chain(table.heaps.iter().flat_map(|heap| &heap.extents)) {
            if !space.take_run(run.range())? {
                return Err(overlap(&format!("table {}", table.name)));
            }
        }
        for extent in table.pages.iter().flat_map(|pages| &pages.extents) {
            if !space.take_column_extent(extent)? {
                return Err(overlap(&format!("table {}", table.name)));
            }
        }
    }
    Ok(())
}
