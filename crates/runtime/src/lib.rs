//! Virtual and real time behind one set of functions, and seeded randomness.
//!
//! Everything that does I/O is async and runs in one of these:
//!
//! - [`block_on_virtual`]: one thread, simulated time. When no task can run, time jumps to the
//!   earliest timer. The same seed gives the same run, to the nanosecond.
//! - [`block_on_real`]: tokio's multi-threaded runtime and the machine's clock.
//! - Any tokio runtime that the program made itself, of one thread or several, with timers and I/O
//!   (`enable_all`): the machine's clock. Tasks run there, so it must be driven as long as stores are open: one of
//!   one thread runs them only inside its `block_on`.
//! - [`wait`]: for programs without a runtime. It blocks the calling thread, and keeps a runtime in the background.
//!
//! Inside any, [`now`], [`sleep`], [`spawn`], [`blocking`] and [`random`] do the same thing, so
//! code above this crate never asks which one it runs under. Outside, [`now`] is the machine's clock, and what needs
//! a task, a thread or a timer fails with [`NoRuntime`]'s message. [`each_seed`] runs a simulation with many
//! seeds. Nothing outside this crate reads the
//! machine's clock, starts a thread or draws an unseeded random number.

mod ahead;
mod busy;
mod context;
mod cores;
mod heap;
mod interrupts;
mod random;
mod real;
mod seeds;
mod timers;
mod virtual_time;
mod wait;
mod watched;

pub use ahead::{Ahead, ahead};
pub use busy::BusyTime;
pub use context::{
    BoundTask, Task, blocking, check_runtime, check_timers, is_virtual, now, random, sleep,
    sleep_until, spawn, unique, yield_now,
};
pub use cores::map_on_cores;
pub use heap::use_one_heap;
pub use interrupts::Interrupts;
pub use random::{Random, seeded};
pub use real::{Stopwatch, block_on_real};
pub use seeds::each_seed;
pub use virtual_time::{block_on_virtual, block_on_virtual_with_files};
pub use wait::{NoRuntime, wait};
pub use watched::{Watched, watch};

#[cfg(test)]
mod tests;
