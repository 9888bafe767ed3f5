//! Tests of both runtimes: the same functions, the order and the determinism of virtual time.

use std::sync::Arc;

use futures::FutureExt;
use moirai_units::{Instant, Nanos};
use parking_lot::Mutex;
use rand::Rng;
use tokio::runtime::Builder;

use crate::{
    Stopwatch, ahead, block_on_real, block_on_virtual, block_on_virtual_with_files, blocking,
    check_timers, is_virtual, now, random, sleep, sleep_until, spawn, unique, wait,
};

#[test]
fn virtual_time_jumps_to_the_next_timer() {
    block_on_virtual(0, async {
        assert_eq!(now(), Instant::ZERO);
        sleep(Nanos(3_600_000_000_000)).await;
        assert_eq!(now().ns, 3_600_000_000_000);
    });
}

#[test]
fn timers_fire_in_time_order_then_in_order_of_registration() {
    let order = block_on_virtual(0, async {
        let order = Arc::new(Mutex::new(Vec::new()));
        let tasks: Vec<_> = [(30, 'c'), (10, 'a'), (30, 'd'), (20, 'b')]
            .into_iter()
            .map(|(ns, name)| {
                let order = Arc::clone(&order);
                spawn(async move {
                    sleep(Nanos(ns)).await;
                    order.lock().push(name);
                })
            })
            .collect();
        for task in tasks {
            task.await;
        }
        order.lock().clone()
    });
    assert_eq!(order, ['a', 'b', 'c', 'd']);
}

#[test]
fn time_does_not_move_while_a_task_can_run() {
    block_on_virtual(0, async {
        let (send, receive) = tokio::sync::oneshot::channel();
        let sleeper = spawn(sleep(Nanos(1)));
        spawn(async move { send.send(now()).ok() });
        assert_eq!(receive.await.ok(), Some(Instant::ZERO));
        assert_eq!(now(), Instant::ZERO, "the main task was runnable");
        sleeper.await;
        assert_eq!(now().ns, 1);
    });
}

#[test]
fn a_dropped_sleep_does_not_move_time() {
    block_on_virtual(0, async {
        futures::future::select(Box::pin(sleep(Nanos(5))), Box::pin(sleep(Nanos(500)))).await;
        sleep(Nanos(1)).await;
        assert_eq!(now().ns, 6);
    });
}

#[test]
fn a_timer_that_wakes_nobody_does_not_stop_time() {
    block_on_virtual(0, async {
        let mut left = Box::pin(sleep(Nanos(5)));
        assert!(left.as_mut().now_or_never().is_none());
        sleep(Nanos(10)).await;
        assert_eq!(now().ns, 10);
    });
}

