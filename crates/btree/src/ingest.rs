//! Ingest: sorted records go into leaves past the log.

use crate::Result;
use crate::store::{Store, Tree};

/// A writer of sorted records into a tree, as fast as leaves can be written; see [`Store::ingest_into`].
///
/// A record takes the place of any value under its key. Records go in batch by batch: one batch is written while the next
/// is filled. A batch comes after all that was committed before it began.
///
/// # Durability
/// Records are durable after [`Ingest::flush`] and [`Ingest::finish`]. Before that, and after a crash or when this is
/// dropped, those up to some key are in the tree and the others are not.
#[derive(Debug)]
pub struct Ingest<'a> {
    store: &'a Store,
    tree: Tree,
    inner: moirai_update::Ingest<'a>,
}

impl Ingest<'_> {
    /// Adds a record, whose key is above all before it. Key and value may be as long as with [`Store::commit`]. Returns at
    /// once, or when a batch is full, once the one before is durable.
    ///
    /// # Errors
    /// The record is left out. [`Error::Dropped`](crate::Error::Dropped), and these of [`moirai_update::Error`]:
    /// - `Unsorted`, `TooLong`: all records before it are durable.
    /// - `Full`, `Unreadable`: nothing is lost. Once the cause is gone, push the same record again.
    /// - `Stopped`, `ReadOnly`: records that were not durable are lost.
    ///
    /// # Cancel safety
    /// The record is left out; those before it stay.
    pub async fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.store.check_tree(&self.tree)?;
        Ok(self.inner.push(key, value).await?)
    }

    /// Returns when all records that were pushed are durable. The next batch rewrites the last partition, so flushing often
    /// is slow. Errors as of [`Ingest::push`].
    pub async fn flush(&mut self) -> Result<()> {
        self.store.check_tree(&self.tree)?;
        Ok(self.inner.flush().await?)
    }

    /// Flushes, and gives the number of records pushed. Errors as of [`Ingest::push`].
    pub async fn finish(self) -> Result<u64> {
        self.store.check_tree(&self.tree)?;
        Ok(self.inner.finish().await?)
    }

    /// The number of records pushed.
    #[must_use]
    pub fn pushed(&self) -> u64 {
        self.inner.pushed()
    }

    /// The number of records that are known to be durable: those pushed first.
    #[must_use]
    pub fn durable(&self) -> u64 {
        self.inner.durable()
    }
}

impl Store {
    /// Puts sorted records into a tree, past the log: as fast as leaves can be written. Gives their number once they are
    /// durable. A tree that has records takes them, too.
    ///
    /// # Errors
    /// As of [`Ingest::push`]. Those before a record that is refused are in the tree.
    ///
    /// # Cancel safety
    /// Records up to some key are in the tree, as after a crash.
    pub async fn ingest<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        tree: &Tree,
        records: impl IntoIterator<Item = (K, V)>,
    ) -> Result<u64> {
        let mut ingest = self.ingest_into(tree)?;
        for (key, value) in records {
            ingest.push(key.as_ref(), value.as_ref()).await?;
        }
        ingest.finish().await
    }

    /// A writer of sorted records into a tree, for records that come one by one. [`Error::OtherStore`](crate::Error::OtherStore),
    /// [`Error::Dropped`](crate::Error::Dropped); errors as of [`Store::commit`].
    pub fn ingest_into(&self, tree: &Tree) -> Result<Ingest<'_>> {
        let inner = self.engine.ingest(self.space_of(tree)?)?;
        Ok(Ingest { store: self, tree: tree.clone(), inner })
    }
}
