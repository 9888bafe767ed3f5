//! Checkpoints: all partitions, and where their blocks and staged chunks lie, on the data device. The log before one is
//! free.
//!
//! The directory is divided into *pages*: neighbouring partitions of a space ([`Directory`](crate::state::directory::Directory)).
//! A checkpoint writes the pages that changed since the one before, one behind the other in a sequence of bytes that only
//! grows, and then an index, which says where in this sequence the last version of each page lies. The sequence is cut
//! into *pieces*, each in an extent of its own, and in another as a copy where there is space:
//!
//! ```text
//!  superblock -> root: the index's pieces -> index: pieces of the sequence, and pages -> pages: partitions
//!
//!  sequence      | piece, half of it used | free  | piece              | the next piece ...
//!                | A .... B .. C ........ |       | D .. E ...... F .. | A, C, new
//! ```
//!
//! A piece of which less than half is in use is not kept: its pages are written again, too. So the pieces take up to twice
//! what is in use, and pages that did not change are written less often than those that did.

pub(crate) mod format;
pub(crate) mod pieces;
pub(crate) mod read;
mod take;
