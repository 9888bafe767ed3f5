//! Values that are written from files and printed in parts, as they may be longer than memory.

use std::fs::File;
use std::io::{Read, Write, stdin, stdout};
use std::path::Path;

use moirai::btree::{Error, Store, Tree, ValueReader};

use super::text::Text;
use crate::failure::Failure;
use crate::print;

/// Bytes that are read and written at once.
const PART_BYTES: u64 = 1 << 20;

/// Prints a value with a line end, or its bytes alone.
pub(super) async fn print(value: &ValueReader, is_raw: bool, text: Text) -> Result<(), Failure> {
    if !is_raw {
        return print::bytes_line(
            &text.written(&value.read(0..u64::MAX).await.map_err(Error::from)?),
        );
    }
    let mut output = stdout().lock();
    let mut begin = 0;
    while begin < value.length().0 {
        let part = value.read(begin..begin + PART_BYTES).await.map_err(Error::from)?;
        begin += PART_BYTES;
        output.write_all(&part).map_err(print::failed)?;
    }
    output.flush().map_err(print::failed)
}

/// Puts the content of a file under a key.
pub(super) async fn put_file(
    store: &Store,
    tree: &Tree,
    key: &[u8],
    path: &Path,
) -> Result<(), Failure> {
    let named = |error: std::io::Error| Failure::Failed(format!("{}: {error}", path.display()));
    let mut input: Box<dyn Read> = match path == Path::new("-") {
        true => Box::new(stdin().lock()),
        false => Box::new(File::open(path).map_err(named)?),
    };
    let mut writer = store.write_value(tree, key)?;
    let mut buffer = vec![0; PART_BYTES as usize];
    loop {
        let count = input.read(&mut buffer).map_err(named)?;
        if count == 0 {
            return Ok(writer.put().await?);
        }
        writer.write(buffer.get(..count).unwrap_or_default()).await?;
    }
}
