//! Work that needs no runtime, on all cores.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Applies `work` to each of `items` on all cores; gives the results in the order of the items, so
/// that they do not depend on the number of cores.
///
/// # Panics
/// When `work` does.
pub fn map_on_cores<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(items.len()));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores.min(items.len()) {
            scope.spawn(|| {
                while let index = next.fetch_add(1, Ordering::Relaxed)
                    && let Some(item) = items.get(index)
                {
                    let result = work(item);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((index, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::map_on_cores;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        let items: Vec<u64> = (0..1000).collect();
        let squares = map_on_cores(&items, |item| item * item);
        assert!(squares.iter().zip(&items).all(|(square, item)| *square == item * item));
        assert_eq!(map_on_cores(&Vec::<u64>::new(), |item| *item), []);
    }
}
