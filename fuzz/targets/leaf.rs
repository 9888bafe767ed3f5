//! Leaves of B+-trees. The first byte says how long the key is that is changed, the second how long its value; a
//! value of 255 is none.
#![no_main]

use libfuzzer_sys::fuzz_target;
use moirai_btree::fuzzing::change_leaf;

fuzz_target!(|bytes: &[u8]| {
    let [key, value, rest @ ..] = bytes else { return };
    let Some((key, rest)) = rest.split_at_checked(usize::from(*key)) else { return };
    match value {
        255 => change_leaf(rest, key, None),
        length => {
            let Some((value, leaf)) = rest.split_at_checked(usize::from(*length)) else { return };
            change_leaf(leaf, key, Some(value));
        }
    }
});
