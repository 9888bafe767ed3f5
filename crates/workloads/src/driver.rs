//! Clients that run operations for a while, and how fast these were.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use moirai_runtime::{Random, now, sleep, spawn};
use moirai_units::{Instant, Nanos};
use parking_lot::Mutex;
use rand::Rng;

/// What became of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// It was committed.
    Committed,
    /// It was rolled back, as the workload wants it.
    RolledBack,
}

/// Who runs one operation after another.
pub trait Client: Send + 'static {
    /// What can go wrong.
    type Error: Send + 'static;

    /// The kinds of its operations.
    const KINDS: &'static [&'static str];

    /// The kind of the operation that comes next: its place in [`Client::KINDS`].
    fn next_kind(&mut self) -> usize;

    /// Runs an operation of a kind until it is not in conflict with others; counts how often it is run again in `retries`.
    ///
    /// # Errors
    /// Those of what it runs on.
    fn run(
        &mut self,
        kind: usize,
        retries: &mut u64,
    ) -> impl Future<Output = Result<Done, Self::Error>> + Send;

    /// Seconds that it waits before an operation of a kind, and after one on average.
    fn pauses_s(&self, kind: usize) -> (f64, f64) {
        let _ = kind;
        (0.0, 0.0)
    }

    /// Random numbers of a stream of its own.
    fn random(&mut self) -> &mut Random;
}

/// How clients run.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// How long they run before anything counts.
    pub warm_up: Nanos,
    /// How long they run then.
    pub time: Nanos,
    /// Whether they pause between operations ([`Client::pauses_s`]).
    pub pauses: bool,
    /// Operations a second that all together begin at most; as many as they can where there is none.
    pub rate: Option<f64>,
}

impl Pace {
    /// One operation after another, for a time.
    #[must_use]
    pub fn of(time: Nanos) -> Pace {
        Pace { warm_up: Nanos(0), time, pauses: false, rate: None }
    }
}

/// What was done of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KindFigures {
    /// How many were committed.
    pub committed: u64,
    /// How many were rolled back as the workload wants it.
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
    /// By kind, in the order of [`Client::KINDS`].
    pub kinds: Vec<KindFigures>,
    /// Operations that were committed in each second.
    pub by_second: Vec<u64>,
}

impl Figures {
    /// Committed operations of all kinds a second.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        let committed: u64 = self.kinds.iter().map(|kind| kind.committed).sum();
        committed as f64 / self.time.as_s().max(f64::MIN_POSITIVE)
    }
}

/// A run that goes on: for progress, and to end it.
#[derive(Debug, Default)]
pub struct Running {
    committed: AtomicU64,
    is_over: AtomicBool,
}

impl Running {
    /// Operations that were committed so far.
    pub fn committed(&self) -> u64 {
        self.committed.load(Ordering::Relaxed)
    }

    /// Tells all clients to stop after the operation that they are in.
    pub fn stop(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// Runs clients for a while.
///
/// # Errors
/// The first error of an operation that no other one caused; the run ends with it.
pub async fn drive<C: Client>(
    clients: Vec<C>,
    pace: Pace,
    running: &Arc<Running>,
) -> Result<Figures, C::Error> {
    let began = now();
    let seconds = (pace.time.as_s().ceil() as usize).max(1);
    let (kinds, by_second) = (vec![KindFigures::default(); C::KINDS.len()], vec![0; seconds]);
    let figures = Arc::new(Mutex::new(Figures { kinds, by_second, ..Figures::default() }));
    let count = clients.len() as u64;
    let tasks: Vec<_> = (0..)
        .zip(clients)
        .map(|(number, client)| {
            let (running, figures) = (Arc::clone(running), Arc::clone(&figures));
            spawn(run_client((client, number, count), pace, began, running, figures))
        })
        .collect();
    let mut failed = Ok(());
    for task in tasks {
        failed = failed.and(task.await);
    }
    failed?;
    let mut figures = std::mem::take(&mut *figures.lock());
    figures.time = Nanos(now().since(began).0.saturating_sub(pace.warm_up.0));
    figures.kinds.iter_mut().for_each(|kind| kind.responses_ns.sort_unstable());
    Ok(figures)
}

async fn run_client<C: Client>(
    (mut client, number, count): (C, u64, u64),
    pace: Pace,
    began: Instant,
    running: Arc<Running>,
    figures: Arc<Mutex<Figures>>,
) -> Result<(), C::Error> {
    if pace.pauses {
        // Not all at once.
        let wait = client.random().random_range(0.0..20.0);
        sleep(Nanos::from_ms(wait * 1000.0)).await;
    }
    let warm_up = pace.warm_up;
    let is_over =
        |due: Nanos| due.0 >= warm_up.0 + pace.time.0 || running.is_over.load(Ordering::Relaxed);
    for turn in 0.. {
        // With a rate, clients take turns, and a response counts from when it was due.
        let due =
            pace.rate.map(|rate| Nanos::from_ms((turn * count + number) as f64 / rate * 1000.0));
        if let Some(due) = due.filter(|due| !is_over(*due)) {
            sleep(Nanos(due.0.saturating_sub(now().since(began).0))).await;
        }
        if is_over(due.unwrap_or_default().max(now().since(began))) {
            break;
        }
        let kind = client.next_kind();
        let (before_s, after_s) = client.pauses_s(kind);
        if pace.pauses {
            sleep(Nanos::from_ms(before_s * 1000.0)).await;
        }
        let (asked, mut retries) = (due.map_or_else(now, |due| began + due), 0);
        let done = client.run(kind, &mut retries).await;
        let response = now().since(asked);
        let counted = now().since(began).0.checked_sub(warm_up.0);
        {
            let figures = &mut *figures.lock();
            let Some(of_kind) = figures.kinds.get_mut(kind) else { continue };
            if counted.is_some() {
                of_kind.retries += retries;
            }
            if matches!(done, Ok(Done::Committed)) {
                running.committed.fetch_add(1, Ordering::Relaxed);
            }
            match (done, counted) {
                (Ok(Done::Committed), Some(counted)) => {
                    let second = Nanos(counted).as_s() as usize;
                    of_kind.committed += 1;
                    of_kind.responses_ns.push(response.0);
                    if let Some(count) = figures.by_second.get_mut(second) {
                        *count += 1;
                    }
                }
                (Ok(Done::RolledBack), Some(_)) => of_kind.rolled_back += 1,
                (Ok(_), None) => {}
                (Err(error), _) => {
                    running.stop();
                    return Err(error);
                }
            }
        }
        if pace.pauses {
            // Exponential, cut at ten times the mean: clause 5.2.5.4 of TPC-C.
            let uniform: f64 = client.random().random_range(f64::EPSILON..1.0);
            let paused_s = (-uniform.ln() * after_s).min(10.0 * after_s);
            sleep(Nanos::from_ms(paused_s * 1000.0)).await;
        }
    }
    Ok(())
}
