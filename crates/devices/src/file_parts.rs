//! What files and block devices share.

use std::io;
use std::path::Path;

use moirai_storage::Error;
use moirai_units::{BLOCK_BYTES, BlockCount};

/// What a file's size and its volume block are multiples of: the page of common file systems.
pub(crate) const PAGE: BlockCount = BlockCount(4096 / BLOCK_BYTES);

/// The error of a failed action on a file.
pub(crate) fn file_error<'a>(
    path: &'a Path,
    action: &'static str,
) -> impl FnOnce(io::Error) -> Error + use<'a> {
    move |source| Error::File { path: path.to_owned(), action, source }
}
