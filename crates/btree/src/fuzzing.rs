//! Leaves as they may come from a device, for the fuzz targets.

use moirai_update::{
    Block, BlockFormat, DELETE, KindNumber, Kinds, Modification, NewBlocks, PUT, Stored, Value,
};

use crate::leaf::{Leaf, Leaves};

/// Looks for `key` in what may be a leaf, puts a value there or takes it away. Where the leaf was in order, what
/// comes of it is that leaf with the change.
pub fn change_leaf(leaf: &[u8], key: &[u8], value: Option<&[u8]>) {
    let block = Block::whole(leaf);
    let _ = Leaves.find(b"", block, key, &mut Value::default());
    let _ = Leaves.last_key(b"", block);
    let (longest_key, longest_value) = Leaves.longest(leaf.len().max(64));
    if leaf.len() < 64
        || key.len() > longest_key
        || value.is_some_and(|value| value.len() > longest_value)
    {
        return;
    }
    let kind: KindNumber = if value.is_some() { PUT } else { DELETE };
    let one = Modification { key, kind, bytes: value.unwrap_or_default() };
    let mut new_blocks = NewBlocks::new(leaf.len());
    let applied = Leaves.apply(b"", Some(block), &[one], &Kinds::new(), &mut new_blocks);
    let Some(mut expected) = in_order(leaf) else { return };
    assert!(applied.is_ok(), "a leaf in order is refused");
    match (expected.binary_search_by(|(other, _)| (*other).cmp(key)), value) {
        (Ok(at), Some(value)) => {
            if let Some(record) = expected.get_mut(at) {
                record.1 = Stored::Short(value);
            }
        }
        (Ok(at), None) => drop(expected.remove(at)),
        (Err(at), Some(value)) => expected.insert(at, (key, Stored::Short(value))),
        (Err(_), None) => {}
    }
    let mut records = Vec::new();
    for (_, piece) in new_blocks.iter() {
        records.extend(in_order(piece.bytes()).unwrap_or_default());
    }
    assert_eq!(records, expected);
}

/// The records of a leaf; `None` when it is none, has them in another order, or so that they share bytes and take
/// more room than it has.
fn in_order(leaf: &[u8]) -> Option<Vec<(&[u8], Stored<'_>)>> {
    let all = Leaf::of(leaf)?;
    let records: Option<Vec<_>> = (0..all.len()).map(|index| all.record(index)).collect();
    let (longest_key, longest_value) = Leaves.longest(leaf.len());
    records.filter(|records| {
        let fits = |(key, value): &(&[u8], Stored<'_>)| {
            let (Stored::Short(value) | Stored::Long(value)) = value;
            key.len() <= longest_key && value.len() <= longest_value
        };
        records.iter().all(fits)
            && records.windows(2).all(|pair| matches!(pair, [one, next] if one.0 < next.0))
    })
}
