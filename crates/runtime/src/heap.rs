//! The C library's heaps.

/// Lets all threads allocate from one heap, where the C library is glibc. To be called before any thread is started.
///
/// By default each thread allocates from a heap of its own, and what is free in one heap serves no other thread. A store
/// allocates its queues in the threads that commit and its staged chunks in those that sweep. When queues shrink and chunks
/// grow, the process may come to hold half more than `Options::memory`. One heap prevents that, at the price of a lock.
#[expect(unsafe_code, reason = "the C library is told a setting")]
pub fn use_one_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it takes numbers, and may be called at any time; an unknown setting changes nothing.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Lets the C library keep some memory that is freed, where it is glibc, instead of giving it back to the system at once.
///
/// By default buffers from 128 KiB on come from the system one by one. Columns of batches are such buffers: the system clears
/// them each time, which took a third of the time of queries. They are taken from the heap now up to 32 MiB, and the heap keeps
/// up to 256 MiB that are free at its end.
#[expect(unsafe_code, reason = "the C library is told a setting")]
pub fn keep_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it takes numbers, and may be called at any time; an unknown setting changes nothing.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 32 << 20);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 256 << 20);
    }
}
