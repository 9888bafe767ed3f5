//! Items that a thread makes ahead of who asks for them.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use tokio::sync::mpsc;

use crate::context::is_virtual;

/// Items that are made ahead; see [`ahead`].
pub struct Ahead<T>(Source<T>);

enum Source<T> {
    Here(Box<dyn Iterator<Item = T> + Send>),
    Thread(mpsc::Receiver<std::thread::Result<T>>),
}

/// Has a thread of its own make items: one that waits to be asked for, and the next one. In virtual time, which has one thread,
/// they are made when they are asked for.
///
/// The thread ends with the items, or with the first one that is made after [`Ahead`] was dropped. Neither a runtime nor the
/// process waits for it, so it may block for as long as it likes.
///
/// # Panics
/// When the operating system gives no thread.
pub fn ahead<T: Send + 'static>(items: impl Iterator<Item = T> + Send + 'static) -> Ahead<T> {
    if is_virtual() {
        return Ahead(Source::Here(Box::new(items)));
    }
    let (sender, receiver) = mpsc::channel(1);
    let mut items = items;
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
    /// The next item; `None` behind the last. A panic that ended the items goes on here.
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
