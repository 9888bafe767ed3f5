//! What can go wrong in a store of trees.

/// The result of an operation on a store.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed operation on a store of trees.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The update engine failed, or a device below it.
    #[error(transparent)]
    Update(#[from] moirai_update::Error),

    /// A leaf is not one.
    #[error("a leaf of tree `{tree}` is none: its blocks were written by something else")]
    NoLeaf {
        /// The tree.
        tree: String,
    },

    /// Leaves cannot be of such a size.
    #[error("leaves of {bytes} bytes: take a multiple of 512 up to 65536")]
    LeafBytes {
        /// What was asked for.
        bytes: u64,
    },

    /// A tree's name is too long, or empty.
    #[error("a tree's name of {bytes} bytes: take 1 to 100")]
    Name {
        /// Its length.
        bytes: usize,
    },
}
