//! What can go wrong in a store of trees.

/// The result of an operation on a store.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed operation on a store of trees.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The update engine failed, or a device below it.
    #[error(transparent)]
    Update(#[from] moirai_update::Error),

    /// A transaction failed.
    #[error(transparent)]
    Transaction(moirai_transactions::Error),

    /// A key that was to be inserted is there.
    #[error("tree `{tree}` has the key already: put it to replace its value")]
    KeyExists {
        /// The tree.
        tree: String,
    },

    /// A block of a tree does not hold a leaf.
    #[error(
        "tree `{tree}`: a block is not a B+-tree leaf: restore the devices of the store from backups"
    )]
    NoLeaf {
        /// The tree.
        tree: String,
    },

    /// A tree was given to a store that it does not belong to.
    #[error(
        "tree `{tree}` belongs to another store, or to this one before it was opened again: get the tree from the \
         store that is to use it"
    )]
    OtherStore {
        /// The tree.
        tree: String,
    },

    /// A tree was dropped after the program asked for it.
    #[error("tree `{tree}` was dropped: get it from the store again to make a new one")]
    Dropped {
        /// The tree.
        tree: String,
    },

    /// There is no such tree.
    #[error("there is no tree `{tree}`")]
    NoTree {
        /// Its name.
        tree: String,
    },

    /// There is a tree of that name.
    #[error("there is a tree `{tree}` already: drop it first, or take another name")]
    TreeExists {
        /// Its name.
        tree: String,
    },

    /// There is something of that name that is no tree.
    #[error("there is a table `{name}` already: drop or replace it, or take another name")]
    RelationExists {
        /// Its name.
        name: String,
    },

    /// What was to be copied has tables.
    #[error(
        "only trees can be copied, and there are tables ({}): copy these with SQL, or copy the store's device while nothing has it open",
        names.join(", ")
    )]
    Relations {
        /// Their names.
        names: Vec<String>,
    },

    /// The leaf size is out of range.
    #[error("a leaf cannot have {bytes} bytes: take a multiple of 512 up to 65536")]
    LeafBytes {
        /// The size asked for.
        bytes: u64,
    },

    /// A tree's name is too long, or empty.
    #[error("the name of a tree cannot have {bytes} bytes: take 1 to 100")]
    Name {
        /// Its length.
        bytes: usize,
    },
}

impl Error {
    /// The SQLSTATE, as PostgreSQL has it.
    #[must_use]
    pub fn sqlstate(&self) -> &'static str {
        match self {
            Error::Transaction(error) => error.sqlstate(),
            Error::Update(error) => moirai_transactions::sqlstate(error),
            Error::KeyExists { .. } => "23505",
            Error::NoTree { .. } | Error::Dropped { .. } => "42P01",
            Error::TreeExists { .. } | Error::RelationExists { .. } => "42P07",
            Error::NoLeaf { .. } => "XX001",
            _ => "58000",
        }
    }

    /// Whether a transaction that failed so may succeed when it is run again.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        use moirai_update::Error::PointTooOld;
        match self {
            Error::Transaction(error) => error.is_retryable(),
            Error::Update(PointTooOld { .. }) => true,
            _ => false,
        }
    }
}

impl From<moirai_transactions::Error> for Error {
    fn from(error: moirai_transactions::Error) -> Error {
        match error {
            moirai_transactions::Error::Engine(error) => Error::Update(error),
            error => Error::Transaction(error),
        }
    }
}
