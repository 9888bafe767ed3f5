//! What the sweeper keeps from one batch to the next.

use std::collections::VecDeque;
use std::sync::Arc;

use moirai_units::BlockCount;

use crate::data::place::Place;
use crate::shared::Shared;
use crate::state::partition::Staged;
use crate::sweep::choose::Cursor;
use crate::sweep::job::{Job, Member};

/// The sweeper's own.
pub(super) struct Sweeper<'a> {
    pub(super) shared: &'a Arc<Shared>,
    /// Sealed, and swept next.
    pub(super) waiting: VecDeque<Job>,
    /// Sealed, and swept once there is more space than `free` blocks.
    pub(super) postponed: Vec<Job>,
    pub(super) free: BlockCount,
    pub(super) cursor: Cursor,
    /// See `sweep::level`.
    pub(super) due: f64,
    /// While a log is loaded.
    pub(super) replaced: Replaced,
    /// Whether the last sweep ingested records: what else there is to do comes next.
    pub(super) has_ingested: bool,
}

impl<'a> Sweeper<'a> {
    /// With nothing to do yet.
    pub(super) fn new(shared: &'a Arc<Shared>) -> Sweeper<'a> {
        Sweeper {
            shared,
            waiting: VecDeque::new(),
            postponed: Vec::new(),
            free: BlockCount::ZERO,
            cursor: Cursor::default(),
            due: 0.0,
            replaced: Replaced::default(),
            has_ingested: false,
        }
    }
}

/// Blocks and chunks that others replaced: the last checkpoint, with the log, needs them.
#[derive(Default)]
pub(super) struct Replaced {
    all: Vec<(Arc<Place>, Vec<Arc<Staged>>)>,
    pub(super) bytes: usize,
}

impl Replaced {
    pub(super) fn keep(&mut self, member: Member) {
        let Member { place, staged, .. } = member;
        let chunks: usize = staged.iter().map(|one| one.memory_bytes()).sum();
        self.bytes += place.memory_bytes() + chunks;
        self.all.push((place, staged));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}
