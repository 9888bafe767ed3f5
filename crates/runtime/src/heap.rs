//! The C library's heaps.

/// Lets all threads allocate from one heap, where the C library is glibc. To be called before any thread is started.
///
/// By default each thread has a heap of its own, and memory that one thread frees is not given to another. A store
/// fills its queues in one thread and keeps what sweeps found in others: as the share of these changes, the process
/// may come to hold half more than `Options::memory`. One heap keeps it near that, at the price of a lock.
#[expect(unsafe_code, reason = "the C library is told a setting")]
pub fn use_one_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it takes numbers, and may be called at any time; an unknown setting changes nothing.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}
