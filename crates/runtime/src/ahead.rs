//! Iterators that a background thread runs ahead of their consumer.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use tokio::sync::mpsc;

use crate::context::is_virtual;

/// The items of an iterator that runs in a background thread; see [`ahead`].
pub struct Ahead<T>(Source<T>);

enum Source<T> {
    Here(Box<dyn Iterator<Item = T> + Send>),
    Thread(mpsc::Receiver<std::thread::Result<T>>),
}

/// Runs an iterator in a background thread, up to two items ahead: one is ready, and the next one is being made. In virtual time,
/// which has one thread, items are made when they are asked for.
///
/// The thread ends with the iterator, or with the first item that it makes after [`Ahead`] was dropped. Neither the runtime nor
/// the process waits for it at its end, so the iterator may block, as on a pipe.
///
/// # Panics
/// When the operating system gives no thread.
pub fn ahead<T: Send + 'static>(mut items: impl Iterator<Item = T> + Send + 'static) -> Ahead<T> {
    if is_virtual() {
        return Ahead(Source::Here(Box::new(items)));
    }
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        while let Some(item) = catch_unwind(AssertUnwindSafe(|| items.next())).transpose() {
            let is_last = item.is_err();
            if sender.blocking_send(item).is_err() || is_last {
                return;
            }
        }
    });
    Ahead(Source::Thread(receiver))
}

impl<T> Ahead<T> {
    /// The next item; `None` behind the last. A panic of the iterator continues here.
    pub async fn next(&mut self) -> Option<T> {
        match &mut self.0 {
            Source::Here(items) => items.next(),
            Source::Thread(items) => match items.recv().await? {
                Ok(item) => Some(item),
                Err(panic) => resume_unwind(panic),
            },
        }
    }
}