#[test]
#[should_panic(expected = "virtual time stands still")]
fn waiting_for_nothing_is_a_panic_and_no_hang() {
    block_on_virtual(0, std::future::pending::<()>());
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        block_on_virtual(seed, async {
            let log = Arc::new(Mutex::new(Vec::new()));
            let tasks: Vec<_> = (0..20)
                .map(|task| {
                    let log = Arc::clone(&log);
                    spawn(async move {
                        let mut random = random(&format!("task {task}"));
                        for _ in 0..20 {
                            sleep(Nanos(random.random_range(0..100))).await;
                            log.lock().push((now(), task));
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await;
            }
            log.lock().clone()
        })
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn streams_of_different_names_differ() {
    block_on_virtual(7, async {
        let draw = |name| random(name).random::<u64>();
        assert_eq!(draw("a"), draw("a"));
        assert_ne!(draw("a"), draw("b"));
    });
}

#[test]
fn real_time_offers_the_same_functions() {
    block_on_real(0, async {
        let before = now();
        sleep_until(before + Nanos(2_000_000)).await;
        let task = spawn(async { blocking(|| 21).await * 2 });
        assert_eq!(task.await, 42);
        assert!(now() >= before + Nanos(2_000_000));
    });
}

#[test]
#[should_panic(expected = "planted")]
fn a_panic_in_a_task_reaches_who_awaits_it() {
    block_on_virtual(0, async { spawn(async { panic!("planted") }).await });
}

#[test]
fn unique_numbers_are_the_seeds_unless_they_outlive_the_run() {
    let two = async || [unique(), unique()];
    let [one, other] = block_on_virtual(7, two());
    assert_ne!(one, other);
    assert_eq!(block_on_virtual(7, two()), [one, other]);
    let lasting: Vec<u64> = (0..4).map(|_| block_on_virtual_with_files(7, two())[0]).collect();
    assert!(
        lasting.iter().all(|number| lasting.iter().filter(|other| *other == number).count() == 1)
    );
    let drawn = || random("name").random::<u64>();
    let seeded = block_on_virtual(7, async { drawn() });
    assert_eq!(block_on_virtual_with_files(7, async { drawn() }), seeded);
}

#[test]
fn a_runtime_of_the_program_has_real_time_and_virtual_time_stays_inside() {
    for mut builder in [Builder::new_current_thread(), Builder::new_multi_thread()] {
        builder.enable_all().build().unwrap().block_on(async {
            assert_eq!((is_virtual(), check_timers()), (false, Ok(())));
            let (before, watch) = (now(), Stopwatch::start());
            let task = spawn(async {
                sleep(Nanos(5_000_000)).await;
                blocking(now).await
            });
            assert!(task.await >= before + Nanos(5_000_000));
            assert!(watch.elapsed() >= Nanos(5_000_000));
        });
    }
    let before = now();
    block_on_virtual(1, async {
        assert_eq!((is_virtual(), now(), check_timers()), (true, Instant::ZERO, Ok(())));
    });
    assert!(!is_virtual() && now() >= before);
}

#[test]
fn waiting_keeps_tasks_alive_between_calls() {
    let (send, receive) = std::sync::mpsc::channel();
    wait(async {
        drop(spawn(async move {
            for step in 0..3 {
                sleep(Nanos(1_000_000)).await;
                send.send(step).unwrap();
            }
        }));
    });
    assert_eq!(receive.iter().collect::<Vec<i32>>(), [0, 1, 2]);
    // Any number of threads.
    let sum: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=8)
            .map(|number| {
                scope.spawn(move || wait(async move { spawn(async move { number }).await }))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(sum, 36);
}

#[test]
#[should_panic(expected = "block on it with `moirai_runtime::wait(...)`")]
fn a_task_outside_any_runtime_says_what_to_do() {
    drop(spawn(async {}));
}

#[test]
#[should_panic(expected = "enable_time")]
fn a_runtime_without_timers_is_refused() {
    let runtime = Builder::new_current_thread().enable_io().build().unwrap();
    let _ = runtime.block_on(async { check_timers() });
}

#[test]
fn items_made_ahead_come_in_order() {
    let all = async |count: u64| {
        let (mut items, mut sum) = (ahead(0..count), 0);
        for expected in 0..count {
            assert_eq!(items.next().await, Some(expected));
            sum += expected;
        }
        assert_eq!(items.next().await, None);
        sum
    };
    assert_eq!(block_on_virtual(1, all(1000)), 499_500);
    assert_eq!(block_on_real(1, all(1000)), 499_500);
}

/// The runtime would otherwise wait for the thread, and this test would never end.
#[test]
fn a_runtime_ends_while_an_iterator_blocks() {
    let (sender, receiver) = std::sync::mpsc::channel::<u64>();
    sender.send(7).unwrap();
    block_on_real(1, async {
        let mut items = ahead(receiver.into_iter());
        assert_eq!(items.next().await, Some(7));
    });
    drop(sender);
}

#[test]
#[should_panic(expected = "planted")]
fn a_panic_of_items_made_ahead_goes_on() {
    block_on_real(1, async {
        let mut items = ahead((0..9).inspect(|item| assert!(*item < 3, "planted")));
        while items.next().await.is_some() {}
    });
}
