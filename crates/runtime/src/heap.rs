//! The C library's heaps.

/// Lets all threads allocate from one heap, where the C library is glibc. To be called before any thread is started.
///
/// By default each thread allocates from a heap of its own, and what is free in one heap serves no other thread. A store
/// allocates its queues in the threads that commit and its staged chunks in those that sweep. When queues shrink and chunks
/// grow, the process may come to hold half more than `Options::memory`. One heap prevents that, at the price of a lock.
#[expect(unsafe_code, reason = "the C library is told a setting")]
pub fn use_one_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it takes numbers, and an unknown setting changes nothing. No other thread allocates yet.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}
