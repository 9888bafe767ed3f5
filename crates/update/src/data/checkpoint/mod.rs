//! Checkpoints: all partitions, and where their blocks and staged chunks lie, on the data device. The log before one is
//! free.
//!
//! The directory is divided into *pages*: neighbouring partitions of a space ([`Directory`](crate::state::directory::Directory)).
//! A checkpoint writes the pages that changed since the one before behind what is there of a sequence of bytes, and then an
//! index, which says where in this sequence the last version of each page lies. The sequence is cut into *fragments*, each in an
//! extent of its own, and in another as a copy where there is space:
//!
//! ```text
//!  superblock -> root: the index's fragments -> index: fragments of the sequence, and pages -> pages: partitions
//!
//!  sequence      | fragment, half of it used | free  | fragment           | the next fragment ...
//!                | A .... B .. C ........... |       | D .. E ...... F .. | A, C, new
//! ```
//!
//! A fragment of which less than half is in use is not kept: its pages are written again, too. So the fragments take up to twice
//! what is in use, and pages that did not change are written less often than those that did. A fragment without a copy is not
//! kept either, nor short ones once they are many, and none where space is short: a device that is nearly full has one checkpoint that was written whole.

pub(crate) mod format;
pub(crate) mod fragments;
pub(crate) mod read;
mod take;
