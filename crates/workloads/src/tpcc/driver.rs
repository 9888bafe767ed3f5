//! Terminals, and how they run.

use std::sync::Arc;

use moirai_runtime::Random;
use moirai_tables::{Isolation, Result};
use moirai_units::Nanos;

use crate::driver::{Client, Done, Figures, Pace, Running, drive};
use crate::tpcc::kinds::{KINDS, Kind, RowReads};
use crate::tpcc::schema::Database;
use crate::tpcc::transactions::Terminal;

/// How a run goes.
#[derive(Clone, Copy, Debug)]
pub struct RunOptions {
    /// Terminals; those of a warehouse share its districts.
    pub terminals: u64,
    /// How long terminals run before anything counts.
    pub warm_up: Nanos,
    /// How long they run then.
    pub time: Nanos,
    /// Whether terminals key in and think, as the specification has it.
    pub thinks: bool,
    /// Transactions a second that all terminals together begin at most; as many as they can where there is none.
    pub rate: Option<f64>,
    /// The isolation of the transactions. Under snapshots all histories of TPC-C are serializable (Fekete et al. 2005).
    pub isolation: Isolation,
    /// What they read of rows.
    pub reads: RowReads,
}

impl RunOptions {
    /// Terminals that do not think, for a time, with transactions under snapshots.
    #[must_use]
    pub fn of(terminals: u64, time: Nanos) -> RunOptions {
        RunOptions {
            terminals,
            warm_up: Nanos(0),
            time,
            thinks: false,
            rate: None,
            isolation: Isolation::Snapshot,
            reads: RowReads::Needed,
        }
    }
}

impl Client for Terminal {
    type Error = moirai_tables::Error;

    const KINDS: &'static [&'static str] = &KINDS;

    fn next_kind(&mut self) -> usize {
        self.inputs.draw_kind() as usize
    }

    async fn run(&mut self, kind: usize, retries: &mut u64) -> Result<Done> {
        let input = self.inputs.draw(Kind::of(kind));
        self.run_input(&input, retries).await
    }

    fn pauses_s(&self, kind: usize) -> (f64, f64) {
        Kind::of(kind).pauses_s()
    }

    fn random(&mut self) -> &mut Random {
        self.inputs.random()
    }
}

/// Committed New-Orders a minute: tpmC.
#[must_use]
pub fn new_orders_per_minute(figures: &Figures) -> f64 {
    figures.kinds.first().map_or(0, |kind| kind.committed) as f64 * 60.0 / figures.time.as_s()
}

/// Runs terminals for a while.
///
/// # Errors
/// As of [`drive`].
pub async fn run(
    database: &Arc<Database>,
    options: RunOptions,
    running: &Arc<Running>,
) -> Result<Figures> {
    let RunOptions { terminals, warm_up, time, thinks, rate, isolation, reads } = options;
    let terminal = |number| Terminal::new(database, number, isolation).reading(reads);
    let pace = Pace { warm_up, time, pauses: thinks, rate };
    drive((0..terminals).map(terminal).collect(), pace, running).await
}
