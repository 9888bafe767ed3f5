//! `kv dump` and `kv restore`: all records as text, in the format of Berkeley DB's `db_dump` and LMDB's `mdb_dump`.
//!
//! A tree is a header of `name=value` lines up to `HEADER=END`, a line for each key and each value, which begin with a
//! space, and `DATA=END`. With `format=print` a byte that is not printable is a backslash and two hexadecimal digits, and a
//! backslash is two; with `format=bytevalue` all bytes are hexadecimal digits. The name of the tree is `database`.

use std::io::Write;

use moirai::btree::{Direction, KeyRange, Store, Tree};

use super::load::{Input, Loading};
use crate::failure::Failure;
use crate::print;

/// Writes the trees to standard output.
pub(super) async fn dump(store: &Store, trees: &[Tree], is_hex: bool) -> Result<(), Failure> {
    let mut output = std::io::BufWriter::new(std::io::stdout());
    let format = if is_hex { "bytevalue" } else { "print" };
    let mut text = Vec::new();
    for tree in trees {
        text.clear();
        text.extend_from_slice(format!("VERSION=3\nformat={format}\ndatabase=").as_bytes());
        write_printable(&mut text, tree.name().as_bytes());
        text.extend_from_slice(b"\ntype=btree\nHEADER=END\n");
        let mut scan = store.scan(tree, KeyRange::all(), Direction::Forward);
        while let Some((key, value)) = scan.next().await? {
            for bytes in [key, value] {
                text.push(b' ');
                match is_hex {
                    true => text.extend_from_slice(hex::encode(bytes).as_bytes()),
                    false => write_printable(&mut text, bytes),
                }
                text.push(b'\n');
            }
            output.write_all(&text).map_err(print::failed)?;
            text.clear();
        }
        text.extend_from_slice(b"DATA=END\n");
        output.write_all(&text).map_err(print::failed)?;
    }
    output.flush().map_err(print::failed)
}

fn write_printable(line: &mut Vec<u8>, bytes: &[u8]) {
    for byte in bytes {
        match byte {
            b'\\' => line.extend_from_slice(b"\\\\"),
            b' '..=b'~' => line.push(*byte),
            _ => line.extend_from_slice(format!("\\{byte:02x}").as_bytes()),
        }
    }
}

fn read_printable(line: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(line.len());
    let mut rest = line;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match (*byte, rest) {
            (b'\\', [b'\\', after @ ..]) => {
                bytes.push(b'\\');
                rest = after;
            }
            (b'\\', [high, low, after @ ..]) => {
                let digits = hex::decode([*high, *low]).map_err(|problem| {
                    format!("a backslash comes before two hexadecimal digits or another backslash: {problem}")
                })?;
                bytes.extend_from_slice(&digits);
                rest = after;
            }
            (b'\\', _) => return Err("the last escaped byte is incomplete".into()),
            (byte, _) => bytes.push(byte),
        }
    }
    Ok(bytes)
}

/// What the header of a tree says.
#[derive(Default)]
struct Header {
    is_hex: bool,
    name: Option<String>,
}

impl Header {
    /// Takes a line in; says what is wrong with it.
    fn add(&mut self, line: &[u8]) -> Result<(), String> {
        let line = String::from_utf8_lossy(line);
        let (name, value) =
            line.split_once('=').ok_or("a dump has a line of the form name=value here")?;
        match (name, value) {
            ("VERSION", "3") | ("format", "print") => {}
            ("VERSION", other) => {
                return Err(format!("VERSION={other} is unknown: dump with version 3"));
            }
            ("format", "bytevalue") => self.is_hex = true,
            ("format", other) => {
                return Err(format!("format={other} is unknown: dump with print or bytevalue"));
            }
            ("type", "recno" | "queue") | ("keys", "0") => {
                return Err("a dump without keys cannot be restored".into());
            }
            ("duplicates" | "dupsort", "1") => {
                return Err(
                    "a dump with several values for a key cannot be restored: a tree has one for each".into()
                );
            }
            ("database", name) => {
                let name = read_printable(name.as_bytes())?;
                let name = String::from_utf8(name);
                self.name = Some(name.map_err(|_| "the name of the tree is not UTF-8")?);
            }
            // What the file was like that was dumped.
            _ => {}
        }
        Ok(())
    }

    fn read(&self, line: &[u8]) -> Result<Vec<u8>, String> {
        let line = line.strip_prefix(b" ").ok_or("there is no space before the key or value")?;
        match self.is_hex {
            true => hex::decode(line).map_err(|problem| problem.to_string()),
            false => read_printable(line),
        }
    }
}

/// Puts the records of a dump into the trees that it names, or into tree `only`.
pub(super) async fn restore(
    store: &Store,
    only: Option<&str>,
    input: &Input,
) -> Result<(), Failure> {
    let mut loading = Loading::start(store, input, "records")?;
    let mut line = Vec::new();
    let mut restored = 0;
    while loading.next_line(&mut line)? {
        let mut header = Header::default();
        while line != b"HEADER=END" {
            header.add(&line).map_err(|problem| loading.failed_line(problem))?;
            if !loading.next_line(&mut line)? {
                return Err(loading.failed("the file ends before HEADER=END: it is incomplete"));
            }
        }
        restored += 1;
        if only.is_some() && restored == 2 {
            return Err(loading.failed_line(
                "the dump has several trees, and --tree takes one: leave --tree out",
            ));
        }
        let name = only.or(header.name.as_deref()).unwrap_or(super::TREE);
        let tree = store.tree(name).await.map_err(|error| loading.failed_line(error))?;
        put_records(&mut loading, &header, &tree).await?;
    }
    loading.finish().await
}

/// Puts the records of one tree, up to `DATA=END`.
async fn put_records(
    loading: &mut Loading<'_>,
    header: &Header,
    tree: &Tree,
) -> Result<(), Failure> {
    let mut line = Vec::new();
    let incomplete = "the file ends before DATA=END: it is incomplete";
    loop {
        if !loading.next_line(&mut line)? {
            return Err(loading.failed(incomplete));
        }
        if line == b"DATA=END" {
            return Ok(());
        }
        let key = header.read(&line).map_err(|problem| loading.failed_line(problem))?;
        if !loading.next_line(&mut line)? {
            return Err(loading.failed(incomplete));
        }
        let value = header.read(&line).map_err(|problem| loading.failed_line(problem))?;
        loading.batch.put(tree, &key, &value);
        loading.commit_group().await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printable_text_takes_all_bytes() {
        let bytes: Vec<u8> = (0..=255).collect();
        let mut line = Vec::new();
        write_printable(&mut line, &bytes);
        assert!(line.iter().all(|byte| (b' '..=b'~').contains(byte)));
        assert_eq!(read_printable(&line).unwrap(), bytes);
        // As db_dump writes them.
        assert_eq!(read_printable(br"a\\b\0a\ff").unwrap(), b"a\\b\n\xff");
        read_printable(br"a\0").unwrap_err();
        read_printable(br"a\zz").unwrap_err();
    }
}
