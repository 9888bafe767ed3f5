//! File descriptors that a task waits for.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A file descriptor that becomes readable now and then.
#[derive(Debug)]
pub struct Watched(AsyncFd<OwnedFd>);

/// Watches `descriptor`, in real time.
#[expect(unsafe_code, reason = "tokio is told of a descriptor")]
pub fn watch(descriptor: OwnedFd) -> io::Result<Watched> {
    // SAFETY: it owns the descriptor, which stays open, and the same, until it is dropped with the registration.
    let watched = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) }?;
    Ok(Watched(watched))
}

impl Watched {
    /// Returns when it became readable since this returned last.
    pub async fn readable(&self) -> io::Result<()> {
        self.0.readable().await.map(|mut ready| ready.clear_ready())
    }
}
