//! Terminals that run transactions for a while, and how fast these were.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use moirai_runtime::{now, sleep, spawn};
use moirai_tables::{Isolation, Result};
use moirai_units::{Instant, Nanos};
use parking_lot::Mutex;
use rand::Rng;

use crate::tpcc::schema::Database;
use crate::tpcc::transactions::{Done, Terminal};

/// A kind of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// An order of 5 to 15 items: the one that is counted.
    NewOrder,
    /// A payment of a customer.
    Payment,
    /// The last order of a customer.
    OrderStatus,
    /// Delivers the oldest order of each district.
    Delivery,
    /// Counts scarce items.
    StockLevel,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 5] =
        [Kind::NewOrder, Kind::Payment, Kind::OrderStatus, Kind::Delivery, Kind::StockLevel];

    /// What it is called.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::NewOrder => "new_order",
            Kind::Payment => "payment",
            Kind::OrderStatus => "order_status",
            Kind::Delivery => "delivery",
            Kind::StockLevel => "stock_level",
        }
    }

    /// Seconds of keying before it, and of thinking after it on average (clause 5.2.5.7).
    fn pauses_s(self) -> (f64, f64) {
        match self {
            Kind::NewOrder => (18.0, 12.0),
            Kind::Payment => (3.0, 12.0),
            Kind::OrderStatus => (2.0, 10.0),
            Kind::Delivery => (2.0, 5.0),
            Kind::StockLevel => (2.0, 5.0),
        }
    }
}

/// How a run goes.
#[derive(Clone, Copy, Debug)]
pub struct RunOptions {
    /// Terminals; those of a warehouse share its districts.
    pub terminals: u64,
    /// How long it lasts.
    pub time: Nanos,
    /// Whether terminals key in and think, as the specification has it.
    pub thinks: bool,
    /// Transactions a second that all terminals together begin at most; as many as they can where there is none.
    pub rate: Option<f64>,
    /// The isolation of the transactions. Under snapshots all histories of TPC-C are serializable (Fekete et al. 2005).
    pub isolation: Isolation,
}

/// What was done of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KindFigures {
    /// How many were committed.
    pub committed: u64,
    /// How many were rolled back as the specification wants it.
    pub rolled_back: u64,
    /// How often one was run again because of others.
    pub retries: u64,
    /// Response times in nanoseconds, ascending.
    pub responses_ns: Vec<u64>,
}

impl KindFigures {
    /// The response time that such a share of the transactions took at most.
    #[must_use]
    pub fn percentile(&self, share: f64) -> Nanos {
        let last = self.responses_ns.len().saturating_sub(1);
        let place = (share * self.responses_ns.len() as f64).ceil() as usize;
        Nanos(self.responses_ns.get(place.saturating_sub(1).min(last)).copied().unwrap_or(0))
    }
}

/// What a run did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// How long it lasted.
    pub time: Nanos,
    /// By kind, in the order of [`Kind::ALL`].
    pub kinds: [KindFigures; 5],
    /// Transactions that were committed in each second.
    pub by_second: Vec<u64>,
}

impl Figures {
    /// Committed transactions of all kinds a second.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        self.kinds.iter().map(|kind| kind.committed).sum::<u64>() as f64 / self.time.as_s()
    }

    /// Committed New-Orders a minute: tpmC.
    #[must_use]
    pub fn new_orders_per_minute(&self) -> f64 {
        self.kinds.first().map_or(0, |kind| kind.committed) as f64 * 60.0 / self.time.as_s()
    }
}

/// A run that goes on: for progress.
#[derive(Debug, Default)]
pub struct Running {
    committed: AtomicU64,
    is_over: AtomicBool,
}

impl Running {
    /// Transactions that were committed so far.
    pub fn committed(&self) -> u64 {
        self.committed.load(Ordering::Relaxed)
    }
}

/// Runs terminals for a while.
///
/// # Errors
/// The first error of a transaction that no other one caused; the run ends with it.
pub async fn run(
    database: &Arc<Database>,
    options: RunOptions,
    running: &Arc<Running>,
) -> Result<Figures> {
    let began = now();
    let seconds = (options.time.as_s().ceil() as usize).max(1);
    let figures =
        Arc::new(Mutex::new(Figures { by_second: vec![0; seconds], ..Figures::default() }));
    let tasks: Vec<_> = (0..options.terminals)
        .map(|number| {
            let terminal = Terminal::new(database, number, options.isolation);
            let (running, figures) = (Arc::clone(running), Arc::clone(&figures));
            spawn(run_terminal((terminal, number), options, began, running, figures))
        })
        .collect();
    let mut failed = Ok(());
    for task in tasks {
        failed = failed.and(task.await);
    }
    failed?;
    let mut figures = std::mem::take(&mut *figures.lock());
    figures.time = now().since(began);
    figures.kinds.iter_mut().for_each(|kind| kind.responses_ns.sort_unstable());
    Ok(figures)
}

async fn run_terminal(
    (mut terminal, number): (Terminal, u64),
    options: RunOptions,
    began: Instant,
    running: Arc<Running>,
    figures: Arc<Mutex<Figures>>,
) -> Result<()> {
    if options.thinks {
        // Not all at once.
        let wait = terminal.random().random_range(0.0..20.0);
        sleep(Nanos::from_ms(wait * 1000.0)).await;
    }
    // With a rate, terminals take turns.
    let turn_s = |turn: u64| Some((turn * options.terminals + number) as f64 / options.rate?);
    let mut turn = 0;
    while now().since(began).0 < options.time.0 && !running.is_over.load(Ordering::Relaxed) {
        if let Some(due_s) = turn_s(turn) {
            let due = Nanos::from_ms(due_s * 1000.0);
            sleep(Nanos(due.0.saturating_sub(now().since(began).0))).await;
            turn += 1;
        }
        let kind = terminal.next_kind();
        let (keying_s, thinking_s) = kind.pauses_s();
        if options.thinks {
            sleep(Nanos::from_ms(keying_s * 1000.0)).await;
        }
        let (asked, mut retries) = (now(), 0);
        let done = terminal.run(kind, &mut retries).await;
        let response = now().since(asked);
        {
            let figures = &mut *figures.lock();
            let second = now().since(began).as_s() as usize;
            let Some(of_kind) = figures.kinds.get_mut(kind as usize) else { continue };
            of_kind.retries += retries;
            match done {
                Ok(Done::Committed) => {
                    of_kind.committed += 1;
                    of_kind.responses_ns.push(response.0);
                    if let Some(count) = figures.by_second.get_mut(second) {
                        *count += 1;
                    }
                    running.committed.fetch_add(1, Ordering::Relaxed);
                }
                Ok(Done::RolledBack) => of_kind.rolled_back += 1,
                Err(error) => {
                    running.is_over.store(true, Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
        if options.thinks {
            // Exponential, cut at ten times the mean (clause 5.2.5.4).
            let uniform: f64 = terminal.random().random_range(f64::EPSILON..1.0);
            let thought = (-uniform.ln() * thinking_s).min(10.0 * thinking_s);
            sleep(Nanos::from_ms(thought * 1000.0)).await;
        }
    }
    Ok(())
}
