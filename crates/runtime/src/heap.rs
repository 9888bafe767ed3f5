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

/// Lets the C library keep freed memory for reuse, where it is glibc. To be called before any thread is started.
///
/// By default glibc returns what is free at the end of a heap to the system, and large buffers one by one. The system clears
/// their pages when they are used again: with batches of TPC-H's queries, whose columns are buffers of 128 KiB, that took a
/// quarter of the time. With this, buffers of up to 32 MiB come from heaps. The main heap keeps up to 256 MiB that are free at
/// its end, and that of each other thread up to 64 MiB: the process may hold so much more than it uses.
#[expect(unsafe_code, reason = "the C library is told a setting")]
pub fn keep_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it takes numbers, and an unknown setting changes nothing. No other thread allocates yet.
    unsafe {
        // Where such a threshold is not allowed, glibc goes on finding its own.
        if libc::mallopt(libc::M_MMAP_THRESHOLD, 32 << 20) == 1 {
            libc::mallopt(libc::M_TRIM_THRESHOLD, 256 << 20);
        }
    }
}
