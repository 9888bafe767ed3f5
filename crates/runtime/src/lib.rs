//! Virtual and real time behind one set of functions, and seeded randomness.
//!
//! Everything that does I/O is async and runs under one of two runtimes:
//!
//! - [`block_on_virtual`]: one thread, simulated time. When no task can run, time jumps to the
//!   earliest timer. The same seed gives the same run, to the nanosecond.
//! - [`block_on_real`]: tokio's multi-threaded runtime and the machine's clock.
//!
//! Inside either, [`now`], [`sleep`], [`spawn`], [`blocking`] and [`random`] do the same thing, so
//! code above this crate never asks which one it runs under. [`each_seed`] runs a simulation with many
//! seeds. Nothing outside this crate reads the
//! machine's clock, starts a thread or draws an unseeded random number.

mod context;
mod interrupts;
mod random;
mod real;
mod seeds;
mod timers;
mod virtual_time;
mod watched;

pub use context::{Task, blocking, is_virtual, now, random, sleep, sleep_until, spawn, unique};
pub use interrupts::Interrupts;
pub use random::Random;
pub use real::{Stopwatch, block_on_real};
pub use seeds::each_seed;
pub use virtual_time::{block_on_virtual, block_on_virtual_with_files};
pub use watched::{Watched, watch};

#[cfg(test)]
mod tests;
